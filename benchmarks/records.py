# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of `bench speed`, and the tables that are made of them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .tables import Cell, table

OURS, CLOTH, DYNAMICS, PAPER = "Taichi Cloth", "Blender Cloth", "Cloth Dynamics", "2012 paper"
# Sides from which growth is fitted, if there are two of them.
GROWTH_FROM = 64**2


@dataclass
class Record:
    """One solver on one cloth.

    Attributes:
        part: which part of the benchmark.
        group: whose solver.
        solver: its setting.
        family: the cloth without its size.
        mesh: the cloth.
        side: vertices on a side of a square sheet, else 0.
        vertices: number of them.
        springs: number of them; None where it is not known.
        stiffness: of structural springs, N/m.
        substeps: of a frame.
        iterations: of the linear solver in a frame.
        worst: largest stretch of an edge in any frame.
        mean: mean stretch of all frames, shortened edges counting 0.
        p99: 99th percentile of the stretch of all frames.
        error: RMS distance to the reference at 0.5 s, m.
        cpu: CPU time of a frame on one thread, ms.
        wall: time of a frame on all threads, ms.
        setup: s before the first frame.
        memory: peak resident memory, MB.
        frames: how many were stepped.
        runs: of how many runs the times are the medians.
        note: what is odd about it.
        more: what else was found.
    """

    part: str
    group: str
    solver: str
    family: str
    mesh: str
    side: int = 0
    vertices: int = 0
    springs: int | None = None
    stiffness: float | None = None
    substeps: float | None = None
    iterations: float | None = None
    worst: float | None = None
    mean: float | None = None
    p99: float | None = None
    error: float | None = None
    cpu: float | None = None
    wall: float | None = None
    setup: float | None = None
    memory: float | None = None
    frames: int = 0
    runs: int = 0
    note: str = ""
    more: dict[str, Any] = field(default_factory=dict)

    def words(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        return {
            key: None if isinstance(value, float) and not np.isfinite(value) else value
            for key, value in asdict(self).items()
        }


def _percent(value: float | None) -> Cell:
    return None if value is None else 100.0 * value


def main_table(records: Sequence[Record]) -> str:
    """Everything, one row each."""
    head = [
        *("cloth", "solver", "vertices", "springs", "substeps", "iterations"),
        *("worst stretch, %", "mean stretch, %", "p99 stretch, %", "RMS error at 0.5 s, mm"),
        *("CPU ms per frame, one thread", "ms per frame, all threads", "set-up, s"),
        *("peak memory, MB", "remarks"),
    ]
    rows: list[list[Cell]] = []
    for r in records:
        error = None if r.error is None else 1e3 * r.error
        rows.append(
            [
                *(r.mesh, f"{r.group}: {r.solver}", r.vertices, r.springs),
                *(r.substeps, r.iterations, _percent(r.worst), _percent(r.mean), _percent(r.p99)),
                *(error, r.cpu, r.wall, r.setup, r.memory, r.note or None),
            ]
        )
    return table(head, rows)


def _ours(records: Sequence[Record], part: str, side: int) -> list[Record]:
    return [
        r
        for r in records
        if r.part == part and r.group == OURS and r.side == side and r.cpu is not None
    ]


def ratio_table(records: Sequence[Record], default: str, quality: int) -> str:
    """Blender's cloth against our cheapest setting whose error is no larger."""
    head = [
        *("mesh", "Blender quality", "its error, mm", "its CPU ms", "ours", "error, mm"),
        *("CPU ms", "times less CPU", "times less wall clock"),
    ]
    rows: list[list[Cell]] = []
    for theirs in records:
        if theirs.part != "sheet" or theirs.group != CLOTH or theirs.cpu is None:
            continue
        ours = _ours(records, "sheet", theirs.side)
        error = theirs.error
        if error is not None:
            good = [r for r in ours if r.error is not None and r.error <= error]
            rows.append(_ratio(theirs, min(good, key=lambda r: r.cpu or 0.0, default=None)))
        if theirs.more["quality"] == quality:
            rows += [_ratio(theirs, r) for r in ours if r.solver == default]
    return table(head, rows)


def _ratio(theirs: Record, ours: Record | None) -> list[Cell]:
    error = None if theirs.error is None else 1e3 * theirs.error
    start: list[Cell] = [theirs.mesh, theirs.more["quality"], error, theirs.cpu]
    if ours is None or not ours.cpu or not theirs.cpu:
        return [*start, "none as good", None, None, None, None]
    own = None if ours.error is None else 1e3 * ours.error
    wall = theirs.wall / ours.wall if theirs.wall and ours.wall else None
    return [*start, ours.solver, own, ours.cpu, theirs.cpu / ours.cpu, wall]


def strip_table(records: Sequence[Record]) -> str:
    """What Cloth Dynamics takes to stretch as little as ours.

    Between two rungs of one of its ladders by a straight line in the logarithms, so that no
    rung overshoots at ours' advantage; of the ladders the cheaper one.
    """
    head = [
        *("mesh", "ours", "p99 stretch, %", "CPU ms", "Cloth Dynamics", "CPU ms"),
        *("times less CPU", "times less wall clock"),
    ]
    rows: list[list[Cell]] = []
    part = [r for r in records if r.part == "strip" and r.cpu and r.wall and r.p99]
    for ours in (r for r in part if r.group == OURS):
        ladders: dict[int, list[Record]] = {}
        for r in part:
            if r.group == DYNAMICS and r.side == ours.side:
                ladders.setdefault(r.more["steps"], []).append(r)
        start: list[Cell] = [ours.mesh, ours.solver, _percent(ours.p99), ours.cpu]
        found = [_at(ladder, ours.p99 or 0.0) for ladder in ladders.values()]
        known = [at for at in found if at is not None]
        if known:
            name, cpu, wall = min(known, key=lambda at: at[1])
            rows.append([*start, name, cpu, cpu / (ours.cpu or 1.0), wall / (ours.wall or 1.0)])
        elif ladders:
            least = min((r for ladder in ladders.values() for r in ladder), key=_p99)
            name = f"none; {least.solver} has {_p99(least):.2%}"
            rows.append([*start, name, least.cpu, None, None])
    return table(head, rows)


def _p99(record: Record) -> float:
    return record.p99 or 0.0


def _at(ladder: Sequence[Record], p99: float) -> tuple[str, float, float] | None:
    """Name, CPU and wall time of a ladder where it stretches ``p99``; None if it never does."""
    rungs = sorted(ladder, key=_p99)
    good = [r for r in rungs if _p99(r) <= p99]
    if not good:
        return None
    best = min(good, key=lambda r: r.cpu or 0.0)
    name, cpu, wall = best.solver, best.cpu or 0.0, best.wall or 0.0
    worse = [r for r in rungs if _p99(r) > p99 and (r.cpu or 0.0) < cpu]
    if not worse:
        return name, cpu, wall
    other = worse[0]
    share = np.log(_p99(other) / p99) / np.log(_p99(other) / _p99(best))
    times = [
        float(low * (high / low) ** share)
        for low, high in (((other.cpu or cpu), cpu), ((other.wall or wall), wall))
    ]
    return f"{other.solver} to {name}", times[0], times[1]


@dataclass(frozen=True)
class Growth:
    """Time as a power of the number of vertices.

    Attributes:
        solver: whose.
        family: which cloths.
        vertices: the least and the most.
        cpu: exponent of the CPU time of one thread.
        wall: exponent of the time on all threads.
        errors: least and largest error, m.
    """

    solver: str
    family: str
    vertices: tuple[int, int]
    cpu: float | None
    wall: float | None
    errors: tuple[float, float] | None


def growth(records: Sequence[Record]) -> list[Growth]:
    """A fit for each solver and family of cloths with two sizes or more."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for r in records:
        if r.part in ("sheet", "meshes") and r.cpu is not None:
            groups.setdefault((r.part, f"{r.group}: {r.solver}", r.family), []).append(r)
    found = []
    for (_, solver, family), rows in groups.items():
        large = [r for r in rows if r.vertices >= GROWTH_FROM]
        chosen = sorted(large if len(large) > 1 else rows, key=lambda r: r.vertices)
        if len(chosen) < 2:
            continue
        errors = [r.error for r in chosen if r.error is not None]
        found.append(
            Growth(
                solver,
                family,
                (chosen[0].vertices, chosen[-1].vertices),
                _exponent([(r.vertices, r.cpu) for r in chosen]),
                _exponent([(r.vertices, r.wall) for r in chosen]),
                (min(errors), max(errors)) if errors else None,
            )
        )
    return found


def _exponent(points: Sequence[tuple[int, float | None]]) -> float | None:
    known = [(vertices, value) for vertices, value in points if value]
    if len(known) < 2:
        return None
    x, y = np.log(np.array(known, dtype=np.float64)).T
    return float(np.polyfit(x, y, 1)[0])


def growth_table(found: Sequence[Growth]) -> str:
    """Exponents."""
    head = [
        *("solver", "cloth", "vertices", "exponent of CPU time", "exponent of wall clock"),
        "RMS error, mm",
    ]
    rows: list[list[Cell]] = []
    for g in found:
        low, high = g.vertices
        errors = None
        if g.errors is not None:
            errors = f"{1e3 * g.errors[0]:.3g}–{1e3 * g.errors[1]:.3g}"
        rows.append([g.solver, g.family, f"{low}–{high}", g.cpu, g.wall, errors])
    return table(head, rows)
