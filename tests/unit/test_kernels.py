# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kernel of the hybrid solver equals numpy, and every device the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from taichi_cloth_addon.engine import launch, runtime, vulkan_probe
from taichi_cloth_addon.engine.hybrid import (
    air_kernels,
    cycle_kernels,
    explicit_kernels,
    implicit_kernels,
    linear_kernels,
    multigrid_kernels,
    strain_kernels,
)
from tests.unit import kernel_cases
from tests.unit.kernel_cases import (
    ACCELERATION,
    GRAVITY,
    H_EXPLICIT,
    LABELS,
    NOISE,
    SHARE,
    SHIFTS,
    TIME,
    TURNS,
    Data,
    H,
    Result,
)
from tests.unit.kernel_reference import Array, Reference, as_matrices, triangle_air

ROOT = Path(__file__).resolve().parents[2]
DATA = {"curved": kernel_cases.curved_data, "flat": kernel_cases.flat_data}

MODULES = (
    air_kernels,
    cycle_kernels,
    explicit_kernels,
    implicit_kernels,
    linear_kernels,
    multigrid_kernels,
    strain_kernels,
)

# float32 keeps 6e-8 of a value. Sums of some ten terms, and differences of positions of 1 m
# that are 0.1 m apart, leave 1e-6 to 1e-5 of the largest term.
NEAR = 2e-5


class Case:
    """A data set, what the kernels made of it, and the reference."""

    def __init__(self, name: str) -> None:
        self.data: Data = DATA[name]()
        self.result: Result = kernel_cases.run_all(self.data)
        self.reference = Reference(
            self.data,
            as_matrices(self.result["air_drag"]),
            self.result["air_force"].astype(np.float64),
        )
        self.free = ~self.data.model.fixed

    def check(self, name: str, wanted: npt.ArrayLike, tolerance: float = NEAR) -> None:
        """Compare to a part of the largest value."""
        wanted = np.asarray(wanted)
        size = float(np.abs(wanted).max())
        found = self.result[name].astype(np.float64).reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * size, err_msg=name)


@pytest.fixture(scope="module", params=list(DATA))
def case(request: pytest.FixtureRequest, taichi_cpu: object) -> Case:
    """Both data sets."""
    return Case(request.param)


def test_data_has_what_kernels_distinguish(case: Case) -> None:
    """Fixed and softly pinned vertices, bending without a spring, compressed springs."""
    model = case.data.model
    assert model.fixed.sum() == 2
    assert (model.pin_stiffness > 0.0).sum() == 3
    assert (model.rows.spring < 0).any()
    i, j = model.network.vertices.T
    length = np.linalg.norm(case.data.x[j] - case.data.x[i], axis=1)
    assert (length < model.network.rest_length).any()
    assert (length > model.network.rest_length).any()
    assert (model.air_drag > 0.0).all()


def test_curved_data_is_curved() -> None:
    """The cylinder's hinges have a rest angle, the sheet's have none."""
    data = kernel_cases.curved_data()
    reference = Reference(data, np.zeros((data.model.vertex_count, 3, 3)), np.zeros((1, 3)))
    assert len(reference.hinges) > 10
    flat = kernel_cases.flat_data()
    reference = Reference(flat, np.zeros((flat.model.vertex_count, 3, 3)), np.zeros((1, 3)))
    assert len(reference.hinges) == 0


def test_air(case: Case) -> None:
    """Force and derivative on triangles; force is written as F(v) = force - D v."""
    force, drag, velocity = triangle_air(case.data)
    case.check("triangle_force", force + np.einsum("nab,nb->na", drag, velocity))
    np.testing.assert_allclose(
        as_matrices(case.result["triangle_drag"]), drag, atol=NEAR * np.abs(drag).max()
    )
    assert np.linalg.eigvalsh(drag).min() > -1e-12
    model = case.data.model
    total = np.zeros((model.vertex_count, 3))
    tensor = np.zeros((model.vertex_count, 3, 3))
    constant = force + np.einsum("nab,nb->na", drag, velocity)
    for corner in range(3):
        np.add.at(total, model.triangles[:, corner], constant)
        np.add.at(tensor, model.triangles[:, corner], drag)
    share = model.air_share[:, None]
    case.check("air_force", share * total)
    np.testing.assert_allclose(
        as_matrices(case.result["air_drag"]),
        share[:, :, None] * tensor,
        atol=NEAR * np.abs(tensor).max(),
    )


