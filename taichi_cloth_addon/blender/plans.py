# SPDX-License-Identifier: GPL-3.0-or-later
"""What one press of Bake Cloth is going to do: which objects together, over which frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import bpy

from . import attach, capture
from .properties import cloth_settings, ensure_uid


class BakeError(Exception):
    """A bake cannot be started or go on. The text names the object and the way out."""


@dataclass(frozen=True)
class Target:
    """An object of the session, without a pointer to it."""

    name: str
    session_uid: int
    uid: str

    def find(self) -> bpy.types.Object | None:
        """The object as it is now, None if it was deleted."""
        named = [bpy.data.objects[self.name]] if self.name in bpy.data.objects else []
        candidates = (*named, *bpy.data.objects)
        return next((ob for ob in candidates if ob.session_uid == self.session_uid), None)


@dataclass(frozen=True)
class Group:
    """Objects of one range: they share a job, so their cloths meet."""

    targets: tuple[Target, ...]
    frame_start: int
    frame_end: int

    def label(self) -> str:
        """Names and range, for messages."""
        names = ", ".join(target.name for target in self.targets)
        return f"{names} ({self.frame_start} to {self.frame_end})"


@dataclass
class Plan:
    """The jobs of a bake.

    Attributes:
        groups: one job each, in order.
        notices: sentences for the user.
        changed: whether planning has changed the .blend.
    """

    groups: list[Group]
    notices: list[str] = field(default_factory=list)
    changed: bool = False


def plan(scene: bpy.types.Scene, objects: Sequence[bpy.types.Object]) -> Plan:
    """Plan a bake from the start. Meshes become cloth; other simulations are switched off.

    Raises:
        BakeError: an object has no frames to bake.
    """
    made = Plan([])
    ranges: dict[tuple[int, int], list[Target]] = {}
    for ob in objects:
        first, last = capture.frame_range(scene, ob)
        if last < first:
            raise BakeError(
                f"{ob.name}: the last frame ({last}) comes before the first ({first}); "
                "set the range"
            )
    for ob in objects:
        settings = cloth_settings(ob)
        if not settings.enabled:
            settings.enabled = True
            made.changed = True
        target = Target(ob.name, ob.session_uid, ensure_uid(ob))
        ranges.setdefault(capture.frame_range(scene, ob), []).append(target)
        for name in attach.disable_rival_modifiers(ob):
            made.notices.append(f'The modifier "{name}" of {ob.name} was switched off')
            made.changed = True
    made.groups = [Group(tuple(targets), *key) for key, targets in sorted(ranges.items())]
    return made
