#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds, tests and demonstrates the extension; needs a Python and nothing else.

python build.py demo       zip -> clean Blender profile -> bake -> film in build/demo
python build.py test       ruff, mypy, and all tests on real Blenders
python build.py package    one valid zip per platform in build/dist
python build.py bench      the benchmarks

Environments, downloads and results all go to build/, which may be deleted at any time.
"""

from __future__ import annotations

import argparse
import sys

MINIMUM = (3, 9)
if sys.version_info < MINIMUM:
    sys.exit(f"build.py needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer.")

from tools.common import (  # noqa: E402
    BLENDERS,
    BUILD,
    ROOT,
    BuildError,
    heading,
    host_platform,
    run,
    say,
)
from tools.environments import (  # noqa: E402
    any_blender_environment,
    blender_environment,
    plot_environment,
)
from tools.extension_zip import (  # noqa: E402
    PLATFORMS,
    build_zip,
    taichi_environment,
)
from tools.profiles import RUNNER, make_profile  # noqa: E402
from tools.testing import STEPS, run_tests  # noqa: E402


def package(platforms: list[str]) -> int:
    """Builds one zip per platform."""
    environment = any_blender_environment()
    for platform in platforms or PLATFORMS:
        build_zip(platform, environment)
    return 0


def demo(arguments: list[str]) -> int:
    """Installs the zip into a clean profile and runs the demo script on it."""
    script = ROOT / "demo" / "make_demo.py"
    if not script.is_file():
        raise BuildError("demo/make_demo.py is missing.")
    heading("Demo: environment and zip")
    environment = any_blender_environment()
    zip_file = build_zip(host_platform(), environment)
    variables = make_profile(f"demo-{environment.name}", zip_file, environment)
    output = BUILD / "demo"
    heading("Demo: bake and render")
    run(
        [environment.python, "-u", RUNNER, script, "--out", output, *arguments],
        what="The demo",
        environment=variables,
    )
    say("")
    for title, pattern in (("Film", "*.mp4"), ("Blender file", "*.blend"), ("Frames", "*.png")):
        found = sorted(output.rglob(pattern))
        if pattern == "*.png":
            places = sorted({path.parent for path in found})
            for place in places:
                count = sum(path.parent == place for path in found)
                say(f"{title}: {place} ({count} PNG)")
        else:
            for path in found:
                say(f"{title}: {path}")
    return 0


def bench(arguments: list[str]) -> int:
    """Runs the benchmarks in the environment of the newest Blender."""
    script = ROOT / "benchmarks" / "run.py"
    if not script.is_file():
        raise BuildError("benchmarks/run.py is missing.")
    environment = blender_environment(BLENDERS[0])
    zip_file = build_zip(host_platform(), environment)
    variables = make_profile("bench", zip_file, environment)
    variables["TAICHI_CLOTH_TEST_CACHE"] = str(BUILD / "kernels")
    if {"speed", "all"} & set(arguments):
        variables["TAICHI_CLOTH_PLOT_PYTHON"] = str(plot_environment().python)
    run(
        [taichi_environment(environment).python, "-u", RUNNER, script, *arguments],
        what="The benchmark",
        environment=variables,
    )
    return 0


def main(argv: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="build.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "demo",
        help="bake and render the demo; arguments go to demo/make_demo.py",
        add_help=False,
    )
    test = commands.add_parser("test", help="run all checks; further arguments go to pytest")
    test.add_argument("--only", action="append", default=[], choices=STEPS)
    versions = [blender.name for blender in BLENDERS]
    test.add_argument("--bpy", action="append", default=[], choices=versions)
    packaging = commands.add_parser("package", help="build the zips")
    packaging.add_argument("--platform", action="append", default=[], choices=PLATFORMS)
    commands.add_parser(
        "bench", help="run the benchmarks; arguments go to benchmarks/run.py", add_help=False
    )
    options, rest = parser.parse_known_args(argv)
    rest = [argument for argument in rest if argument != "--"]
    try:
        if options.command == "demo":
            return demo(rest)
        if options.command == "test":
            return run_tests(options.only, options.bpy, rest)
        if options.command == "bench":
            return bench(rest)
        if rest:
            parser.error(f"unknown arguments: {' '.join(rest)}")
        return package(options.platform)
    except BuildError as error:
        print(f"\nbuild.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbuild.py: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
