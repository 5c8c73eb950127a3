# SPDX-License-Identifier: GPL-3.0-or-later
"""Time, error and stretch of ours, Blender's Cloth, Cloth Dynamics and the 2012 paper's methods.

One run, one table; docs/developer/benchmarks.md says what is measured how. What is measured is
listed in variants.py.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import children, meshes
from .children import MeasurementError
from .cloths import (
    DENSITY,
    FRAMES,
    SHEAR_SHARE,
    STIFFNESS,
    STRIP_FRAMES,
    Cloth,
    from_file,
    sheet,
)
from .jobs import Job, by_turns, reference
from .records import (
    CLOTH,
    DYNAMICS,
    OURS,
    PAPER,
    Record,
    growth,
    growth_table,
    main_table,
    ratio_table,
    strip_table,
)
from .run import kernel_folder
from .scenes import Array
from .stretch import rms
from .tables import Cell, machine, table
from .variants import (
    BAKED_FRAMES,
    BAKED_QUALITY,
    DEFAULT,
    LADDERS,
    QUALITIES,
    QUICK_SIZES,
    RANDOM,
    REFINEMENTS,
    SIZES,
    STIFFNESSES,
    STRIP_STIFFNESSES,
    VARIANTS,
    Variant,
)

PLOTTER = Path(__file__).with_name("plots.py")
_TRIAD_BYTES = 192 * 2**20


class Speed:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Take the options of the command line."""
        self.quick = options.quick
        self.sizes = tuple(options.sizes or (QUICK_SIZES if self.quick else SIZES))
        self.repeats = options.repeats or (1 if self.quick else 3)
        self.limit = options.limit or (60.0 if self.quick else 900.0)
        self.device = options.device
        self.mesh_files = meshes.garments(options.meshes)
        self.out: Path = options.out
        self.folder = self.out / "speed"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kernels = kernel_folder(self.out)
        self.records: list[Record] = []
        self.tables: dict[str, str] = {}
        self.more: dict[str, Any] = {}

    def _reference(self, cloth: Cloth) -> Array | None:
        return reference(cloth, self.out / "references", self.kernels, 4.0 * self.limit)

    def _ours(
        self,
        part: str,
        cloth: Cloth,
        family: str,
        variant: Variant,
        truth: Array | None,
        count: int,
    ) -> Job:
        record = Record(part, OURS, variant.name, family, cloth.name, cloth.side)
        record.stiffness = cloth.stiffness
        return Job(
            record,
            cloth,
            truth,
            children.ENGINE_CHILD,
            "run",
            {
                "cloth": cloth.words(),
                "settings": variant.settings,
                "frames": count,
                "limit": self.limit,
                "device": self.device,
                "kernels": self.kernels,
            },
        )

    def _blender(
        self, part: str, cloth: Cloth, solver: str, truth: Array | None, mode: str, **words: Any
    ) -> Job:
        group = CLOTH if mode == "cloth" else DYNAMICS
        record = Record(part, group, solver, "sheet", cloth.name, cloth.side)
        pairs = cloth.side - 1
        record.springs = 2 * cloth.side * pairs
        if mode == "cloth":
            record.springs += 2 * pairs**2
            record.stiffness = cloth.stiffness
        words = {"frames": FRAMES, "limit": self.limit, **self._matched(cloth), **words}
        record.more = {key: words[key] for key in ("quality", "substeps", "steps") if key in words}
        if mode == "dynamics":
            record.substeps = words["substeps"]
            record.iterations = words["substeps"] * words["steps"]
        return Job(record, cloth, truth, children.BLENDER_CHILD, mode, words)

    def _matched(self, cloth: Cloth) -> dict[str, Any]:
        _, positions = cloth.shape()
        return {
            "side": cloth.side,
            "pins": cloth.pinned(positions).tolist(),
            "stiffness": cloth.stiffness,
            "density": DENSITY,
            "shear_share": SHEAR_SHARE,
        }

    def _variants(self, vertices: int, *, others: bool = False) -> list[Variant]:
        return [
            variant
            for variant in VARIANTS
            if vertices <= variant.largest and (variant.others or not others)
        ]

    def _add(self, jobs: list[Job]) -> None:
        self.records += by_turns(jobs, self.repeats, self.folder)

    def sheet(self) -> None:
        """The hanging sheet: ours and Blender's Cloth, each against its own reference."""
        rows: list[list[Cell]] = []
        for side in self.sizes:
            cloth = sheet(side)
            truth = self._reference(cloth)
            qualities = [q for q, most in QUALITIES.items() if side**2 <= most]
            own = self._reference(sheet(side, uniform=True)) if qualities else None
            if truth is not None and own is not None:
                rows.append([cloth.name, 1e3 * rms(own, truth)])
            jobs = [
                self._ours("sheet", cloth, "sheet", variant, truth, FRAMES)
                for variant in self._variants(side**2)
            ]
            jobs += [
                self._blender("sheet", cloth, f"quality {quality}", own, "cloth", quality=quality)
                for quality in qualities
            ]
            self._add(jobs)
        self.tables["Blender's Cloth against our cheapest setting whose error is no larger"] = (
            ratio_table(self.records, DEFAULT, BAKED_QUALITY)
        )
        if rows:
            self.tables["Distance between the two references"] = table(["mesh", "RMS, mm"], rows)

    def stiffness(self) -> None:
        """The hanging sheet at other stiffnesses."""
        for side in self.sizes[:1] if self.quick else self.sizes[:2]:
            for value in STIFFNESSES:
                if value == STIFFNESS:
                    continue
                cloth = replace(sheet(side, stiffness=value), name=f"sheet {side}², {value:g} N/m")
                truth = self._reference(cloth)
                family = f"sheet, {value:g} N/m"
                variants = self._variants(side**2, others=True)
                self._add(
                    [self._ours("stiffness", cloth, family, v, truth, FRAMES) for v in variants]
                )

    def strip(self) -> None:
        """Held along a strip: ours and Cloth Dynamics at the same stretch."""
        most = max(QUALITIES.values())
        for side in (side for side in self.sizes if side**2 <= most):
            jobs = []
            for value in STRIP_STIFFNESSES:
                cloth = sheet(side, pins="strip", stiffness=value)
                cloth = replace(cloth, name=f"sheet {side}², strip, {value:g} N/m")
                jobs += [
                    self._ours("strip", cloth, f"strip, {value:g} N/m", v, None, STRIP_FRAMES)
                    for v in self._variants(side**2, others=True)
                ]
            self._add(jobs)
            cloth = replace(sheet(side, pins="strip"), name=f"sheet {side}², strip")
            goals = [
                r.p99
                for r in self.records
                if r.part == "strip" and r.side == side and r.p99 is not None
            ]
            for steps, ladder in LADDERS.items():
                for substeps in ladder[1::2] if self.quick else ladder:
                    job = self._blender(
                        "strip",
                        cloth,
                        f"{substeps} × {steps}",
                        None,
                        "dynamics",
                        substeps=substeps,
                        steps=steps,
                        frames=STRIP_FRAMES,
                    )
                    self._add([job])
                    p99 = job.record.p99
                    if job.failed or (p99 is not None and goals and p99 <= min(goals)):
                        break
        self.tables["Cloth Dynamics at no more stretch than ours"] = strip_table(self.records)

    def meshes(self) -> None:
        """Sheets of random points and the garments of --meshes."""
        folder = self.folder
        cloths: list[tuple[Cloth, str]] = []
        for vertices in (1024, 4096) if self.quick else RANDOM:
            path = meshes.random_sheet(vertices, folder)
            cloths.append((from_file(path, f"random sheet, {vertices}", "corners"), "random sheet"))
        for file in self.mesh_files:
            try:
                loaded = meshes.garment(file, folder)
            except MeasurementError as error:
                print(error, flush=True)
                continue
            if loaded is None:
                print(f"  {file.name} is small or closed: left out", flush=True)
                continue
            for times in REFINEMENTS[:1] if self.quick else REFINEMENTS:
                positions, faces = meshes.refined(*loaded, times)
                path = meshes.write(positions, faces, folder / f"{file.stem}_{times}.npz")
                name = f"{file.stem}, {len(positions)}"
                cloths.append((from_file(path, name, "top"), file.stem))
        for cloth, family in cloths:
            truth = self._reference(cloth)
            count = cloth.shape()[0].vertex_count
            self._add(
                [
                    self._ours("meshes", cloth, family, variant, truth, FRAMES)
                    for variant in self._variants(count, others=True)
                ]
            )

    def bandwidth(self) -> None:
        """The triad, and the solver's sweeps."""
        out = self.folder / "triad.json"
        rows: list[list[Cell]] = []
        side = 128 if self.quick else 256
        for alone in (True, False):
            children.start(
                children.ENGINE_CHILD,
                "triad",
                out,
                alone=alone,
                kernels=self.kernels,
                device=self.device,
                bytes=_TRIAD_BYTES // (4 if self.quick else 1),
                cloth=sheet(side).words(),
            )
            description, found = json.loads(out.read_text("utf-8"))
            rows += [[description, name, size / 2**20, rate] for name, size, rate in found]
        self.more["bandwidth"] = rows
        self.tables["Memory bandwidth, each array counted once"] = table(
            ["device", "what", "MiB", "GB/s"], rows
        )

    def paper(self) -> None:
        """The methods of the 2012 paper on its cloths."""
        out = self.folder / "paper.json"
        children.start(children.ENGINE_CHILD, "paper", out, kernels=self.kernels)
        for row in json.loads(out.read_text("utf-8")):
            self.records.append(Record("paper", PAPER, **row))

    def bake(self) -> None:
        """Whole bakes of the installed extension and of Blender, button to finished cache."""
        if "BLENDER_USER_RESOURCES" not in os.environ:
            print("  left out: it needs the installed extension, python build.py bench")
            return
        count = 24 if self.quick else BAKED_FRAMES
        sides = self.sizes[-1:] if self.quick else [s for s in self.sizes if s in (128, 256)]
        rows: list[list[Cell]] = []
        for side in sides:
            rows += self._bakes(side, count)
        self.more["bake"] = rows
        head = [
            *("mesh", "solver", "frames", "s, median", "CPU s, all threads", "peak memory, MB"),
            "times less wall clock",
        ]
        self.tables["Whole bakes, button to finished cache"] = table(head, rows)

    def _bakes(self, side: int, count: int) -> list[list[Cell]]:
        cloth = sheet(side)
        ours = [v for v in self._variants(side**2) if v.name in (DEFAULT, "Automatic")]
        times: dict[str, list[dict[str, float]]] = {}
        for number in range(self.repeats + 1):
            for variant in ours:
                words = {
                    "side": side,
                    "size": 1.0,
                    # The first one is short, and compiles what is not in the kernel cache yet.
                    "frames": (count if number else 2) + 1,
                    "read": False,
                    "settings": {**vars(cloth.fabric()), **variant.settings},
                }
                found = self._bake(children.CHILD, "ours", words)
                if number and found is not None:
                    times.setdefault(f"{OURS}: {variant.name}", []).append(found)
            if number == 1:
                words = {**self._matched(cloth), "frames": count, "quality": BAKED_QUALITY}
                found = self._bake(children.BLENDER_CHILD, "bake", words)
                if found is not None:
                    times.setdefault(f"{CLOTH}: quality {BAKED_QUALITY}", []).append(found)
        theirs = [runs for name, runs in times.items() if name.startswith(CLOTH)]
        rows: list[list[Cell]] = []
        for name, runs in times.items():
            middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
            ratio = None
            if theirs and name.startswith(OURS):
                ratio = theirs[0][0]["seconds"] / middle["seconds"]
            seconds, cpu, memory = (middle[key] for key in ("seconds", "cpu", "memory"))
            rows.append([cloth.name, name, count, seconds, cpu, memory, ratio])
        return rows

    def _bake(self, child: Path, mode: str, words: dict[str, Any]) -> dict[str, float] | None:
        import numpy as np

        out = self.folder / f"bake_{mode}.npz"
        try:
            children.start(child, mode, out, **words)
        except MeasurementError as error:
            print(error, flush=True)
            return None
        with np.load(out) as data:
            source = json.loads(str(data["found"])) if "found" in data else data
            found = {key: float(source[key]) for key in ("seconds", "cpu", "memory")}
        print(f"  {words['side']}², {mode}: {found['seconds']:.3g} s", flush=True)
        return found

    def write(self, conditions: str) -> None:
        """JSON and plots."""
        path = self.out / "speed.json"
        contents = {
            "machine": conditions,
            "sizes": self.sizes,
            "quick": self.quick,
            "records": [record.words() for record in self.records],
            "growth": [asdict(entry) for entry in growth(self.records)],
            **self.more,
        }
        path.write_text(json.dumps(contents, indent=1, ensure_ascii=False), encoding="utf-8")
        python = os.environ.get("TAICHI_CLOTH_PLOT_PYTHON") or sys.executable
        # On its own: Matplotlib has no place in the environment of Blender's module.
        done = subprocess.run([python, str(PLOTTER), str(path), str(self.out)], check=False)
        if done.returncode:
            print("No plots: python build.py bench speed installs Matplotlib for them")