def test_air_drag_is_the_derivative(case: Case) -> None:
    """D is minus the force's derivative by the velocity, but for the change of |u| in the skin.

    That part is a hundredth of the rest.
    """
    force, drag, _ = triangle_air(case.data)
    step = 1e-3
    for axis in range(3):
        moved = kernel_cases.Data(case.data.model, case.data.seed)
        shifted = case.data.v.astype(np.float64) + step * np.eye(3)[axis]
        object.__setattr__(moved, "v", shifted)
        slope = (triangle_air(moved)[0] - force) / step
        np.testing.assert_allclose(-slope, drag[:, :, axis], atol=0.02 * np.abs(drag).max())


def test_explicit_operations(case: Case) -> None:
    """A launch of kicks and drifts with springs, dampers, bending, pins and air."""
    x, v = case.reference.operations(
        case.data.start.astype(np.float64),
        case.data.v.astype(np.float64),
        H_EXPLICIT,
        explicit_kernels.OPERATIONS,
    )
    case.check("explicit_x", x)
    case.check("explicit_v", v, 1e-4)


def test_forces_and_small_kernels(case: Case) -> None:
    """Row forces, inertial displacement, start, coasting, scaled sum and the end of a step."""
    data, free = case.data, case.free[:, None]
    start, v = data.start.astype(np.float64), data.v.astype(np.float64)
    force = case.reference.couplings_force(data.x.astype(np.float64), v)
    case.check("row_forces", force, 1e-4)
    inverse = np.where(free, 1.0 / data.model.mass[:, None], 0.0)
    air = case.result["air_force"].astype(np.float64)
    acceleration = np.array(GRAVITY) + inverse * (air + case.result["row_forces"])
    case.check("inertial_displacement", H * v + H**2 * acceleration)
    before, moved = (values.astype(np.float64) for values in (data.pin_velocity, data.x))
    start_of = (moved + H * (4.0 * v - before)) / 3.0
    case.check("second_inertial", start_of + H**2 * acceleration)
    case.check("lag_forces", 0.5 * force + case.reference.lag_force(SHARE), 1e-4)
    goal = data.pin_target + TIME * data.pin_velocity.astype(np.float64)
    case.check("start_displacement", np.where(free, 0.5 * (data.target - start), goal - start))
    case.check("coasting_step", np.where(free, H * v, 0.0))
    label = LABELS[np.arange(data.model.vertex_count) % len(LABELS)]
    rigid = SHIFTS[label] + np.cross(TURNS[label], start + data.x)
    case.check("moved_rigidly", data.x + np.where(label[:, None] >= 0, rigid, 0.0))
    case.check("add_scaled", data.x + 0.25 * v)
    case.check("finished_x", data.x)
    shortened, excess = case.reference.shorten()
    assert excess.max() > 0.01
    case.check("shortened", shortened - start, 1e-4)
    case.check("excess", excess, 1e-4)
    assert case.result["most_excess"][0] == case.result["excess"].max()
    displacement = data.x.astype(np.float64) - start
    velocity = (displacement - SHARE * (data.target.astype(np.float64) - start)) / H
    case.check("finished_v", np.where(free, velocity, data.pin_velocity))
    case.check("finished_moved", displacement)
    case.check("finished_v_before", v)


def test_curved_hinges(case: Case) -> None:
    """Energies above the start's, and forces that add up to nothing."""
    reference = case.reference
    if len(reference.hinges) == 0:
        return
    change = reference.determinants(case.data.x.astype(np.float64))
    change = change - reference.determinants(reference.start)
    case.check("hinge_energy", -reference.curved * change)
    forces = case.result["hinge_forces"].reshape(-1, 4, 3)
    np.testing.assert_allclose(forces.sum(axis=1), 0.0, atol=NEAR * np.abs(forces).max())


def test_gradient_and_energy(case: Case) -> None:
    """The energy is the reference's, the gradient its derivative, and zero where fixed."""
    reference, x = case.reference, case.data.x.astype(np.float64)
    change = reference.determinants(x) - reference.determinants(reference.start)
    # The curved hinges' energy is summed apart.
    wanted = reference.energy(x) - reference.start_energy()
    wanted += float((reference.curved * change).sum())
    size = float(np.abs(case.result["energy"]).sum())
    assert float(case.result["energy_sum"][0]) == pytest.approx(wanted, abs=NEAR * size)
    case.check("gradient", reference.gradient(x), 1e-4)
    assert (case.result["gradient"][~case.free] == 0.0).all()


