# SPDX-License-Identifier: GPL-3.0-or-later
"""Air velocity: steady wind, gusts, and Blender's wind fields with their falloffs."""

import numpy as np
import pytest

from taichi_cloth_addon.engine.inputs import FieldFalloff, FieldShape, Sample, WindField
from taichi_cloth_addon.engine.wind import air_velocity

ORIGIN = np.array([1.0, 2.0, 0.5])
UP = np.array([0.0, 0.0, 1.0])
NONE = np.zeros(3)


def points(count: int = 400, size: float = 3.0) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 3)) * size


def blow(where: np.ndarray, *fields: WindField, time: float = 0.0) -> np.ndarray:
    """Air at points with these fields alone."""
    sample = Sample(NONE, np.zeros((1, 3)), np.zeros((0, 3)), fields)
    return air_velocity(where, sample, NONE, 0.0, time, use_fields=True)


def gusty(where: np.ndarray, wind: np.ndarray, gusts: float, time: float) -> np.ndarray:
    sample = Sample(NONE, wind[None], np.zeros((0, 3)))
    return air_velocity(where, sample, wind, gusts, time, use_fields=True)


def test_steady_wind_is_the_same_everywhere() -> None:
    wind = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(gusty(points(), wind, 0.0, 7.0), np.tile(wind, (400, 1)))


def test_no_gusts_without_wind() -> None:
    """Gusts are a share of the wind's speed."""
    np.testing.assert_array_equal(gusty(points(), NONE, 2.0, 1.0), 0.0)


def test_gusts_have_the_strength_they_say() -> None:
    """Root mean square over space and time: within 15 %, a sum of 15 waves with random phases.

    Averaged over 400 points spread over many wavelengths and 40 times.
    """
    wind = np.array([4.0, 0.0, 0.0])
    where = points(400, 50.0)
    gust = np.stack([gusty(where, wind, 0.5, t) - wind for t in np.linspace(0.0, 300.0, 40)])
    rms = np.sqrt((gust**2).sum(axis=2).mean())
    assert rms == pytest.approx(0.5 * 4.0, rel=0.15)
    # And no wind of their own.
    assert np.abs(gust.mean(axis=(0, 1))).max() < 0.1


def test_gusts_are_smooth_repeatable_and_free_of_divergence() -> None:
    """A small step changes little; waves are transverse, so air neither gathers nor thins."""
    wind = np.array([3.0, 1.0, 0.0])
    where = points(50)
    first = gusty(where, wind, 1.0, 1.0)
    np.testing.assert_array_equal(first, gusty(where, wind, 1.0, 1.0))
    assert np.abs(gusty(where, wind, 1.0, 1.001) - first).max() < 0.2
    assert np.abs(gusty(where, wind, 1.0, 9.0) - first).max() > 0.5
    step = 1e-5
    divergence = sum(
        (
            gusty(where + step * np.eye(3)[axis], wind, 1.0, 1.0)
            - gusty(where - step * np.eye(3)[axis], wind, 1.0, 1.0)
        )[:, axis]
        / (2.0 * step)
        for axis in range(3)
    )
    np.testing.assert_allclose(divergence, 0.0, atol=1e-4)


def test_plane_field_blows_along_its_axis_everywhere() -> None:
    axis = np.array([0.6, 0.0, 0.8])
    found = blow(points(), WindField(ORIGIN, axis, 5.0))
    np.testing.assert_allclose(found, np.tile(5.0 * axis, (400, 1)))
    np.testing.assert_allclose(blow(points(), WindField(ORIGIN, axis, -5.0)), -found)


def test_a_shape_says_from_where_the_distance_counts() -> None:
    """Whatever the shape, the air goes along the axis."""
    axis = np.array([0.6, 0.0, 0.8])
    offset = points()
    height = offset @ axis
    distances = {
        FieldShape.POINT: np.linalg.norm(offset, axis=1),
        FieldShape.LINE: np.linalg.norm(offset - height[:, None] * axis, axis=1),
        FieldShape.PLANE: np.abs(height),
    }
    for shape, distance in distances.items():
        found = blow(ORIGIN + offset, WindField(ORIGIN, axis, 5.0, shape, power=2.0))
        np.testing.assert_allclose(found, np.outer(5.0 / (1.0 + distance) ** 2, axis))


