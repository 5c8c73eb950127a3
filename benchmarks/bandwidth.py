# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory bandwidth: a triad, and the solver's sweeps beside it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taichi_cloth_addon.engine import runtime
from taichi_cloth_addon.engine.hybrid import explicit_kernels
from taichi_cloth_addon.engine.hybrid.device import DeviceModel
from taichi_cloth_addon.engine.hybrid.explicit import ExplicitStepper
from taichi_cloth_addon.engine.model import ClothModel

from .cloths import Cloth

REPEATS = 7
_LEAST_SECONDS = 0.05
_FLOAT = 4
# Of the triad without arrays of its own size: as much as a sweep goes through.
_ARRAYS = 3


@dataclass(frozen=True)
class Sweep:
    """A pass over the mesh, ready to run.

    Attributes:
        run: makes ``sweeps`` of them and waits for the end.
        sweeps: passes of one call.
        arrays: what one pass reads or writes, each array once.
    """

    run: Callable[[], None]
    sweeps: int
    arrays: tuple[Any, ...]

    def bytes(self) -> int:
        """Bytes of one sweep."""
        return sum(_bytes(array) for array in self.arrays)


def explicit_sweep(model: ClothModel) -> Sweep:
    """A step of velocity Verlet."""
    scene = model.parts[0]
    device = DeviceModel(model)
    device.load(model.first_state())
    stepper = ExplicitStepper(device)
    steps = 8 * explicit_kernels.OPERATIONS - 1
    sample = _sample(scene.positions[scene.pin_vertices])
    couplings = device.everything
    arrays = (
        *(device.x, device.v, device.x, device.v),
        *(device.inverse_mass, device.offsets, device.middles, device.neighbours),
        *(couplings.springs, couplings.bending, device.bend_rate),
        *(device.air_force, device.air_drag),
        *(device.pin_spring, device.pin_target, device.pin_velocity),
    )

    def run() -> None:
        # So short that nothing moves: the memory traffic does not depend on it.
        stepper.advance(sample, steps * 1e-7, steps, lambda: None)

    return Sweep(run, steps, arrays)


# Name and maker of each. A sweep of the multigrid's smoother on the finest level, and of SOR,
# go here with the arrays that they touch.
SWEEPS: dict[str, Callable[[ClothModel], Sweep]] = {"explicit step": explicit_sweep}


def measure(size: int, cloth: Cloth) -> list[list[Any]]:
    """Name, bytes of a sweep, GB/s, for numpy's and Taichi's triad and for every sweep.

    Args:
        size: bytes of all arrays of the large triad, beyond the caches.
        cloth: what the sweeps go over; a triad of their size is measured as well.
    """
    model = cloth.model(cloth.scene())
    sweeps = {name: make(model) for name, make in SWEEPS.items()}
    sizes = {f"{size // 2**20} MiB": size}
    sizes |= {f"{sweep.bytes() // 2**20} MiB": sweep.bytes() for sweep in sweeps.values()}
    rows = []
    for label, total in sizes.items():
        count = total // (_ARRAYS * _FLOAT)
        rows.append([f"triad, numpy, {label}", total, _rate(_numpy_triad(count), total)])
        rows.append([f"triad, Taichi, {label}", total, _rate(_taichi_triad(count), total)])
    for name, sweep in sweeps.items():
        total = sweep.bytes()
        rate = _rate(sweep.run, total * sweep.sweeps)
        rows.append([f"{name}, {cloth.name}", total, rate])
    return rows


def _bytes(array: Any) -> int:
    return int(np.prod(array.shape) * np.prod(array.element_shape, dtype=int)) * _FLOAT


def _sample(targets: Any) -> Any:
    from taichi_cloth_addon.engine.inputs import Sample

    from .scenes import GRAVITY

    return Sample(GRAVITY, np.zeros((1, 3)), targets)


def _rate(work: Callable[[], None], size: int) -> float:
    """GB/s of the best of some repeats: others only take bandwidth away."""
    work()
    best = 0.0
    for _ in range(REPEATS):
        times, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < _LEAST_SECONDS or not times:
            work()
            times += 1
        best = max(best, 1e-9 * size * times / spent)
    return best


def _numpy_triad(count: int) -> Callable[[], None]:
    """The sum b + s c in pieces that stay in the cache, so that each array moves once."""
    a, b, c = (np.full(count, value, dtype=np.float32) for value in (0.0, 1.0, 2.0))
    piece = np.empty(4096, dtype=np.float32)
    whole = count // len(piece) * len(piece)

    def run() -> None:
        for start in range(0, whole, len(piece)):
            part = slice(start, start + len(piece))
            np.multiply(c[part], np.float32(3.0), out=piece)
            np.add(b[part], piece, out=a[part])

    return run


def _taichi_triad(count: int) -> Callable[[], None]:
    ti = runtime.import_taichi()
    from .bandwidth_kernels import triad

    arrays = [ti.ndarray(ti.f32, count) for _ in range(_ARRAYS)]
    for array in arrays:
        array.fill(1.0)

    def run() -> None:
        triad(*arrays, 3.0)
        runtime.synchronize()

    return run
