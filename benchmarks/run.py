# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmarks: `python build.py bench [NAME ...]`.

Prints Markdown tables and writes them to the output folder.
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

TITLES = {
    "paper": "Four methods on the cloths of the 2012 paper",
    "blender": "Against Blender's own cloth",
    "speed": "Time, error and stretch against size",
    "independence": "Mesh, frame rate, substeps, integrator and stiffness",
    "latency": "From the click to the first baked frame",
    "drape": "Drape coefficients of the presets",
    "memory": "Memory and set-up of the worker",
}
QUICK = ("paper", "blender", "latency")
# Those that only use the engine, in this process, and the vertices of their largest cloth.
ENGINE = {"paper": 32 * 32, "independence": 128 * 128, "drape": 1456}


def kernel_folder(output: Path) -> str:
    """Where compiled kernels are kept between runs."""
    return os.environ.get("TAICHI_CLOTH_TEST_CACHE") or str(output / "kernels")


def start(output: Path, vertex_count: int) -> None:
    """Start the engine on as many threads as the worker takes for such a cloth."""
    from taichi_cloth_addon.engine import runtime

    threads = runtime.suitable_threads(vertex_count)
    runtime.start(runtime.Device.CPU, kernel_folder(output), threads)


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    lines = "".join(f"\n  {name:14}{title}" for name, title in TITLES.items())
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which ones, 'all', or nothing for {', '.join(QUICK)}",
    )
    parser.epilog = f"benchmarks:{lines}"
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", metavar="DIR")
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="sides, for 'blender', 'memory', 'speed'"
    )
    speed = parser.add_argument_group("of 'speed'")
    speed.add_argument("--quick", action="store_true", help="small cloths, few settings, once")
    speed.add_argument("--parts", nargs="+", help="only these parts; a wrong one lists them")
    speed.add_argument("--meshes", type=Path, nargs="+", default=[], help="garments, or folders")
    speed.add_argument("--repeats", type=int, help="runs of each that takes less than a minute")
    speed.add_argument("--limit", type=float, help="s after which a measurement stops stepping")
    speed.add_argument("--device", default="CPU", help="CPU, CUDA, VULKAN, METAL; for 'memory' too")
    options = parser.parse_args(arguments)
    names = list(options.names) or list(QUICK)
    if names == ["all"]:
        names = list(TITLES)
    for name in names:
        if name not in TITLES:
            parser.error(f"no benchmark {name!r}; there are {', '.join(TITLES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    from benchmarks.tables import machine

    for name in names:
        begin = time.perf_counter()
        if name in ENGINE:
            start(options.out, ENGINE[name])
        conditions = machine()
        module = importlib.import_module(f"benchmarks.{name}")
        body = module.report(options) if name not in ENGINE else module.report()
        text = f"# {TITLES[name]}\n\n`python build.py bench {name}` on {conditions}.\n\n{body}\n"
        path = options.out / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        print(text)
        print(f"({time.perf_counter() - begin:.0f} s, written to {path})\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
