# SPDX-License-Identifier: GPL-3.0-or-later
"""`build.py test`: lint, then the suites of tests on each Blender, then one line that sums up."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from .common import (
    BLENDERS,
    BUILD,
    ROOT,
    BlenderVersion,
    BuildError,
    clean_environment,
    executable_in,
    heading,
    host_platform,
    say,
)
from .environments import Environment, blender_environment, lint_environment
from .extension_zip import build_zip, taichi_environment
from .profiles import make_profile, profile_environment

STEPS = ("lint", "unit", "blender", "package")
# Suites with a folder of their own; all other tests are "unit": they need no Blender.
# The tests in gui/ need a Blender with a window, see there.
FOLDERS = {"blender": "tests/blender", "package": "tests/package"}
NO_TESTS_COLLECTED = 5
# Suites that run at the same time: each keeps about one core busy.
AT_ONCE = 2


@dataclass
class Tally:
    """What has run so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    lines: list[str] = field(default_factory=list)

    def add(self, title: str, result: str, *, passed: int, failed: int, skipped: int = 0) -> None:
        """Counts one step and keeps its closing line."""
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        self.lines.append(f"{title}: {result}")


def _run_check(command: Sequence[str | Path]) -> int:
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=ROOT,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
    ).returncode


def run_lint(tally: Tally) -> None:
    """Ruff and mypy; each counts as one test."""
    folder = lint_environment().folder
    ruff, mypy = executable_in(folder, "ruff"), executable_in(folder, "mypy")
    checks: list[tuple[str, list[str | Path]]] = [
        ("ruff check", [ruff, "check", "."]),
        ("ruff format", [ruff, "format", "--check", "--quiet", "."]),
        ("mypy", [mypy]),
    ]
    for title, command in checks:
        heading(title)
        status = _run_check(command)
        say("clean" if status == 0 else f"failed (exit status {status})")
        result = "1 passed" if status == 0 else "1 failed"
        tally.add(title, result, passed=int(status == 0), failed=int(status != 0))


def _counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit report."""
    passed = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skips = int(suite.get("skipped", 0))
        passed += int(suite.get("tests", 0)) - bad - skips
        failed += bad
        skipped += skips
    return passed, failed, skipped


@dataclass(frozen=True)
class Suite:
    """One call of pytest.

    Attributes:
        title: for the reader.
        environment: whose Python runs it.
        variables: its environment variables.
        arguments: of pytest.
        may_be_empty: whether it is fine that no test was selected.
    """

    title: str
    environment: Environment
    variables: dict[str, str]
    arguments: tuple[str, ...]
    may_be_empty: bool


@dataclass(frozen=True)
class Outcome:
    """What a suite gave: its closing line and counts."""

    closing: str
    passed: int
    failed: int
    skipped: int


def run_pytest(suite: Suite) -> Outcome:
    """Runs a suite; its lines are printed as they come, with its title in front."""
    report = BUILD / "reports" / (re.sub(r"\W+", "-", suite.title) + ".xml")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    process = subprocess.Popen(
        [
            str(suite.environment.python),
            *("-m", "pytest", f"--junitxml={report}"),
            *("-o", f"cache_dir={BUILD / 'pytest' / suite.environment.name}"),
            *suite.arguments,
        ],
        cwd=ROOT,
        env=suite.variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    closing = ""
    assert process.stdout is not None
    for line in process.stdout:
        sys.stdout.write(f"{suite.title} | {line}")
        sys.stdout.flush()
        if re.match(r"(=+ )?(\d+ \w+|no tests ran).* in [\d.]+s", line):
            closing = line.strip().strip("= ")
    status = process.wait()
    passed, failed, skipped = _counts(report) if report.is_file() else (0, 0, 0)
    if status == NO_TESTS_COLLECTED and suite.may_be_empty:
        failed = 0
    elif status != 0 and failed == 0:
        failed = 1
        closing = f"{closing}, pytest ended with status {status}".strip(", ")
    return Outcome(closing, passed, failed, skipped)


def _prepare(
    blender: BlenderVersion,
    steps: Sequence[str],
    arguments: Sequence[str],
    zips: dict[str, Path],
) -> list[Suite]:
    """Makes what one Blender's suites need and returns them.

    Raises:
        BuildError: its environment, the zip or the profile could not be made.
    """
    names = [name for name in blender.suites if name in steps]
    if not names:
        return []
    heading(f"Blender {blender.name}: environment and zip")
    environment = blender_environment(blender)
    cache = {"TAICHI_CLOTH_TEST_CACHE": str(BUILD / "kernels" / blender.name)}
    if names != ["unit"] and not zips:
        zips["host"] = build_zip(host_platform(), environment)
    suites = []
    for name in names:
        python = environment
        if name == "unit":
            # Tests without Blender import the checkout, and Taichi from the unpacked wheels.
            python = taichi_environment(environment)
            variables = clean_environment(cache)
            others = [*FOLDERS.values(), "tests/gui"]
            selection = ["tests", *(f"--ignore={other}" for other in others)]
        elif name == "blender":
            variables = {**make_profile(f"test-{blender.name}", zips["host"], environment), **cache}
            selection = [FOLDERS[name]]
        else:
            # These tests make profiles of their own.
            nowhere = BUILD / "profile" / "unused"
            variables = profile_environment(nowhere, zips["host"])
            selection = [FOLDERS[name]]
        title = f"{name} on bpy {blender.name}"
        every = (*selection, *arguments)
        suites.append(Suite(title, python, variables, every, bool(arguments)))
    return suites


def run_tests(only: Sequence[str], bpy: Sequence[str], arguments: Sequence[str]) -> int:
    """Runs everything asked for.

    Args:
        only: names of STEPS; empty for all.
        bpy: names of Blender versions; empty for all.
        arguments: passed on to pytest.

    Returns:
        The exit status: 0 when all passed and something ran.
    """
    began = time.monotonic()
    steps = list(only) or list(STEPS)
    tally = Tally()
    zips: dict[str, Path] = {}
    chosen = [blender for blender in BLENDERS if not bpy or blender.name in bpy]
    if "lint" in steps:
        try:
            run_lint(tally)
        except BuildError as error:
            say(str(error))
            tally.add("lint", str(error), passed=0, failed=1)
    suites = []
    for blender in chosen:
        try:
            suites += _prepare(blender, steps, arguments, zips)
        except BuildError as error:
            say(str(error))
            tally.add(f"Blender {blender.name}", str(error), passed=0, failed=1)
    # The longest first, so that none is left over at the end.
    suites.sort(key=lambda suite: [suite.title.startswith(step) for step in STEPS], reverse=True)
    heading(", ".join(suite.title for suite in suites))
    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        running = [(suite, pool.submit(run_pytest, suite)) for suite in suites]
        for suite, future in running:
            outcome = future.result()
            tally.add(
                suite.title,
                outcome.closing,
                passed=outcome.passed,
                failed=outcome.failed,
                skipped=outcome.skipped,
            )
    heading(f"Results after {time.monotonic() - began:.0f} s")
    for line in tally.lines:
        say(line)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    say(f"\n{tally.passed} passed, {tally.failed} failed{skipped}")
    return 0 if tally.failed == 0 and tally.passed > 0 else 1
