# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting Taichi: devices, fallback with a message, environment, cache. Each in a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taichi_cloth_addon.engine import vulkan_probe

ROOT = Path(__file__).resolve().parents[2]


def in_process(body: str, folder: Path, **environment: str) -> dict[str, Any]:
    """Run ``body``, which fills ``answer``, in a fresh process; give back answer and stdout."""
    script = (
        "import json, os, sys\n"
        "import numpy as np\n"
        "from taichi_cloth_addon.engine import runtime\n"
        "from taichi_cloth_addon.engine.runtime import Device\n"
        f"folder = {str(folder)!r}\n"
        "answer = {}\n"
        f"{body}\n"
        "sys.stderr.write('ANSWER' + json.dumps(answer))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stderr.rpartition("ANSWER")[2])
    return {**answer, "stdout": done.stdout}


USE = (
    "a = runtime.upload(np.arange(6, dtype=np.float64).reshape(2, 3))\n"
    "answer['sum'] = float(a.to_numpy().sum())\n"
)


def test_cpu_is_quiet_and_says_what_runs(tmp_path: Path) -> None:
    """Nothing on stdout, which belongs to the worker's protocol."""
    body = (
        "r = runtime.start(Device.CPU, folder + '/kernels')\n"
        "answer['device'] = r.device.value\n"
        "answer['description'] = r.description\n"
        "answer['messages'] = r.messages\n"
        "answer['threads'] = runtime.cpu_threads()\n" + USE + "runtime.stop()\n"
    )
    answer = in_process(body, tmp_path)
    assert answer["stdout"] == ""
    assert answer["device"] == "CPU"
    assert answer["description"].startswith("CPU (")
    assert answer["messages"] == []
    assert answer["threads"] >= 1
    assert answer["sum"] == 15.0


def test_missing_device_falls_back_with_a_message(tmp_path: Path) -> None:
    """CUDA where there is none: another device, and a sentence that says so."""
    body = (
        "import contextlib\n"
        "runtime._has_arch = lambda ti, arch: False\n"
        "r = runtime.start(Device.CUDA, None)\n"
        "answer['device'] = r.device.value\n"
        "answer['messages'] = r.messages\n" + USE
    )
    answer = in_process(body, tmp_path)
    assert answer["device"] == "CPU"
    assert answer["messages"] == ["CUDA is not available here, so CPU is used"]
    assert answer["sum"] == 15.0


def test_auto_does_not_take_a_software_renderer(tmp_path: Path) -> None:
    """A Vulkan that is a CPU is slower than the CPU itself."""
    body = (
        "from taichi_cloth_addon.engine import vulkan_probe\n"
        "asked = []\n"
        "vulkan_probe.devices = lambda: (vulkan_probe.VulkanDevice('llvmpipe', True),)\n"
        "runtime._has_arch = lambda ti, arch: asked.append(str(arch)) or False\n"
        "r = runtime.start(Device.AUTO, None)\n"
        "answer['device'] = r.device.value\n"
        "answer['messages'] = r.messages\n"
        "answer['asked'] = asked\n"
    )
    answer = in_process(body, tmp_path)
    assert answer["device"] == "CPU"
    assert answer["messages"] == []
    assert not any("vulkan" in arch for arch in answer["asked"])


def test_vulkan_starts_where_there_is_one(tmp_path: Path) -> None:
    """Asked for by name, a software device is taken as well."""
    if not vulkan_probe.devices():
        pytest.skip("no Vulkan device here (a driver or mesa's lavapipe is needed)")
    body = (
        "r = runtime.start(Device.VULKAN, None)\n"
        "answer['device'] = r.device.value\n"
        "answer['description'] = r.description\n" + USE
    )
    answer = in_process(body, tmp_path)
    assert answer["device"] == "VULKAN"
    assert answer["description"].endswith("(Vulkan)")
    assert answer["sum"] == 15.0
    assert answer["stdout"] == ""


def test_environment_is_set_before_the_import(tmp_path: Path) -> None:
    """No report over the network, no banner, whatever the user's shell says."""
    body = (
        "runtime.import_taichi()\n"
        "answer['check'] = os.environ['TI_SKIP_VERSION_CHECK']\n"
        "answer['header'] = os.environ['ENABLE_TAICHI_HEADER_PRINT']\n"
        "answer['flags'] = sys.getdlopenflags() & getattr(os, 'RTLD_DEEPBIND', 0)\n"
    )
    answer = in_process(body, tmp_path, TI_SKIP_VERSION_CHECK="OFF")
    assert answer["check"] == "ON"
    assert answer["header"] == "0"
    assert answer["flags"] == 0
    assert answer["stdout"] == ""


@pytest.mark.skipif(not hasattr(os, "RTLD_DEEPBIND"), reason="only glibc has RTLD_DEEPBIND")
def test_taichi_is_loaded_without_deepbind(tmp_path: Path) -> None:
    """With it, a process whose malloc is jemalloc or TBB's crashes."""
    body = (
        "seen = []\n"
        "real = sys.setdlopenflags\n"
        "sys.setdlopenflags = lambda flags: (seen.append(flags), real(flags))[1]\n"
        "before = sys.getdlopenflags()\n"
        "runtime.import_taichi()\n"
        "answer['deep'] = [bool(flags & os.RTLD_DEEPBIND) for flags in seen]\n"
        "answer['restored'] = sys.getdlopenflags() == before\n"
    )
    answer = in_process(body, tmp_path)
    assert answer["deep"]
    assert not any(answer["deep"])
    assert answer["restored"]


def test_kernels_are_kept(tmp_path: Path) -> None:
    """In the folder that is named, also one that is not there yet, with any name."""
    folder = "Käfer 布"
    body = (
        f"r = runtime.start(Device.CPU, folder + '/{folder}/deep')\n" + USE + "runtime.stop()\n"
        f"answer['files'] = sum(len(f) for _, _, f in os.walk(folder + '/{folder}'))\n"
    )
    answer = in_process(body, tmp_path)
    assert answer["files"] > 0


def test_no_taichi_is_a_clear_error(tmp_path: Path) -> None:
    """It says what to do."""
    body = (
        "sys.modules['taichi'] = None\n"
        "try:\n"
        "    runtime.import_taichi()\n"
        "except runtime.RuntimeUnavailableError as error:\n"
        "    answer['message'] = str(error)\n"
    )
    assert "Install the Taichi Cloth zip" in in_process(body, tmp_path)["message"]


def test_vulkan_probe_without_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loader, no devices, no exception."""
    monkeypatch.setattr(vulkan_probe, "_load", lambda: None)
    assert vulkan_probe.devices() == ()
