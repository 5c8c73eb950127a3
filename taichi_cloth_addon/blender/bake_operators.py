# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators that bake: complete in ``execute``, alive with the window in ``invoke``."""

from typing import TYPE_CHECKING, Literal

import bpy

from . import bake, finished, selection, status
from .properties import DISPLAY_ONLY, cloth_settings, is_cloth

Result = set[Literal["RUNNING_MODAL", "CANCELLED", "FINISHED", "PASS_THROUGH", "INTERFACE"]]

TICK_SECONDS = 0.1
BUDGET_SECONDS = 0.06

# The timer of the modal operator, so that it can be removed when the add-on goes.
_timers: list[bpy.types.Timer] = []


def remove_timers() -> None:
    """Remove what a modal operator that did not end by itself left behind."""
    while _timers:
        manager = bpy.context.window_manager
        timer = _timers.pop()
        if manager is not None:
            manager.event_timer_remove(timer)


def redraw(context: bpy.types.Context, *, whole: bool = False) -> None:
    """Have the sidebars of the 3D viewports drawn again; the views can be costly."""
    manager = context.window_manager
    for window in manager.windows if manager is not None else ():
        for area in window.screen.areas:
            for region in area.regions if area.type == "VIEW_3D" else ():
                if whole or region.type == "UI":
                    region.tag_redraw()


def _over_viewport(context: bpy.types.Context, event: bpy.types.Event) -> bool:
    window = context.window
    if window is None:
        return True
    return any(
        area.x <= event.mouse_x < area.x + area.width
        and area.y <= event.mouse_y < area.y + area.height
        for area in window.screen.areas
        if area.type == "VIEW_3D"
    )


if TYPE_CHECKING:
    from bpy.types import Operator as _OperatorType
else:
    _OperatorType = object


def _confirm(
    operator: bpy.types.Operator,
    context: bpy.types.Context,
    event: bpy.types.Event,
    *,
    title: str,
    message: str,
    confirm_text: str,
) -> Result:
    manager = context.window_manager
    assert manager is not None
    return manager.invoke_confirm(
        operator, event, title=title, message=message, confirm_text=confirm_text
    )


class _Bake(_OperatorType):
    """What bake and resume share."""

    resume = False

    def session(self, context: bpy.types.Context) -> bake.BakeSession | None:
        """Plan the bake; report why it is impossible."""
        scene = context.scene
        assert scene is not None
        try:
            return bake.BakeSession(scene, self.objects(context), resume=self.resume)
        except bake.EXPECTED as error:
            self.report({"ERROR"}, str(error))
            return None

    def objects(self, context: bpy.types.Context) -> list[bpy.types.Object]:
        """The objects to bake."""
        return selection.bake_objects(context)

    def execute(self, context: bpy.types.Context) -> Result:
        """Bake to the end in this call."""
        session = self.session(context)
        if session is None:
            return {"CANCELLED"}
        manager = context.window_manager
        assert manager is not None
        manager.progress_begin(0, 1000)
        try:
            bake.run(session, lambda s: manager.progress_update(int(1000 * s.progress.factor)))
        finally:
            manager.progress_end()
        return self.conclude(session)

    def invoke(self, context: bpy.types.Context, _event: bpy.types.Event) -> Result:
        """Start the bake and keep the window alive."""
        manager = context.window_manager
        if bpy.app.background or context.window is None or manager is None:
            return self.execute(context)
        session = self.session(context)
        if session is None:
            return {"CANCELLED"}
        self._session = session
        self._shown = ("", "")
        session.live = True
        session.start()
        manager.progress_begin(0, 1000)
        _timers.append(manager.event_timer_add(TICK_SECONDS, window=context.window))
        manager.modal_handler_add(self)
        redraw(context)
        return {"RUNNING_MODAL"}

    def modal(self, context: bpy.types.Context, event: bpy.types.Event) -> Result:
        """Pump the session at every tick; Esc over a 3D viewport cancels."""
        session = self._session
        if event.type == "ESC" and event.value == "PRESS" and _over_viewport(context, event):
            session.cancel()
            redraw(context)
            return {"RUNNING_MODAL"}
        if event.type == "TIMER":
            try:
                session.pump(BUDGET_SECONDS)
            except BaseException:
                self._stop(context)
                raise
            manager = context.window_manager
            shown = session.progress.text(), session.progress.timing()
            if shown != self._shown:
                self._shown = shown
                if manager is not None:
                    manager.progress_update(int(1000 * session.progress.factor))
                redraw(context)
        if session.running:
            return {"PASS_THROUGH"}
        self._stop(context)
        return self.conclude(session)

    def cancel(self, context: bpy.types.Context) -> None:
        """Blender ends the operator: the window closes or another file is loaded."""
        if self._session.running:
            self._session.abort()
        self._stop(context)

    def _stop(self, context: bpy.types.Context) -> None:
        remove_timers()
        manager = context.window_manager
        if manager is not None:
            manager.progress_end()
        redraw(context, whole=True)

    def conclude(self, session: bake.BakeSession) -> Result:
        """Report how it went."""
        for notice in session.notices + session.progress.messages:
            self.report({"WARNING"}, notice)
        if session.outcome is bake.Outcome.FAILED:
            self.report({"ERROR"}, session.summary())
        elif session.outcome is bake.Outcome.CANCELLED:
            self.report({"WARNING"}, session.summary())
        else:
            self.report({"INFO"}, session.summary())
            return {"FINISHED"}
        # FINISHED makes the undo step for what is kept of a cancelled bake.
        return {"FINISHED"} if session.changed else {"CANCELLED"}


