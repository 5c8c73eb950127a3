# SPDX-License-Identifier: GPL-3.0-or-later
"""The saved properties: names, defaults, ranges, and what copying an object does to them."""

import ast
import inspect
from pathlib import Path
from typing import Any

import bpy
import pytest

from tests.blender import support

NAMES = {
    "enabled", "uid", "quality", "integrator", "substeps", "motion_samples", "use_scene_range",
    "frame_start", "frame_end", "density", "tension_stiffness", "shear_stiffness",
    "bending_stiffness", "tension_damping", "shear_damping", "bending_damping", "air_drag",
    "strain_limit",
    "bending_stiffness_micro", "bending_damping_micro",
    "pin_group", "pin_stiffness", "use_wind", "wind_velocity", "wind_gusts", "use_force_fields",
    "output", "cache_folder",
}  # fmt: skip


def branches(module: Any) -> list[tuple[str, set[str], set[str]]]:
    """Names of both branches of each ``if TYPE_CHECKING`` in a class."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.ClassDef):
            continue
        for item in node.body:
            if isinstance(item, ast.If) and ast.unparse(item.test) == "TYPE_CHECKING":
                pair = [
                    {ast.unparse(line.target) for line in part if isinstance(line, ast.AnnAssign)}
                    for part in (item.body, item.orelse)
                ]
                found.append((node.name, pair[0], pair[1]))
    return found


@pytest.mark.parametrize("name", ["properties", "status", "preferences", "fix_operators"])
def test_types_and_properties_name_the_same_fields(name: str) -> None:
    found = branches(support.ours(f"blender.{name}"))
    assert found
    for owner, typed, real in found:
        assert typed == real, owner
        assert typed


def test_public_names() -> None:
    ob = support.grid()
    assert {p.identifier for p in ob.taichi_cloth.bl_rna.properties} - {"rna_type", "name"} == NAMES
    assert {"state", "message", "frame_first", "frame_last"} <= {
        p.identifier for p in ob.taichi_cloth_status.bl_rna.properties
    }
    assert bpy.context.scene.taichi_cloth.device == "AUTO"


def test_fabric_comes_from_the_engine() -> None:
    material = support.ours("engine.material")
    properties = support.grid().taichi_cloth.bl_rna.properties
    for spec in material.PARAMETERS:
        prop = properties[spec.name]
        assert prop.default == pytest.approx(spec.default)
        assert prop.hard_min == pytest.approx(spec.minimum)
        assert prop.hard_max == pytest.approx(spec.maximum)


def test_enums_match_the_engine() -> None:
    solver = support.ours("engine.solver")
    properties = support.grid().taichi_cloth.bl_rna.properties
    scene = bpy.context.scene.taichi_cloth.bl_rna.properties
    integrators = {item.identifier for item in properties["integrator"].enum_items}
    assert integrators == {item.value for item in solver.Integrator}
    devices = {item.identifier for item in scene["device"].enum_items}
    assert devices == {item.value for item in solver.Device}


def test_labels_and_tooltips() -> None:
    ob = support.grid()
    groups = (ob.taichi_cloth, ob.taichi_cloth_status, bpy.context.scene.taichi_cloth)
    for group in groups:
        for prop in group.bl_rna.properties:
            if prop.identifier in {"rna_type", "name", "uid"}:
                continue
            assert prop.name, prop.identifier
            assert prop.name[0].isupper()
            assert not prop.name.endswith(":")
            assert prop.description, prop.identifier
            assert not prop.description.endswith("."), prop.description


def test_status_is_read_only() -> None:
    status = support.grid().taichi_cloth_status
    for name, value in (("state", "BAKED"), ("message", "x"), ("frame_first", 3)):
        with pytest.raises(AttributeError):
            setattr(status, name, value)


def test_presets_differ_and_are_recognised() -> None:
    presets = support.ours("blender.presets")
    settings = support.cloth().taichi_cloth
    for identifier, label, _description in presets.ITEMS:
        bpy.ops.taichi_cloth.apply_preset(preset=identifier)
        assert presets.matching(settings) == label
    settings.density *= 1.5
    assert presets.matching(settings) == "Custom"


def test_duplicate_gets_a_uid_of_its_own() -> None:
    one = support.cloth()
    bpy.ops.object.duplicate()
    two = bpy.context.object
    assert two != one
    assert two.taichi_cloth.uid == one.taichi_cloth.uid
    ensure_uid = support.ours("blender.properties").ensure_uid
    before = one.taichi_cloth.uid
    assert ensure_uid(one) == before
    assert ensure_uid(two) != before
    assert ensure_uid(two) == two.taichi_cloth.uid
    assert ensure_uid(one) == before


def test_settings_survive_a_file(tmp_path: Path) -> None:
    ob = support.cloth()
    ob.taichi_cloth.density = 0.33
    ob.taichi_cloth.wind_velocity = (1.0, 2.0, 3.0)
    uid = ob.taichi_cloth.uid
    support.save(tmp_path / "ткань.blend")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "ткань.blend"))
    settings = bpy.data.objects["Cloth"].taichi_cloth
    assert settings.enabled
    assert settings.uid == uid
    assert settings.density == pytest.approx(0.33)
    assert tuple(settings.wind_velocity) == (1.0, 2.0, 3.0)


def test_bending_in_millionths() -> None:
    settings = support.grid().taichi_cloth
    settings.bending_stiffness_micro = 70.0
    assert settings.bending_stiffness == pytest.approx(70e-6)
    settings.bending_damping = 3e-7
    assert settings.bending_damping_micro == pytest.approx(0.3)
