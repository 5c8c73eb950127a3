# SPDX-License-Identifier: GPL-3.0-or-later
"""The presets drape as their fabrics do: Cusick's disc, on a coarse mesh."""

from functools import cache
from itertools import pairwise

import pytest

from benchmarks.drape import RANGES, drape
from taichi_cloth_addon.engine.material import PRESETS, fabric_names, parameter

FABRICS = {preset.identifier: preset.fabric for preset in PRESETS}


@cache
def coefficient(identifier: str) -> float:
    """Drape coefficient, per cent; each takes two to four seconds."""
    return drape(FABRICS[identifier], rings=5, segments=60, seconds=2.0).coefficient


@pytest.mark.parametrize("identifier", sorted(RANGES))
def test_drapes_as_published(identifier: str) -> None:
    low, high = RANGES[identifier]
    assert low <= coefficient(identifier) <= high


def test_stiffer_fabrics_drape_less() -> None:
    order = ["SILK", "WOOL", "COTTON", "DENIM", "CANVAS"]
    found = [coefficient(identifier) for identifier in order]
    for one, other in pairwise(found):
        assert other > one + 4.0


def test_presets_differ() -> None:
    assert len(set(FABRICS.values())) == len(FABRICS)
    assert len({preset.label for preset in PRESETS}) == len(FABRICS)


def test_presets_lie_within_the_sliders() -> None:
    for fabric in FABRICS.values():
        for name in fabric_names():
            spec = parameter(name)
            assert spec.soft_minimum <= getattr(fabric, name) <= spec.soft_maximum