class TAICHI_CLOTH_OT_bake(_Bake, bpy.types.Operator):
    """Simulate the active and the selected cloths over their frame range."""

    bl_description = "Simulate the active and the selected cloths over their frame range"
    bl_idname = "taichi_cloth.bake"
    bl_label = "Bake Cloth"
    # Not REGISTER: Repeat Last would bake again, with the window frozen.
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether there is a mesh that can be read, and no bake runs."""
        return selection.ready(cls, selection.bake_objects(context), selection.wrong_mode)


class TAICHI_CLOTH_OT_resume(_Bake, bpy.types.Operator):
    """Go on with a cancelled bake where it stopped."""

    bl_description = "Go on with a cancelled bake where it stopped"
    bl_idname = "taichi_cloth.resume"
    bl_label = "Resume Bake"
    bl_options = {"UNDO"}

    resume = True

    def objects(self, context: bpy.types.Context) -> list[bpy.types.Object]:
        """The selected cloths whose bake was cancelled."""
        return [ob for ob in selection.bake_objects(context) if status.peek(ob).resumable]

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether a selected cloth has a cancelled bake."""
        objects = selection.bake_objects(context)
        if not selection.ready(cls, objects, selection.wrong_mode):
            return False
        if not any(is_cloth(ob) and status.peek(ob).resumable for ob in objects):
            return selection.refuse(cls, "There is no cancelled bake to resume")
        return True


class TAICHI_CLOTH_OT_cancel(bpy.types.Operator):
    """End the running bake and keep the frames that are done."""

    bl_description = "End the running bake and keep the frames that are done"
    bl_idname = "taichi_cloth.cancel"
    bl_label = "Cancel"
    bl_options = {"INTERNAL"}

    @classmethod
    def poll(cls, _context: bpy.types.Context) -> bool:
        """Whether a bake runs."""
        return bake.current() is not None or selection.refuse(cls, "No bake is running")

    def execute(self, _context: bpy.types.Context) -> Result:
        """Ask for the end."""
        session = bake.current()
        if session is None:
            return {"CANCELLED"}
        session.cancel()
        return {"FINISHED"}


