# SPDX-License-Identifier: GPL-3.0-or-later
"""Velocity of the air at points: the panel's wind with its gusts, and wind field objects."""

import math

import numpy as np
import numpy.typing as npt

from .inputs import FieldFalloff, FieldShape, Sample, WindField

Array = npt.NDArray[np.float64]

# Gusts are a sum of waves that drift with the wind, from this wavelength (m) downwards by
# octaves, their strength falling like atmospheric turbulence, as wavelength ** (1/3).
_LONGEST_GUST = 4.0
_OCTAVES = 5
_WAVES_PER_OCTAVE = 3
# How fast a gust changes while it drifts: its frequency seen by the drifting air, as a share
# of the one seen by an observer at rest.
_RENEWAL = 0.3
_CALM = 1e-9


def air_velocity(
    points: Array, sample: Sample, wind: Array, gusts: float, time: float, use_fields: bool
) -> Array:
    """Air velocity at ``points`` (N, 3) in m, as (N, 3) in m/s.

    Args:
        points: world positions.
        sample: gives the wind fields.
        wind: (3,) steady wind.
        gusts: strength of the gusts (root mean square) as a share of the wind's speed.
        time: s since the first frame.
        use_fields: whether the wind fields count.
    """
    air = np.broadcast_to(wind, points.shape).copy()
    speed = float(np.linalg.norm(wind))
    if speed > _CALM and gusts > 0.0:
        air += gusts * speed * _turbulence(points, time, wind, seed=0)
    if use_fields:
        for index, field in enumerate(sample.fields):
            air += _field_velocity(points, field, index, time)
    return air


def _turbulence(points: Array, time: float, drift: Array, seed: int) -> Array:
    """Smooth random vectors (N, 3) of root mean square length about 1."""
    random = np.random.Generator(np.random.PCG64(seed))
    speed = max(float(np.linalg.norm(drift)), 1.0)
    total = np.zeros_like(points)
    power = 0.0
    for octave in range(_OCTAVES):
        wavelength = _LONGEST_GUST / 2.0**octave
        strength = wavelength ** (1.0 / 3.0)
        for _ in range(_WAVES_PER_OCTAVE):
            direction = random.normal(size=3)
            direction /= np.linalg.norm(direction)
            amplitude = random.normal(size=3)
            # Across its own direction a wave neither gathers nor thins the air.
            amplitude -= amplitude.dot(direction) * direction
            phase = random.uniform(0.0, 2.0 * math.pi)
            wave = 2.0 * math.pi / wavelength
            angle = wave * ((points - drift * time) @ direction)
            angle += phase + _RENEWAL * wave * speed * time
            total += strength * np.sin(angle)[:, None] * amplitude
            power += 0.5 * strength**2 * 2.0
    return total / math.sqrt(power)


def _field_velocity(points: Array, field: WindField, index: int, time: float) -> Array:
    strength = field.speed * _falloff(points - field.origin, field)
    velocity: Array = strength[:, None] * field.axis
    if field.noise > 0.0:
        drift = field.axis * field.speed
        gust = _turbulence(points, time, drift, seed=1 + index + 1000 * field.seed)
        velocity = velocity + field.noise * np.abs(strength)[:, None] * gust
    return velocity


def _falloff(offset: Array, field: WindField) -> Array:
    """Share (N,) of the field's speed at offsets (N, 3) from its origin; as Blender's own."""
    height = offset @ field.axis
    if field.falloff is FieldFalloff.SPHERE:
        share = _along(_distance(offset, height, field), field)
    else:
        share = _along(np.abs(height), field)
        if field.falloff is FieldFalloff.TUBE:
            across, unit = _from_axis(offset, height, field), field.unit
        else:
            length = np.maximum(np.linalg.norm(offset, axis=1), _CALM)
            across, unit = np.degrees(np.arccos(np.clip(height / length, -1.0, 1.0))), 1.0
        least, most = field.radial_minimum, field.radial_maximum
        share = share * _weakened(across, field.radial_power, least, most, unit)
    if field.one_sided:
        share = np.where(height * field.one_sided >= 0.0, share, 0.0)
    return share


def _distance(offset: Array, height: Array, field: WindField) -> Array:
    if field.shape is FieldShape.PLANE:
        return np.abs(height)
    if field.shape is FieldShape.LINE:
        return _from_axis(offset, height, field)
    length: Array = np.linalg.norm(offset, axis=1)
    return length


def _from_axis(offset: Array, height: Array, field: WindField) -> Array:
    radial: Array = np.linalg.norm(offset - height[:, None] * field.axis, axis=1)
    return radial


def _along(distance: Array, field: WindField) -> Array:
    least, most = field.minimum_distance, field.maximum_distance
    return _weakened(distance, field.power, least, most, field.unit)


def _weakened(distance: Array, power: float, least: float, most: float, unit: float) -> Array:
    """Full strength up to ``least``, then (1 + d) ** -power, nothing beyond ``most``."""
    beyond = np.maximum(distance - least, 0.0) / unit
    share: Array = np.where(distance <= most, (1.0 + beyond) ** -power, 0.0)
    return share
