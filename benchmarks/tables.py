# SPDX-License-Identifier: GPL-3.0-or-later
"""Markdown tables, and what machine they come from."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

Cell = str | float | int | None


def cell(value: Cell) -> str:
    """Three significant figures for a float."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"
    return str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [
        "| " + " | ".join(head) + " |",
        "|---" + "|--:" * (len(head) - 1) + "|",
    ]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """One line: system, processors, how busy."""
    parts = [
        platform.system(),
        platform.machine(),
        f"Python {platform.python_version()}",
        f"{os.cpu_count()} cores",
    ]
    if hasattr(os, "getloadavg"):
        parts.append(f"load {os.getloadavg()[0]:.1f}")
    return f"{', '.join(parts)}, {datetime.now(UTC):%Y-%m-%d}"