class TAICHI_CLOTH_OT_delete_bake(bpy.types.Operator):
    """Delete the baked files of the selected cloths and show the meshes themselves."""

    bl_description = "Delete the baked files of the selected cloths and show the meshes themselves"
    bl_idname = "taichi_cloth.delete_bake"
    bl_label = "Delete Bake"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether a selected cloth has a bake."""
        objects = selection.bake_objects(context)
        if not selection.ready(cls, objects):
            return False
        if not any(is_cloth(ob) and status.peek(ob).deletable for ob in objects):
            return selection.refuse(cls, "There is no bake to delete")
        return True

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Result:
        """Ask first, because files do not come back with undo."""
        return _confirm(
            self,
            context,
            event,
            title="Delete Bake",
            message="The baked files are deleted; undo does not bring them back",
            confirm_text="Delete",
        )

    def execute(self, context: bpy.types.Context) -> Result:
        """Delete."""
        scene = context.scene
        assert scene is not None
        names = []
        for ob in selection.bake_objects(context):
            if not is_cloth(ob):
                continue
            try:
                kept = finished.delete_bake(scene, ob)
            except bake.EXPECTED as error:
                self.report({"ERROR"}, str(error))
                return {"CANCELLED"}
            names.append(ob.name)
            if kept:
                self.report({"WARNING"}, kept)
        self.report({"INFO"}, f"Deleted the bake of {', '.join(names)}")
        return {"FINISHED"}


class TAICHI_CLOTH_OT_to_shape_keys(bpy.types.Operator):
    """Turn the bake into shape keys inside the .blend."""

    bl_description = "Turn the bake into shape keys inside the .blend"
    bl_idname = "taichi_cloth.to_shape_keys"
    bl_label = "Convert to Shape Keys"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether the active object shows a bake."""
        ob = selection.active_cloth(context)
        if not selection.ready(cls, [] if ob is None else [ob], selection.wrong_mode):
            return False
        assert ob is not None
        if not status.peek(ob).playing:
            return selection.refuse(cls, f"{ob.name} has no bake; press Bake Cloth")
        return True

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Result:
        """Say the size first."""
        ob = context.object
        assert ob is not None
        return _confirm(
            self,
            context,
            event,
            title="Convert to Shape Keys",
            message=finished.shape_key_estimate(ob),
            confirm_text="Convert",
        )

    def execute(self, context: bpy.types.Context) -> Result:
        """Convert."""
        ob, scene = context.object, context.scene
        assert ob is not None
        assert scene is not None
        try:
            size = finished.to_shape_keys(scene, ob)
        except bake.EXPECTED as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({"INFO"}, f"{ob.name}: {size / 2**20:.1f} MiB of shape keys")
        return {"FINISHED"}


class TAICHI_CLOTH_OT_remove(bpy.types.Operator):
    """Make the selected cloths ordinary meshes again and delete their bakes."""

    bl_description = "Make the selected cloths ordinary meshes again and delete their bakes"
    bl_idname = "taichi_cloth.remove"
    bl_label = "Remove Cloth"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: bpy.types.Context) -> bool:
        """Whether a cloth is selected."""
        objects = [ob for ob in selection.selected_meshes(context) if is_cloth(ob)]
        if not objects:
            return selection.refuse(cls, "Select a cloth")
        return selection.ready(cls, objects)

    def invoke(self, context: bpy.types.Context, event: bpy.types.Event) -> Result:
        """Ask first if there is a bake."""
        objects = [ob for ob in selection.selected_meshes(context) if is_cloth(ob)]
        if not any(status.peek(ob).deletable for ob in objects):
            return self.execute(context)
        return _confirm(
            self,
            context,
            event,
            title="Remove Cloth",
            message="The baked files are deleted too; undo does not bring them back",
            confirm_text="Remove",
        )

    def execute(self, context: bpy.types.Context) -> Result:
        """Remove."""
        scene = context.scene
        assert scene is not None
        for ob in [ob for ob in selection.selected_meshes(context) if is_cloth(ob)]:
            try:
                finished.delete_bake(scene, ob)
            except bake.EXPECTED as error:
                self.report({"ERROR"}, str(error))
                return {"CANCELLED"}
            settings = cloth_settings(ob)
            for name in [prop.identifier for prop in settings.bl_rna.properties]:
                if name not in DISPLAY_ONLY | {"rna_type", "name"}:
                    settings.property_unset(name)
            status.forget(ob.session_uid)
        return {"FINISHED"}


CLASSES = (
    TAICHI_CLOTH_OT_bake,
    TAICHI_CLOTH_OT_resume,
    TAICHI_CLOTH_OT_cancel,
    TAICHI_CLOTH_OT_delete_bake,
    TAICHI_CLOTH_OT_to_shape_keys,
    TAICHI_CLOTH_OT_remove,
)