PARTS: dict[str, Callable[[Speed], None]] = {
    "sheet": Speed.sheet,
    "stiffness": Speed.stiffness,
    "strip": Speed.strip,
    "meshes": Speed.meshes,
    "bandwidth": Speed.bandwidth,
    "paper": Speed.paper,
    "bake": Speed.bake,
}


def report(options: argparse.Namespace) -> str:
    """All tables; the JSON and the plots are written beside them."""
    conditions = machine()
    work = Speed(options)
    for old in work.out.glob("speed-*.png"):
        old.unlink()
    for name in options.parts or PARTS:
        if name not in PARTS:
            raise SystemExit(f"no part {name!r}; there are {', '.join(PARTS)}")
        print(f"{name}:", flush=True)
        try:
            PARTS[name](work)
        except MeasurementError as error:
            print(error, flush=True)
        # Kept after each part: the whole takes long.
        work.write(conditions)
    text = (
        f"A sheet of 1 m, {DENSITY} kg/m², structural springs of {STIFFNESS:g} N/m, shear springs "
        f"of a tenth, undamped, no air; level at first, held at two corners; {FRAMES} frames of "
        "1/24 s. Every measurement is a process of its own; times are means over the frames, "
        f"medians of up to {work.repeats} runs by turns. Error: RMS distance at 0.5 s to explicit "
        "steps of half the stable length, ours in the same network, Blender's Cloth in a network "
        "of its own springs and masses. docs/developer/benchmarks.md says more."
    )
    found = growth(work.records)
    if found:
        work.tables["Growth with the number of vertices"] = growth_table(found)
    body = [text, main_table(work.records)]
    body += [f"## {title}\n\n{lines}" for title, lines in work.tables.items()]
    names = sorted(path.name for path in options.out.glob("speed-*.png"))
    body += [f"![{name}]({name})" for name in names]
    return "\n\n".join(body)