def free_part(case: Case, matrix: Array) -> Array:
    """Rows and columns of free vertices."""
    keep = np.repeat(case.free, 3)
    return matrix[np.ix_(keep, keep)]


@pytest.mark.parametrize("state", ["start", "x"])
def test_hessian_is_positive_semidefinite(case: Case, state: str) -> None:
    """Symmetric to rounding, positive even among compressed springs."""
    matrix = case.reference.hessian(case.result[f"{state}_couplings"], case.result[f"{state}_own"])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6 * np.abs(matrix).max())
    values = np.linalg.eigvalsh(free_part(case, 0.5 * (matrix + matrix.T)))
    assert values.min() > 0.0


def test_hessian_is_the_gradients_derivative(taichi_cpu: object) -> None:
    """Where no spring is compressed, the sheet's rest is flat, and at the step's start.

    There the dashpots' direction is the spring's own and nothing is clamped.
    """
    data = kernel_cases.flat_data()
    stretched = (1.3 * data.model.positions).astype(np.float32) + 0.1 * (
        data.start - data.model.positions.astype(np.float32)
    )
    i, j = data.model.network.vertices.T
    length = np.linalg.norm(stretched[j] - stretched[i], axis=1)
    assert (length > data.model.network.rest_length).all()
    for name in ("start", "x"):
        object.__setattr__(data, name, stretched)
    result = kernel_cases.run_all(data)
    reference = Reference(
        data, as_matrices(result["air_drag"]), result["air_force"].astype(np.float64)
    )
    matrix = reference.hessian(result["start_couplings"], result["start_own"])
    free = np.flatnonzero(~data.model.fixed)
    x = stretched.astype(np.float64)
    step = 1e-4
    wanted = []
    for vertex in free[:: max(1, len(free) // 6)]:
        for axis in range(3):
            moved = [x.copy(), x.copy()]
            moved[0][vertex, axis] += step
            moved[1][vertex, axis] -= step
            slope = (reference.gradient(moved[0]) - reference.gradient(moved[1])) / (2.0 * step)
            wanted.append((3 * vertex + axis, slope.reshape(-1)))
    keep = np.repeat(~data.model.fixed, 3)
    for row, slope in wanted:
        np.testing.assert_allclose(matrix[row][keep], slope[keep], atol=2e-4 * np.abs(matrix).max())


@pytest.mark.parametrize("state", ["start", "x"])
def test_linear_solvers(case: Case, state: str) -> None:
    """Multigrid and SOR find what numpy finds; inverse blocks and norm agree.

    Both stop at 1e-5 of the residual; the condition of some 100 makes 1e-3 of that.
    """
    result = case.result
    matrix = case.reference.hessian(result[f"{state}_couplings"], result[f"{state}_own"])
    keep = np.repeat(case.free, 3)
    gradient = case.data.v.astype(np.float64).reshape(-1)
    wanted = np.zeros_like(gradient)
    wanted[keep] = np.linalg.solve(free_part(case, matrix), -gradient[keep])
    assert (result[f"{state}_solved_to"] <= 1e-5).all()
    case.check(f"{state}_by_multigrid", wanted, 1e-3)
    case.check(f"{state}_by_sweeps", wanted, 1e-3)
    blocks = np.zeros((case.data.model.vertex_count, 3, 3))
    for vertex in np.flatnonzero(case.free):
        own = slice(3 * vertex, 3 * vertex + 3)
        blocks[vertex] = np.linalg.inv(matrix[own, own])
    found = as_matrices(result[f"{state}_inverse"])
    np.testing.assert_allclose(found, blocks, atol=1e-4 * np.abs(blocks).max())
    v = case.data.v.astype(np.float64)
    norm = float(np.einsum("na,nab,nb->", v, blocks, v))
    assert result[f"{state}_norm2"][0] == pytest.approx(norm, rel=1e-4)
    square = case.data.model.mass**2 * (NOISE**2 + ACCELERATION**2)
    floor = float((square * np.trace(blocks, axis1=1, axis2=2)).sum()) / 3.0
    moved = getattr(case.data, state).astype(np.float64) - case.data.start
    wanted = [(v * moved).sum(), 0.5 * (case.data.model.mass[:, None] * moved**2).sum()]
    np.testing.assert_allclose(result[f"{state}_step_energies"], wanted, rtol=1e-4, atol=1e-7)
    assert result[f"{state}_floor2"][0] == pytest.approx(floor, rel=1e-4)
    free = np.where(keep, gradient, 0.0)
    assert result[f"{state}_curvature"][0] == pytest.approx(free @ matrix @ free, rel=1e-4)


@pytest.mark.parametrize("state", ["start", "x"])
def test_bounding_blocks_bound(case: Case, state: str) -> None:
    """The Hessian is not above twice the bounding blocks: damped Jacobi converges."""
    result = case.result
    matrix = case.reference.hessian(result[f"{state}_couplings"], result[f"{state}_own"])
    blocks = as_matrices(result[f"{state}_bounding_inverse"])[case.free]
    count = len(blocks)
    root = np.zeros((count, 3, count, 3))
    index = np.arange(count)
    root[index, :, index, :] = np.linalg.cholesky(blocks)
    half = root.reshape(3 * count, 3 * count)
    values = np.linalg.eigvalsh(half.T @ free_part(case, matrix) @ half)
    assert values.max() <= 2.0 + 1e-4


def test_two_runs_are_bit_equal(case: Case) -> None:
    """Sums have a fixed order."""
    again = kernel_cases.run_all(case.data)
    for name, values in case.result.items():
        assert values.tobytes() == again[name].tobytes(), name


def in_process(device: str, folder: Path, kernel_cache: str, threads: int) -> Result:
    """All results from a device, in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.unit.kernel_cases", device),
            *(str(folder / "all.npz"), kernel_cache, str(threads)),
        ],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 3:
        pytest.skip(f"{device} does not start here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "all.npz") as saved:
        return dict(saved)


@pytest.fixture(scope="module")
def on_vulkan(tmp_path_factory: pytest.TempPathFactory, kernel_cache: str) -> Result:
    """All results from a Vulkan device."""
    if not vulkan_probe.devices():
        pytest.skip("no Vulkan device here (a driver or mesa's lavapipe is needed)")
    return in_process("VULKAN", tmp_path_factory.mktemp("vulkan"), kernel_cache, 1)


def test_threads_change_nothing(tmp_path: Path, kernel_cache: str) -> None:
    """Three threads give the bits that two give: gathers, and sums in a fixed order.

    One thread alone has kernels of its own, whose multiplications and additions the compiler
    may fuse otherwise.
    """
    two, three = (
        in_process("CPU", make_folder(tmp_path / str(threads)), kernel_cache, threads)
        for threads in (2, 3)
    )
    for key, values in two.items():
        assert values.tobytes() == three[key].tobytes(), key


def make_folder(folder: Path) -> Path:
    """Make it and return it."""
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", list(DATA))
def test_vulkan_agrees(name: str, on_vulkan: Result, taichi_cpu: object) -> None:
    """Kernels on Vulkan give what they give on the CPU, to float32.

    2e-5 of the largest value, and what the solvers' stop leaves for their solutions.
    """
    here = kernel_cases.run_all(DATA[name]())
    for key, values in here.items():
        if key.endswith("solved_to"):
            continue
        there = on_vulkan[f"{name}_{key}"]
        loose = key.endswith(("by_multigrid", "by_sweeps"))
        tolerance = (1e-3 if loose else 1e-4) * float(np.abs(values).max(initial=0.0))
        np.testing.assert_allclose(there, values, rtol=0, atol=tolerance, err_msg=key)


def test_upload_takes_empty_arrays(taichi_cpu: object) -> None:
    """A model without triangles or hinges still has arrays that Taichi takes."""
    assert runtime.upload(np.zeros((0, 3))).to_numpy().shape == (1, 3)
    assert runtime.upload(np.zeros(0, dtype=np.int64)).to_numpy().dtype == np.int32


def test_no_kernel_is_left_out() -> None:
    """A kernel that is added must be added to the cases."""
    names = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, launch.Kernel) and value.__module__ == module.__name__
    }
    cases = (ROOT / "tests/unit/kernel_cases.py").read_text(encoding="utf-8")
    # These run inside the linear solvers.
    solvers = (multigrid_kernels, cycle_kernels)
    inside = {"sweep_colors", *(name for module in solvers for name in vars(module))}
    assert len(names) > 10
    assert {name for name in names - inside if f".{name}" not in cases} == set()
