# SPDX-License-Identifier: GPL-3.0-or-later
"""The stability criterion: sufficient everywhere, sharp on a grid, symmetric."""

from dataclasses import replace

import numpy as np
import pytest

from taichi_cloth_addon.engine.hybrid import criterion, solver
from taichi_cloth_addon.engine.material import Fabric
from taichi_cloth_addon.engine.model import ClothModel, ClothPart, ClothState, build_model
from taichi_cloth_addon.engine.rows import build_rows
from taichi_cloth_addon.engine.simulate import SimulationError
from taichi_cloth_addon.engine.solver import Integrator, Quality
from taichi_cloth_addon.engine.springs import SpringKind, SpringNetwork
from tests.physics.scenes import (
    DOWN,
    NOTHING,
    Scene,
    cloth,
    elastic_energy,
    fabric,
    frame_inputs,
    kinetic_energy,
    momentum,
    moving,
    run,
    sample,
    scene,
    solved_far,
)
from tests.shapes import disc_mesh, grid_mesh, hexagon_sheet, jittered_sheet, sphere_mesh
from tests.unit.kernel_reference import bending_form

STEPS = 10
H = 1.0 / (24.0 * STEPS)


def stiffness_matrix(model: ClothModel, positions: np.ndarray, springs: np.ndarray) -> np.ndarray:
    """(3 V, 3 V) of the chosen springs, compression dropped."""
    count = model.vertex_count
    result = np.zeros((count, 3, count, 3))
    network = model.network
    for s in np.flatnonzero(springs):
        i, j = network.vertices[s]
        d = positions[j] - positions[i]
        length = np.linalg.norm(d)
        d = d / length
        k = network.stiffness[s]
        a = max(0.0, k * (1.0 - network.rest_length[s] / length))
        tensor = a * np.eye(3) + (k - a) * np.outer(d, d)
        for p, q, sign in ((i, i, 1.0), (j, j, 1.0), (i, j, -1.0), (j, i, -1.0)):
            result[p, :, q, :] += sign * tensor
    return result.reshape(3 * count, 3 * count)


def largest_ratio(model: ClothModel, matrix: np.ndarray) -> float:
    """Largest eigenvalue of M⁻¹ K over the free vertices, 1/s²."""
    free = np.repeat(~model.fixed, 3)
    root = 1.0 / np.sqrt(np.repeat(model.mass, 3)[free])
    scaled = root[:, None] * matrix[np.ix_(free, free)] * root
    return float(np.linalg.eigvalsh(scaled)[-1])


