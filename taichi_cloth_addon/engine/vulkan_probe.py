# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the Vulkan loader which devices there are, without Taichi.

Taichi takes the first device it finds, which may be a renderer in software that is slower
than Taichi's own CPU back end, and it cannot tell which one it took.
"""

import ctypes
import ctypes.util
import sys
from dataclasses import dataclass

_INSTANCE_CREATE_INFO = 1
_DEVICE_TYPE_CPU = 4
_NAME_OFFSET = 20  # VkPhysicalDeviceProperties: five 32-bit values come before the name
_NAME_LENGTH = 256
_PROPERTIES_SIZE = 4096  # more than the structure's 824 bytes


@dataclass(frozen=True)
class VulkanDevice:
    """A Vulkan device.

    Attributes:
        name: as its driver gives it.
        is_software: whether it is a CPU that plays a GPU.
    """

    name: str
    is_software: bool


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.c_void_p),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


def devices() -> tuple[VulkanDevice, ...]:
    """List the Vulkan devices; empty where there is no loader or no driver."""
    loader = _load()
    if loader is None:
        return ()
    info = _InstanceCreateInfo(type=_INSTANCE_CREATE_INFO)
    instance = ctypes.c_void_p()
    if loader.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)) != 0:
        return ()
    try:
        return _list(loader, instance)
    finally:
        loader.vkDestroyInstance(instance, None)


def _load() -> ctypes.CDLL | None:
    if sys.platform == "win32":
        names = ["vulkan-1.dll"]
    else:
        found = ctypes.util.find_library("vulkan")
        names = [name for name in (found, "libvulkan.so.1") if name]
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _list(loader: ctypes.CDLL, instance: ctypes.c_void_p) -> tuple[VulkanDevice, ...]:
    count = ctypes.c_uint32()
    if loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None) != 0:
        return ()
    handles = (ctypes.c_void_p * count.value)()
    if loader.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles) != 0:
        return ()
    found = []
    for handle in handles:
        properties = ctypes.create_string_buffer(_PROPERTIES_SIZE)
        loader.vkGetPhysicalDeviceProperties(ctypes.c_void_p(handle), properties)
        kind = ctypes.c_int32.from_buffer(properties, 16).value
        name = properties.raw[_NAME_OFFSET : _NAME_OFFSET + _NAME_LENGTH].split(b"\0")[0]
        found.append(VulkanDevice(name.decode(errors="replace"), kind == _DEVICE_TYPE_CPU))
    return tuple(found)