def test_a_power_law_has_its_unit() -> None:
    """Where a Blender unit is a centimetre, so is the unit of its falloff."""
    offset = points()
    metre = blow(ORIGIN + offset, WindField(ORIGIN, UP, 5.0, power=1.5, minimum_distance=0.5))
    small = WindField(ORIGIN, UP, 5.0, power=1.5, minimum_distance=0.005, unit=0.01)
    np.testing.assert_allclose(blow(ORIGIN + 0.01 * offset, small), metre)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_falloff_with_distance(power: float) -> None:
    """Full up to the minimum, (1 + d - minimum)^-power beyond, nothing past the maximum."""
    distance = np.array([0.0, 0.4, 0.5, 1.5, 2.9, 3.1])
    where = ORIGIN + distance[:, None] * np.array([0.6, 0.8, 0.0])
    field = WindField(ORIGIN, UP, 2.0, power=power, minimum_distance=0.5, maximum_distance=3.0)
    wanted = 2.0 * (1.0 + np.maximum(distance - 0.5, 0.0)) ** -power
    wanted[-1] = 0.0
    np.testing.assert_allclose(blow(where, field)[:, 2], wanted)


def test_a_tube_weakens_along_and_across() -> None:
    offset = points()
    height, across = np.abs(offset[:, 2]), np.linalg.norm(offset[:, :2], axis=1)
    field = WindField(
        ORIGIN,
        UP,
        2.0,
        falloff=FieldFalloff.TUBE,
        power=1.5,
        minimum_distance=0.5,
        maximum_distance=4.0,
        radial_power=0.7,
        radial_minimum=0.25,
        radial_maximum=3.0,
    )
    wanted = 2.0 * (1.0 + np.maximum(height - 0.5, 0.0)) ** -1.5
    wanted *= (1.0 + np.maximum(across - 0.25, 0.0)) ** -0.7
    wanted[(height > 4.0) | (across > 3.0)] = 0.0
    assert 50 < np.count_nonzero(wanted) < 350
    np.testing.assert_allclose(blow(ORIGIN + offset, field)[:, 2], wanted)


def test_a_cone_weakens_along_and_with_the_angle() -> None:
    """The angle is one to the axis, in degrees; behind the origin it is above 90°."""
    angles = np.radians([0.0, 10.0, 40.0, 60.0, 100.0, 180.0])
    offset = np.stack([np.sin(angles), 0.0 * angles, np.cos(angles)], axis=1)
    field = WindField(
        ORIGIN,
        UP,
        1.0,
        falloff=FieldFalloff.CONE,
        radial_power=1.0,
        radial_minimum=10.0,
        radial_maximum=60.1,
    )
    found = blow(ORIGIN + offset, field)[:, 2]
    np.testing.assert_allclose(found, [1.0, 1.0, 1.0 / 31.0, 1.0 / 51.0, 0.0, 0.0], atol=1e-9)
    assert np.isfinite(blow(ORIGIN[None], field)).all()


@pytest.mark.parametrize("side", [1, -1])
def test_one_sided(side: int) -> None:
    where = points()
    found = blow(where, WindField(ORIGIN, UP, 1.0, one_sided=side))[:, 2]
    above = (where - ORIGIN) @ UP * side >= 0.0
    np.testing.assert_array_equal(found, np.where(above, 1.0, 0.0))


def test_noise_follows_its_seed_and_its_share() -> None:
    """Noise changes in space and time, differs by seed and by field, and scales with the share."""
    where = points()
    plain = blow(where, WindField(ORIGIN, UP, 2.0))

    def noise(share: float, seed: int, time: float = 0.0) -> np.ndarray:
        return blow(where, WindField(ORIGIN, UP, 2.0, noise=share, seed=seed), time=time) - plain

    np.testing.assert_allclose(noise(0.5, 1), 0.5 * noise(1.0, 1), atol=1e-12)
    assert np.abs(noise(1.0, 1) - noise(1.0, 2)).max() > 0.5
    assert np.abs(noise(1.0, 1) - noise(1.0, 1, 5.0)).max() > 0.5
    np.testing.assert_array_equal(noise(1.0, 1), noise(1.0, 1))


def test_fields_add_up_and_can_be_ignored() -> None:
    where, wind = points(20), np.array([1.0, 0.0, 0.0])
    fields = (WindField(ORIGIN, UP, 2.0), WindField(-ORIGIN, np.array([0.0, 1.0, 0.0]), 3.0))
    sample = Sample(NONE, wind[None], np.zeros((0, 3)), fields)
    both = air_velocity(where, sample, wind, 0.0, 0.0, use_fields=True)
    np.testing.assert_allclose(both, np.tile([1.0, 3.0, 2.0], (20, 1)))
    without = air_velocity(where, sample, wind, 0.0, 0.0, use_fields=False)
    np.testing.assert_allclose(without, np.tile(wind, (20, 1)))
