# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON file beside a point cache: what it belongs to, how far it got, how it went.

While a bake runs, the statistics of each frame are appended as one line to a log beside the
sidecar (rewriting them all after every frame would take quadratic time); the sidecar itself is
small then and replaced after every frame. At the end the log is merged into it. ``read`` gives
the same answer at any moment.
"""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..engine.solver import StepReport
from .storage import CacheError, explain, read_json, write_atomically, write_json

VERSION = 1


class SidecarError(CacheError):
    """A sidecar is missing or damaged. The text names it and the way out."""


@dataclass(frozen=True)
class FrameStatistics:
    """How one frame went.

    Attributes:
        frame: its number.
        seconds: it took to simulate, waiting for Blender left out.
        integrator: that ran; empty on the first frame, which is not simulated.
        substeps: steps taken.
        iterations: of the linear solver over all steps.
        residual: worst relative residual left; None if unknown.
        worst_strain: largest relative stretch; None if unknown.
        explicit_share: share of springs integrated explicitly; None if unknown.
        explicit_steps: steps that explicit integration would have taken; 0 if unknown.
    """

    frame: int
    seconds: float
    integrator: str = ""
    substeps: int = 0
    iterations: int = 0
    residual: float | None = None
    worst_strain: float | None = None
    explicit_share: float | None = None
    explicit_steps: int = 0

    @classmethod
    def of(cls, frame: int, seconds: float, report: StepReport | None) -> Self:
        """Return the statistics of a frame from the solver's report.

        Numbers that are not finite become None, because JSON has no such numbers.
        """
        if report is None:
            return cls(frame, seconds)
        return cls(
            frame=frame,
            seconds=seconds,
            integrator=report.integrator.value,
            substeps=int(report.substeps),
            iterations=int(report.iterations),
            residual=_finite(report.residual),
            worst_strain=_finite(report.worst_strain),
            explicit_share=_finite(report.explicit_share),
            explicit_steps=int(report.explicit_steps),
        )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Sidecar:
    """What is known of a point cache.

    Attributes:
        extension_version: of the program that baked.
        uid: identity of the object.
        object_name: its name at the time.
        topology_hash: of its mesh.
        settings_hash: of the settings baked with.
        frame_first: frame of the first sample.
        frame_last: of the last sample on disk; None before the first.
        frame_end_wanted: last frame asked for.
        fps: frames per second, exact.
        vertex_count: V.
        complete: whether all frames asked for are there.
        device: that the bake ran on, in words.
        warnings: sentences for the user.
        statistics: one entry per frame.
        version: of this format; see VERSION.
    """

    extension_version: str
    uid: str
    object_name: str
    topology_hash: str
    settings_hash: str
    frame_first: int
    frame_last: int | None
    frame_end_wanted: int
    fps: float
    vertex_count: int
    complete: bool = False
    device: str = ""
    warnings: tuple[str, ...] = ()
    statistics: tuple[FrameStatistics, ...] = ()
    version: int = VERSION


def what_of(settings_hash: str) -> list[str]:
    """Return of each cloth's fingerprint the part that says what is simulated.

    The rest, after a dot, says how: a bake that is resumed may change that.
    """
    return [each.partition(".")[0] for each in settings_hash.split()]


def log_path(path: Path) -> Path:
    """Return the log of statistics that belongs to a sidecar."""
    return path.with_suffix(".jsonl")


def write(path: Path, sidecar: Sidecar, *, durable: bool = False) -> None:
    """Write a finished sidecar, statistics included, in one step.

    Raises:
        CacheError: it cannot be written.
    """
    write_json(path, asdict(sidecar), durable=durable)


def write_running(path: Path, sidecar: Sidecar) -> None:
    """Write the sidecar of a running bake in one step; its statistics are those of the log.

    Raises:
        CacheError: it cannot be written.
    """
    content = asdict(replace(sidecar, statistics=()))
    del content["statistics"]
    write_json(path, content)


def read(path: Path) -> Sidecar:
    """Read a sidecar, of a running bake too.

    Raises:
        SidecarError: missing, of another version, damaged.
        CacheError: it cannot be read.
    """
    try:
        content = read_json(path)
    except FileNotFoundError as error:
        raise SidecarError(f'"{path}" is missing. Bake again.') from error
    if content.get("version") != VERSION:
        raise SidecarError(
            f'"{path}" has version {content.get("version")!r}; this release reads version '
            f"{VERSION}. Bake again."
        )
    try:
        values: dict[str, Any] = {
            field.name: content[field.name] for field in fields(Sidecar) if field.name in content
        }
        values["warnings"] = tuple(str(text) for text in content["warnings"])
        if "statistics" in content:
            values["statistics"] = tuple(_frame(entry) for entry in content["statistics"])
        else:
            values["statistics"] = read_log(log_path(path))
        sidecar = Sidecar(**values)
        numbers = (sidecar.frame_first, sidecar.frame_end_wanted, sidecar.vertex_count)
        if not all(isinstance(number, int) for number in numbers):
            raise TypeError("frame numbers and counts must be whole numbers")
    except (KeyError, TypeError, ValueError) as error:
        raise SidecarError(f'"{path}" is damaged ({error}). Bake again.') from error
    return sidecar


def _frame(entry: dict[str, Any]) -> FrameStatistics:
    known = {field.name for field in fields(FrameStatistics)}
    return FrameStatistics(**{name: value for name, value in entry.items() if name in known})


def read_log(path: Path) -> tuple[FrameStatistics, ...]:
    """Return the statistics of a log; a last line that was cut off by a kill is left out.

    Raises:
        CacheError: it cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CacheError(explain(error, "read", path)) from error
    statistics = []
    for line in lines[:-1]:
        try:
            statistics.append(_frame(json.loads(line)))
        except (AttributeError, TypeError, ValueError):
            break
    return tuple(statistics)


class StatisticsLog:
    """Appends the statistics of frames to a log; a context manager."""

    def __init__(self, path: Path, keep: tuple[FrameStatistics, ...] = ()) -> None:
        """Start the log with the entries ``keep``; what was in it before is gone.

        Raises:
            CacheError: it cannot be written.
        """
        self.path = path
        head = b"".join(_line(entry) for entry in keep)
        write_atomically(path, lambda file: file.write(head))
        try:
            self._file = FileIO(path, "a")
        except OSError as error:
            raise CacheError(explain(error, "written", path)) from error

    def append(self, entry: FrameStatistics) -> None:
        """Add the statistics of one frame.

        Raises:
            CacheError: it cannot be written.
        """
        try:
            self._file.write(_line(entry))
        except OSError as error:
            raise CacheError(explain(error, "written", self.path)) from error

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def _line(entry: FrameStatistics) -> bytes:
    return json.dumps(asdict(entry), allow_nan=False).encode() + b"\n"
