# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that starts Taichi: device choice, fallback, kernel cache, device arrays.

Taichi 1.7.4 needs care: its default control-flow optimisation miscompiles
(taichi-dev/taichi issue 8744), it reports its version over the network unless told not to,
and it loads itself with RTLD_DEEPBIND, which crashes in a process whose malloc is jemalloc
or TBB's.
"""

import contextlib
import io
import os
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from . import vulkan_probe


class Device(Enum):
    """Where the kernels run."""

    AUTO = "AUTO"
    CUDA = "CUDA"
    METAL = "METAL"
    VULKAN = "VULKAN"
    CPU = "CPU"


# Everything of Taichi's is untyped.
DeviceArray = Any

_ENVIRONMENT = {
    "TI_SKIP_VERSION_CHECK": "ON",
    "ENABLE_TAICHI_HEADER_PRINT": "0",
    "TI_ENABLE_TORCH": "0",
    "TI_ENABLE_PADDLE": "0",
}

# Vertices below which one thread is quicker: at 4096 an implicit frame takes 35 ms on one thread
# and 55 ms on two, at 16 384 it takes 181 and 164, an explicit one 746 and 427 (measured).
_SMALL = 6000

# Whether kernels run on one CPU thread: then loops need not wake another. Read when a kernel is
# compiled. Waking costs about 40 µs a loop (measured), as much as a loop over 1000 vertices.
one_thread = False

_GPU_ORDER = (Device.CUDA, Device.METAL, Device.VULKAN)


class RuntimeUnavailableError(RuntimeError):
    """Taichi could not be imported or no device could be started."""


@dataclass(frozen=True)
class Runtime:
    """A started Taichi.

    Attributes:
        device: the device that runs, never AUTO.
        description: for the user, such as "CPU (2 threads)".
        messages: complete sentences about a device that was asked for and is not there.
    """

    device: Device
    description: str
    messages: tuple[str, ...]


@contextlib.contextmanager
def _without_deepbind() -> Iterator[None]:
    """Keep shared libraries from binding to their own malloc while Taichi is imported."""
    deepbind = getattr(os, "RTLD_DEEPBIND", 0)
    if not deepbind or not hasattr(sys, "setdlopenflags"):
        yield
        return
    flags = sys.getdlopenflags()
    set_flags = sys.setdlopenflags
    set_flags(flags & ~deepbind)
    # Taichi adds the flag itself around its own import.
    sys.setdlopenflags = lambda wanted: set_flags(wanted & ~deepbind)
    try:
        yield
    finally:
        sys.setdlopenflags = set_flags
        set_flags(flags)


def import_taichi() -> Any:
    """Import Taichi and return the module.

    Raises:
        RuntimeUnavailableError: it is missing or does not load; the message says why.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ[name] = value
    try:
        with _without_deepbind():
            import taichi  # noqa: PLC0415 (its environment must be set first)
    except (ImportError, OSError) as error:
        raise RuntimeUnavailableError(
            f"Taichi does not load ({error}). Install the Taichi Cloth zip made for this "
            "platform and this Blender version again"
        ) from error
    return taichi


def start(device: Device, cache_folder: str | None = None, threads: int | None = None) -> Runtime:
    """Start Taichi on ``device``, or on the best one there is.

    Args:
        device: AUTO tries CUDA, Metal, Vulkan and the CPU in this order.
        cache_folder: where compiled kernels are kept; None keeps none.
        threads: of the CPU; None takes all that this process may use.

    Raises:
        RuntimeUnavailableError: no device could be started.
    """
    ti = import_taichi()
    if device is Device.AUTO:
        wanted = [*_GPU_ORDER, Device.CPU]
        if all(found.is_software for found in vulkan_probe.devices()):
            wanted.remove(Device.VULKAN)
    elif device is Device.CPU:
        wanted = [Device.CPU]
    else:
        wanted = [device, *(other for other in _GPU_ORDER if other is not device), Device.CPU]
    threads = threads or cpu_threads()
    errors = []
    for candidate in wanted:
        error = _try_start(ti, candidate, cache_folder, threads)
        if error is None:
            messages: tuple[str, ...] = ()
            if device not in (Device.AUTO, candidate):
                messages = (f"{device.value} is not available here, so {candidate.value} is used",)
            global one_thread  # noqa: PLW0603 (as Taichi's own state, there is one a process)
            one_thread = candidate is Device.CPU and threads == 1
            return Runtime(candidate, _describe(candidate, threads), messages)
        errors.append(f"{candidate.value}: {error}")
    raise RuntimeUnavailableError("No device can be used: " + "; ".join(errors))


