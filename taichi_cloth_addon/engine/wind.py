# SPDX-License-Identifier: GPL-3.0-or-later
"""Velocity of the air at points: the panel's wind with its gusts, and wind field objects."""

import math
from collections.abc import Callable

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
    offset = points - field.origin
    height = offset @ field.axis
    radial = np.linalg.norm(offset - height[:, None] * field.axis, axis=1)
    distance = _DISTANCE[field.falloff](offset, height, radial)
    if field.shape is FieldShape.POINT:
        length = np.linalg.norm(offset, axis=1)
        direction = offset / np.maximum(length, _CALM)[:, None]
    else:
        direction = np.broadcast_to(field.axis, points.shape)
    strength = np.where(distance <= field.maximum_distance, field.speed, 0.0)
    if field.power > 0.0:
        # As in Blender: full strength up to the minimum distance, then (1 + d) ** -power.
        beyond = np.maximum(distance - field.minimum_distance, 0.0)
        strength = strength * (1.0 + beyond) ** -field.power
    if field.one_sided:
        strength = np.where(height * field.one_sided >= 0.0, strength, 0.0)
    velocity: Array = strength[:, None] * direction
    if field.noise > 0.0:
        drift = field.axis * field.speed
        gust = _turbulence(points, time, drift, seed=1 + index + 1000 * field.seed)
        velocity = velocity + field.noise * np.abs(strength)[:, None] * gust
    return velocity


def _sphere(offset: Array, _height: Array, _radial: Array) -> Array:
    length: Array = np.linalg.norm(offset, axis=1)
    return length


def _tube(_offset: Array, height: Array, radial: Array) -> Array:
    return np.maximum(np.abs(height), radial)


def _cone(offset: Array, height: Array, _radial: Array) -> Array:
    length = np.linalg.norm(offset, axis=1)
    cosine = np.abs(height) / np.maximum(length, _CALM)
    angle: Array = np.arccos(np.clip(cosine, 0.0, 1.0))
    return np.maximum(np.abs(height), angle * length)


_DISTANCE: dict[FieldFalloff, Callable[[Array, Array, Array], Array]] = {
    FieldFalloff.SPHERE: _sphere,
    FieldFalloff.TUBE: _tube,
    FieldFalloff.CONE: _cone,
}
