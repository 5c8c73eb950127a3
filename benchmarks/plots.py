# SPDX-License-Identifier: GPL-3.0-or-later
"""Draws the plots of `bench speed`: `plots.py RESULTS.json FOLDER`. Needs Matplotlib alone."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, CLOTH, DYNAMICS = "Taichi Cloth", "Blender Cloth", "Cloth Dynamics"
MARKERS = {OURS: "o", CLOTH: "s", DYNAMICS: "^"}
STYLES = {OURS: "-", CLOTH: "--", DYNAMICS: ":"}
Records = list[dict[str, Any]]


def _select(records: Records, part: str, *keys: str) -> Records:
    """Records of a part that have all these values."""
    return [r for r in records if r["part"] == part and all(r[key] for key in keys)]


def _series(records: Records, name: str) -> dict[tuple[str, str], Records]:
    found: dict[tuple[str, str], Records] = {}
    for record in records:
        found.setdefault((record["group"], record[name]), []).append(record)
    return found


def _against_size(
    records: Records, value: str, scale: float, label: str, title: str, path: Path
) -> None:
    chosen = _select(records, "sheet", value)
    if not chosen:
        return
    figure, axes = pyplot.subplots(figsize=(7.0, 5.0), layout="constrained")
    for (group, name), rows in _series(chosen, "solver").items():
        rows.sort(key=lambda r: r["vertices"])
        axes.plot(
            [r["vertices"] for r in rows],
            [scale * r[value] for r in rows],
            STYLES[group] + MARKERS[group],
            label=f"{group}: {name}",
        )
    if value == "cpu":
        low, high = (limit(r["vertices"] for r in chosen) for limit in (min, max))
        start = 0.7 * min(r["cpu"] for r in chosen)
        axes.plot([low, high], [start, start * high / low], color="0.7", label="linear")
    _finish(axes, "vertices", label, title)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _against_time(records: Records, path: Path) -> None:
    chosen = _select(records, "sheet", "error", "cpu")
    sides = sorted({r["side"] for r in chosen})
    if not sides:
        return
    figure, panels = pyplot.subplots(
        1,
        len(sides),
        figsize=(4.6 * len(sides), 4.6),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axes, side in zip(panels[0], sides, strict=True):
        for group in (OURS, CLOTH):
            rows = [r for r in chosen if r["side"] == side and r["group"] == group]
            rows.sort(key=lambda r: r["cpu"])
            axes.plot(
                [r["cpu"] for r in rows],
                [1e3 * r["error"] for r in rows],
                MARKERS[group] + (STYLES[group] if group == CLOTH else ""),
                label=group,
            )
            for number, r in enumerate(rows):
                axes.annotate(
                    r["solver"],
                    (r["cpu"], 1e3 * r["error"]),
                    textcoords="offset points",
                    xytext=(5, -11 if number % 2 else 4),
                    fontsize=8,
                )
        _finish(axes, "CPU ms per frame, one thread", "RMS error at 0.5 s, mm", f"{side}²")
        axes.margins(x=0.25)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _stretch_against_time(records: Records, path: Path) -> None:
    chosen = _select(records, "strip", "p99", "cpu")
    if not chosen:
        return
    figure, axes = pyplot.subplots(figsize=(7.0, 5.0), layout="constrained")
    colours: dict[int, str] = {}
    for (group, _), rows in _series(chosen, "mesh").items():
        side = rows[0]["side"]
        colour = colours.setdefault(side, f"C{len(colours)}")
        axes.plot(
            [r["cpu"] for r in rows],
            [100.0 * r["p99"] for r in rows],
            MARKERS[group],
            color=colour,
            label=f"{group}, {side}²",
        )
    _finish(axes, "CPU ms per frame, one thread", "p99 stretch, %", "Held along a strip")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _finish(axes: Any, x: str, y: str, title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=y, title=title)
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(fontsize=8)


def main(source: Path, folder: Path) -> None:
    """All plots."""
    contents = json.loads(source.read_text("utf-8"))
    records = contents["records"]
    title = "Hanging sheet"
    _against_size(
        records, "cpu", 1.0, "CPU ms per frame, one thread", title, folder / "speed-time.png"
    )
    _against_size(
        records, "error", 1e3, "RMS error at 0.5 s, mm", title, folder / "speed-error.png"
    )
    _against_time(records, folder / "speed-error-time.png")
    _stretch_against_time(records, folder / "speed-strip.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