def stop() -> None:
    """Free the device and write the kernel cache."""
    import_taichi().reset()


def _try_start(ti: Any, device: Device, cache_folder: str | None, threads: int) -> str | None:
    """Start Taichi on one device; return None, or why it does not start."""
    arch = {
        Device.CUDA: ti.cuda,
        Device.METAL: ti.metal,
        Device.VULKAN: ti.vulkan,
        Device.CPU: ti.cpu,
    }[device]
    if device is not Device.CPU and not _has_arch(ti, arch):
        return "not there"
    options: dict[str, Any] = {"offline_cache": cache_folder is not None}
    if cache_folder is not None:
        os.makedirs(cache_folder, exist_ok=True)
        options["offline_cache_file_path"] = cache_folder
    if device is Device.CPU:
        options["cpu_max_num_threads"] = threads
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            ti.init(
                arch=arch,
                enable_fallback=False,
                cfg_optimization=False,
                log_level=ti.ERROR,
                default_fp=ti.f32,
                default_ip=ti.i32,
                fast_math=True,
                **options,
            )
    except (RuntimeError, OSError) as error:
        return str(error)
    return None


def _has_arch(ti: Any, arch: Any) -> bool:
    """Whether the machine has ``arch``, asked without starting it."""
    ti.set_logging_level(ti.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):
        return bool(ti.lang.misc.is_arch_supported(arch))


def cpu_threads() -> int:
    """Number of CPU threads that kernels use: those that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def suitable_threads(vertex_count: int) -> int:
    """CPU threads for a cloth: waking a second one costs more than a small cloth gains."""
    return 1 if vertex_count < _SMALL else cpu_threads()


def _describe(device: Device, threads: int) -> str:
    if device is Device.CPU:
        return f"CPU ({threads} thread{'s' if threads > 1 else ''})"
    if device is Device.VULKAN:
        names = [found.name for found in vulkan_probe.devices()]
        return f"{names[0]} (Vulkan)" if len(names) == 1 else "GPU (Vulkan)"
    return {Device.CUDA: "GPU (CUDA)", Device.METAL: "GPU (Metal)"}[device]


def upload(values: npt.NDArray[Any]) -> DeviceArray:
    """Copy a numpy array to the device.

    A last axis of length 3 becomes a 3-vector. float64 becomes float32, int64 int32. An
    empty array gets one element, since Taichi takes none of length 0.
    """
    ti = import_taichi()
    if np.issubdtype(values.dtype, np.floating):
        values = np.ascontiguousarray(values, dtype=np.float32)
        dtype = ti.f32
    else:
        values = np.ascontiguousarray(values, dtype=np.int32)
        dtype = ti.i32
    if values.shape[0] == 0:
        values = np.zeros((1, *values.shape[1:]), dtype=values.dtype)
    vector = values.ndim == 2  # noqa: PLR2004
    if vector:
        array = _vectors(values.shape[1], dtype, values.shape[0])
    else:
        array = ti.ndarray(dtype, values.shape)
    array.from_numpy(values)
    return array


def zeros(count: int, width: int = 1) -> DeviceArray:
    """A float array of ``count`` zeros, or of ``count`` vectors of ``width`` zeros."""
    ti = import_taichi()
    count = max(count, 1)
    # Taichi makes them zero itself; its fill of vectors takes 3 ms.
    return ti.ndarray(ti.f32, count) if width == 1 else _vectors(width, ti.f32, count)


def _vectors(width: int, dtype: Any, count: int) -> DeviceArray:
    """An array of vectors that is freed when it is no longer used.

    Taichi 1.7.4 frees arrays of numbers alone (taichi-dev/taichi issue 8763).
    """
    ti = import_taichi()
    array = ti.Vector.ndarray(width, dtype, count)
    program = ti.lang.impl.get_runtime().prog

    def free(memory: Any) -> None:
        # A program that was reset has freed it already.
        if ti.lang.impl.get_runtime().prog is program:
            program.delete_ndarray(memory)

    weakref.finalize(array, free, array.arr).atexit = False
    return array


def synchronize() -> None:
    """Wait until the device has done what it was given."""
    import_taichi().sync()
