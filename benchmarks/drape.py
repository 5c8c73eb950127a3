# SPDX-License-Identifier: GPL-3.0-or-later
"""The drape coefficient of fabrics, as Cusick measures it (BS 5058, ISO 9073-9).

A disc of 30 cm lies on a plate of 18 cm; its rim hangs down. The coefficient is the shadow of
the rim over the rim's flat area, in per cent: a cloth without stiffness has a small one, a
board has 100.
"""

import time
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt

from taichi_cloth_addon.engine.inputs import FrameInputs, Sample
from taichi_cloth_addon.engine.material import PRESETS, Fabric
from taichi_cloth_addon.engine.mesh import Mesh, triangulate
from taichi_cloth_addon.engine.model import ClothPart, build_model
from taichi_cloth_addon.engine.simulate import simulate
from taichi_cloth_addon.engine.solver import Integrator, SolverOptions

from .tables import table

Array = npt.NDArray[np.float64]

DISC, PLATE = 0.15, 0.09  # radii, m
FPS = 24.0
_PIXEL = 0.5e-3
# Drag coefficient per density, m²/kg.
_THICK_AIR = 140.0
# Published ranges (in per cent) by preset; see the table's last column for those without.
RANGES = {
    "SILK": (20, 40),
    "COTTON": (60, 76),
    "DENIM": (70, 90),
    "WOOL": (40, 70),
    "FLAG": (20, 40),
    "LEATHER": (47, 70),
}


@dataclass(frozen=True)
class Drape:
    """A draped disc.

    Attributes:
        positions: (V, 3) m.
        triangles: (T, 3).
        coefficient: per cent.
        folds: number of folds of the rim.
        change: of the coefficient over the last half second, per cent.
    """

    positions: Array
    triangles: npt.NDArray[np.int32]
    coefficient: float
    folds: int
    change: float


def rim_mesh(rings: int, segments: int) -> tuple[Mesh, Array, npt.NDArray[np.int32]]:
    """The rim and two rings on the plate, quads; its vertices on the plate."""
    step = (DISC - PLATE) / rings
    radii = PLATE + step * np.arange(-2, rings + 1)
    angle = np.arange(segments) * (2.0 * np.pi / segments)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(segments)], axis=1)
    positions = (radii[:, None, None] * circle).reshape(-1, 3)
    index = np.arange(len(positions), dtype=np.int32).reshape(-1, segments)
    following = np.roll(index, -1, axis=1)
    quads = np.stack([index[:-1], index[1:], following[1:], following[:-1]], axis=-1)
    corners = quads.reshape(-1)
    offsets = np.arange(corners.size // 4 + 1, dtype=np.int32) * 4
    mesh = Mesh(len(positions), offsets, corners, np.zeros((0, 2), dtype=np.int32))
    return mesh, positions, index[:3].reshape(-1)


def shadow(positions: Array, triangles: npt.NDArray[np.int32]) -> float:
    """Area of the projection on the ground, with everything inside the plate, m²."""
    size = np.abs(positions[:, :2]).max()
    longest = np.linalg.norm(
        positions[triangles] - positions[np.roll(triangles, 1, axis=1)], axis=2
    ).max()
    count = int(np.ceil(longest / (0.8 * _PIXEL)))
    first, second = np.meshgrid(np.arange(count + 1), np.arange(count + 1))
    inside = first + second <= count
    u, v = first[inside] / count, second[inside] / count
    a, b, c = (positions[triangles[:, k], :2] for k in range(3))
    pixels = int(np.ceil(2.0 * size / _PIXEL)) + 2
    image = np.zeros((pixels, pixels), dtype=bool)
    for s, t in zip(u, v, strict=True):
        place = ((a + s * (b - a) + t * (c - a) + size) / _PIXEL).astype(np.int64)
        image[place[:, 0], place[:, 1]] = True
    centre = (np.arange(pixels) + 0.5) * _PIXEL - size
    image |= np.hypot(centre[:, None], centre[None]) < PLATE
    return float(image.sum()) * _PIXEL**2


def drape(
    fabric: Fabric, rings: int = 10, segments: int = 112, seconds: float = 3.0, seed: int = 1
) -> Drape:
    """Let the disc settle for ``seconds``."""
    mesh, rest, plate = rim_mesh(rings, segments)
    triangles = triangulate(mesh, rest).triangles
    # Something must choose where the folds go; a real cloth is never flat or round either.
    noise = np.random.default_rng(seed).normal(size=len(rest)) * 2e-4
    positions = rest.copy()
    positions[:, 2] += noise
    positions[plate] = rest[plate]
    # The shape at rest does not depend on the air; in a thick one it is reached sooner.
    fabric = replace(fabric, air_drag=_THICK_AIR * fabric.density)
    part = ClothPart("disc", mesh, rest, positions, fabric, plate, np.ones(len(plate)))
    sample = Sample(np.array([0.0, 0.0, -9.81]), np.zeros((1, 3)), rest[plate])
    inputs = FrameInputs((sample,), (fabric,), np.zeros(1))
    flat = shadow(rest, triangles)
    inner = np.pi * PLATE**2
    found: list[float] = []
    frames = round(seconds * FPS)
    stream = repeat(inputs, frames + 1)
    options = SolverOptions(Integrator.AUTO)
    for frame in simulate(build_model([part]), stream, options, 1.0 / FPS):
        positions = frame.positions
        if frame.index >= frames - FPS / 2.0:
            found.append(100.0 * (shadow(positions, triangles) - inner) / (flat - inner))
    rim = np.hypot(*positions[-segments:, :2].T)
    spectrum = np.abs(np.fft.rfft(rim - rim.mean()))
    return Drape(
        positions,
        triangles,
        float(np.mean(found)),
        int(spectrum.argmax()),
        float(np.ptp(found)),
    )


def report() -> str:
    """The table of all presets."""
    rows = []
    for preset in PRESETS:
        begin = time.perf_counter()
        result = drape(preset.fabric)
        low, high = RANGES.get(preset.identifier, (None, None))
        f = preset.fabric
        length = (f.bending_stiffness / (f.density * 9.81)) ** (1.0 / 3.0)
        rows.append(
            [
                preset.label,
                f.density,
                f.bending_stiffness * 1e6,
                100.0 * length,
                result.coefficient,
                f"{low}–{high}" if low is not None else None,
                result.folds,
                result.change,
                time.perf_counter() - begin,
            ]
        )
    head = [
        "preset",
        "density, kg/m²",
        "bending, µN·m",
        "bending length, cm",
        "drape coefficient, %",
        "published, %",
        "folds",
        "change in the last 0.5 s, %",
        "time, s",
    ]
    return table(head, rows)