SHAPES = {
    "grid": grid_mesh(6, 7),
    "1:3 cells": grid_mesh(6, 6, 1.0, 3.0),
    "jittered": jittered_sheet(7, 6),
    "disc": disc_mesh(3, 8),
    "sphere": sphere_mesh(7, 5, 0.5),
    "hexagons": hexagon_sheet(3, 3, 0.2),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("bent", [0.0, 0.1])
def test_stable_step_is_below_the_limit(name: str, bent: float) -> None:
    """h² K <= 4 M as matrices, with all springs and bending, at any shape; and not far below.

    The bound of each spring by its ends costs a factor of 2 in the stiffness at most on
    grids; a step of a quarter of the limit would be waste.
    """
    mesh, rest = SHAPES[name]
    random = np.random.default_rng(0)
    positions = rest + bent * random.normal(size=rest.shape) * rest.std() / 4.0
    part = cloth((mesh, rest), fabric(bending_stiffness=1e-3), [0, 3])
    model = build_model([part])
    x = positions[model.order] - model.origin
    matrix = stiffness_matrix(model, x, np.ones(len(model.network.vertices), dtype=bool))
    upper = np.kron(bending_form(replace(model, bending=model.bending_upper)), np.eye(3))
    limit = 2.0 / np.sqrt(largest_ratio(model, matrix + upper))
    step = criterion.stable_step(model, x, 1.0)
    assert step <= limit * (1.0 + 1e-9)
    assert step >= 0.25 * limit
    assert criterion.stable_step(model, x) < step


@pytest.mark.parametrize("seed", range(8))
def test_marked_explicit_is_stable(seed: int) -> None:
    """What mark() calls explicit satisfies h² K_E <= 4 M, on networks of any stiffness.

    Stiffness and mass vary by powers of ten, so that marking is partial.
    """
    random = np.random.default_rng(seed)
    mesh, rest = list(SHAPES.values())[seed % len(SHAPES)]
    model = build_model([cloth((mesh, rest), pins=[0])])
    factor = 10.0 ** random.uniform(-4.0, 1.0, len(model.network.vertices))
    network = replace(model.network, stiffness=model.network.stiffness * factor)
    mass = model.mass * 10.0 ** random.uniform(-1.0, 1.0, model.vertex_count)
    model = replace(model, network=network, mass=mass)
    x = model.positions + 0.05 * random.normal(size=rest.shape)
    marking = criterion.mark(model, x, H)
    assert 0.0 < marking.spring.mean() < 1.0
    ratio = largest_ratio(model, stiffness_matrix(model, x, marking.spring))
    assert H**2 * ratio <= 4.0 * criterion.SAFETY * (1.0 + 1e-9)
    assert marking.load.max() <= criterion.SAFETY * (1.0 + 1e-9)
    assert criterion.largest_load(model, x, H, marking) == pytest.approx(marking.load.max())


def test_marking_is_symmetric_in_the_ends() -> None:
    """A spring is explicit only if both its ends pass: turned springs are marked alike."""
    model = mixed().model
    x = model.positions
    marking = criterion.mark(model, x, H)
    turned = replace(
        model, network=replace(model.network, vertices=model.network.vertices[:, ::-1])
    )
    np.testing.assert_array_equal(criterion.mark(turned, x, H).spring, marking.spring)
    assert 0.0 < marking.spring.mean() < 1.0
    stiff = ~marking.spring & (model.network.kind == SpringKind.STRUCTURAL)
    assert stiff.any()


def test_marking_does_not_depend_on_the_numbering() -> None:
    """The same springs between the same points are explicit in a renumbered mesh."""
    mesh, rest = jittered_sheet(7, 7)
    number = np.random.default_rng(2).permutation(len(rest))
    shuffled = replace(mesh, corners=number[mesh.corners].astype(np.int32))
    moved = np.empty_like(rest)
    moved[number] = rest
    marked = []
    for shape in ((mesh, rest), (shuffled, moved)):
        sheet = fabric(tension_stiffness=100.0, shear_stiffness=2.0, bending_stiffness=1e-5)
        model = build_model([cloth(shape, sheet)])
        spring = criterion.mark(model, model.positions, H).spring
        middle = model.positions[model.network.vertices].mean(axis=1)
        keys = np.round(middle * 1e6).astype(np.int64)
        marked.append({tuple(key): bool(flag) for key, flag in zip(keys, spring, strict=True)})
    assert marked[0] == marked[1]
    assert 0 < sum(marked[0].values()) < len(marked[0])


def test_fixed_vertices_do_not_count() -> None:
    """Against a fixed end a spring weighs once, and the fixed end has no limit."""
    free = build_model([cloth(grid_mesh(5, 5))])
    held = build_model([cloth(grid_mesh(5, 5), pins=np.arange(25)[np.arange(25) != 12])])
    middle = np.flatnonzero(free.order == 12)[0]
    loose = criterion.bounds(free, free.positions).stiffness[middle]
    tight = criterion.bounds(held, held.positions).stiffness
    assert tight == pytest.approx([0.5 * loose])
    none = build_model([cloth(grid_mesh(3, 3), pins=np.arange(9))])
    assert criterion.stable_step(none, none.positions) == float("inf")


def test_damping_shortens_the_step() -> None:
    """h² k + 2 h c = 4 m at the limit: one free vertex in the middle, c of the springs around."""
    pins = np.arange(9)[np.arange(9) != 4]
    sheet = fabric(tension_damping=5.0, shear_damping=0.5)
    model = build_model([cloth(grid_mesh(3, 3), sheet, pins)])
    step = criterion.stable_step(model, model.positions, 1.0)
    bounds = criterion.bounds(model, model.positions)
    left = step**2 * bounds.stiffness + 2.0 * step * bounds.damping
    assert left[0] == pytest.approx(4.0 * bounds.mass[0])
    assert bounds.damping[0] > 0.0


# -- runs ------------------------------------------------------------------------------------


def one_kind(kind: SpringKind, ratio: float) -> Scene:
    """A flat grid with springs of one kind alone, h² k / m = ratio for its inner vertices.

    ``h`` is the solver's step of 1/240 s. Springs along the border are as stiff as inside.
    """
    mesh, rest = grid_mesh(12, 12)
    what = scene(cloth((mesh, rest)), gravity=NOTHING)
    network = what.model.network
    chosen = network.kind == kind
    mass = what.model.mass.max()
    network = SpringNetwork(
        network.vertices[chosen],
        network.kind[chosen],
        network.rest_length[chosen],
        np.full(chosen.sum(), ratio * mass / H**2),
        np.zeros(chosen.sum()),
    )
    model = replace(what.model, network=network, mass=np.full(144, mass))
    model = replace(model, rows=build_rows(144, network, model.bending))
    return Scene(model, what.inputs)


def force_everything_explicit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let mark() call all springs explicit."""

    def everything(model: ClothModel, positions: np.ndarray, h: float) -> criterion.Marking:
        springs = np.ones(len(model.network.vertices), dtype=bool)
        hinges = np.ones(len(model.hinges.vertices), dtype=bool)
        return criterion.Marking(springs, hinges, np.zeros(model.vertex_count))

    monkeypatch.setattr(criterion, "mark", everything)
    monkeypatch.setattr(criterion, "largest_load", lambda *_: 0.0)
    # No second try with shorter steps either.
    monkeypatch.setattr(solver, "_TRIES", 1)


def energy_growth(what: Scene, seconds: float) -> float:
    """Largest energy of the run over the first, started from waves of all lengths, 2e-5 m.

    Small, because a stretched spring is stiffer across: 0.1 % of strain leaves a margin of 1 %.
    """
    random = np.random.default_rng(0)
    model = what.model
    positions = model.world_positions(model.first_state())
    noise = random.normal(size=positions.shape) * [2e-5, 2e-5, 0.0]
    start = moving(model, positions + noise, 0.0 * positions)
    first = elastic_energy(model, start)
    try:
        frames = run(what, seconds, Integrator.SOR, substeps=STEPS, start=start)
    except SimulationError:
        return np.inf
    states: list[ClothState] = [frame.state for frame in frames]
    return max(elastic_energy(model, s) + kinetic_energy(model, s) for s in states) / first


@pytest.mark.parametrize("kind", list(SpringKind))
def test_one_kind_on_a_grid(
    kind: SpringKind, monkeypatch: pytest.MonkeyPatch, taichi_cpu: object
) -> None:
    """h² k / m = 2 forced explicit blows up, 0.99 of the bound h² k / m = 1 runs.

    The shortest waves of a grid have omega² = 4 k / m for each kind, since a direction has two
    springs at a vertex; symplectic steps want h² omega² <= 4. What runs keeps its energy
    within the factor (1 - h² omega² / 4)^-1 = 100 of symplectic Euler near its limit, and
    some of rounding.
    """
    force_everything_explicit(monkeypatch)
    assert energy_growth(one_kind(kind, 2.0), 0.5) > 1e6
    assert energy_growth(one_kind(kind, 0.99), 2.0) < 1e3


@pytest.mark.parametrize("kind", list(SpringKind))
def test_bound_per_kind_on_a_grid(kind: SpringKind) -> None:
    """The criterion itself: without its safety, h² k / m = 1 is the most for each kind."""
    for ratio, wanted in ((0.99, True), (1.01, False)):
        model = one_kind(kind, ratio).model
        marking = criterion.mark(model, model.positions, H, 1.0)
        inner = (np.abs(model.positions[:, :2]) < 0.25).all(axis=1)
        springs = inner[model.network.vertices].all(axis=1)
        assert springs.any()
        assert (marking.spring[springs] == wanted).all()


def mixed() -> Scene:
    """A stiff light sheet beside a heavy soft one of the same mesh, hanging together.

    Density and stiffness change across the sheet, so the criterion splits it.
    """
    mesh, rest = grid_mesh(14, 8, 1.0, 0.5)
    sheet = fabric(
        tension_stiffness=200.0,
        shear_stiffness=20.0,
        bending_stiffness=1e-5,
        tension_damping=0.2,
        shear_damping=0.05,
    )
    part = cloth((mesh, rest), sheet, [98, 105, 111])
    model = build_model([part])
    soft = (model.positions[:, 0] + model.origin[0]) > 0.5
    mass = np.where(soft, 5.0, 1.0) * model.mass
    between = soft[model.network.vertices].all(axis=1)
    factor = np.where(between, 0.05, 1.0)
    network = replace(
        model.network,
        stiffness=model.network.stiffness * factor,
        damping=model.network.damping * factor,
    )
    inputs = frame_inputs([part], sample([part], DOWN))
    return Scene(replace(model, network=network, mass=mass), inputs)


@pytest.mark.parametrize("integrator", [Integrator.IMPLICIT, Integrator.SOR])
def test_split_gives_what_all_implicit_gives(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch, taichi_cpu: object
) -> None:
    """A mixed scene is really split, and moves as it does without the split.

    Explicit parts lack the damping of backward Euler, first order in the step of 1/240 s:
    after 1/4 s and a fall of 0.3 m, within 3 % of that, 1 cm.
    """
    what = mixed()
    with solved_far():
        split = run(what, 0.25, integrator, substeps=STEPS, quality=Quality.FINAL)
    assert 0.05 < split[-1].report.explicit_share < 0.95  # type: ignore[union-attr]

    def nothing(model: ClothModel, positions: np.ndarray, h: float) -> criterion.Marking:
        springs = np.zeros(len(model.network.vertices), dtype=bool)
        hinges = np.zeros(len(model.hinges.vertices), dtype=bool)
        return criterion.Marking(springs, hinges, np.zeros(model.vertex_count))

    monkeypatch.setattr(criterion, "mark", nothing)
    with solved_far():
        whole = run(what, 0.25, integrator, substeps=STEPS, quality=Quality.FINAL)
    assert whole[-1].report.explicit_share == 0.0  # type: ignore[union-attr]
    fallen = np.abs(whole[-1].positions - whole[0].positions).max()
    assert fallen > 0.2
    np.testing.assert_allclose(split[-1].positions, whole[-1].positions, atol=0.01)


@pytest.mark.parametrize("integrator", [Integrator.IMPLICIT, Integrator.SOR])
def test_split_keeps_momentum(integrator: Integrator, taichi_cpu: object) -> None:
    """Explicit springs are equal and opposite too: as without a split, 5e-3 of sum m |v|."""
    held = mixed()
    model = replace(
        held.model,
        fixed=np.zeros(held.model.vertex_count, dtype=bool),
        pin_vertices=np.zeros(0, dtype=np.int32),
        pin_stiffness=np.zeros(0),
        pin_damping=np.zeros(0),
    )
    still = held.inputs.samples[0]
    inputs = replace(
        held.inputs,
        samples=(replace(still, gravity=NOTHING, pin_targets=np.zeros((0, 3))),),
    )
    random = np.random.default_rng(1)
    positions = model.world_positions(model.first_state())
    start = moving(
        model,
        1.02 * positions + 0.003 * random.normal(size=positions.shape),
        0.5 * random.normal(size=positions.shape),
    )
    before = momentum(model, start)
    scale = float((model.mass * np.linalg.norm(start.velocities, axis=1)).sum())
    frames = run(Scene(model, inputs), 0.25, integrator, start=start)
    assert 0.0 < frames[-1].report.explicit_share < 1.0  # type: ignore[union-attr]
    for frame in frames:
        assert np.abs(momentum(model, frame.state) - before).max() < 5e-3 * scale


def test_split_resumes_bit_for_bit(taichi_cpu: object) -> None:
    """The split is a function of the state, so a bake gone on from a frame is the same bake."""
    what = mixed()
    frames = run(what, 0.5, Integrator.IMPLICIT)
    assert 0.0 < frames[5].report.explicit_share < 1.0  # type: ignore[union-attr]
    for at in (3, 6, 9):
        rest = run(what, 0.5 - at / 24.0, Integrator.IMPLICIT, start=frames[at].state)
        for one, two in zip(frames[at + 1 :], rest, strict=True):
            assert one.state.positions.tobytes() == two.state.positions.tobytes()


SHEETS = {
    "silk": Fabric(density=0.06, tension_stiffness=400.0, shear_stiffness=15.0, air_drag=0.0),
    "stiff, undamped": fabric(tension_stiffness=1e4, shear_stiffness=1e3, bending_stiffness=1e-3),
    "no shear": fabric(tension_stiffness=200.0, shear_stiffness=0.0),
    "much damping": fabric(tension_damping=5.0, shear_damping=5.0, bending_damping=1e-4),
}


@pytest.mark.parametrize("integrator", [Integrator.EXPLICIT, Integrator.IMPLICIT])
@pytest.mark.parametrize("name", SHEETS)
@pytest.mark.parametrize("shape", ["jittered", "disc"])
def test_long_runs_stay_bounded(
    integrator: Integrator, name: str, shape: str, taichi_cpu: object
) -> None:
    """Kinetic, elastic and potential energy together never exceed the first.

    But for the oscillation of symplectic energy near the stable step, 10 % of what has fallen.
    """
    mesh, rest = SHAPES[shape]
    part: ClothPart = cloth((mesh, rest), SHEETS[name], [0, 2])
    what = scene(part)
    model = what.model
    frames = run(what, 1.0, integrator, fps=24.0)

    def potential(state: ClothState) -> float:
        return float(9.81 * (model.mass * state.positions[:, 2].astype(np.float64)).sum())

    first = potential(frames[0].state)
    for frame in frames:
        moving_energy = kinetic_energy(model, frame.state) + elastic_energy(model, frame.state)
        fallen = first - potential(frame.state)
        assert moving_energy <= 1.1 * max(fallen, 0.0) + 1e-6
