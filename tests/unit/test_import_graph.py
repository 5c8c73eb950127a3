# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may import whom: reads the add-on's source and refuses what breaks its layers.

`problems_of` is the checker. It gets sources as text, so that the tests below it can also show
that every rule is able to fail.
"""

import ast
import fnmatch
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADDON = ROOT / "taichi_cloth_addon"

# A module (or package) of the engine may import itself and those above it, no other.
ENGINE_ORDER = (
    "heap",
    "sorting",
    "polygons",
    "mesh",
    "fit",
    "frames",
    "membrane",
    "relaxation",
    "straight",
    "springs",
    "hinges",
    "bending",
    "coloring",
    "hierarchy",
    "material",
    "rows",
    "model",
    "inputs",
    "wind",
    "aerodynamics",
    "pins",
    "vulkan_probe",
    "runtime",
    "launch",
    "transfer_kernels",
    "transfer",
    "solver",
    "contact",
    "hybrid",
    "mpm",
    "trouble",
    "simulate",
)
# What the cache may take from the engine: types only.
CACHE_USES = {"material", "model", "inputs", "mesh", "solver"}
# Modules of Blender, its own or bundled.
BLENDER_MODULES = {
    *("bpy", "bpy_extras", "bpy_types", "bmesh", "mathutils", "gpu", "gpu_extras", "blf"),
    *("addon_utils", "rna_keymap_ui", "bl_ui", "idprop", "imbuf", "aud", "freestyle"),
}
# What each layer may import from outside besides the standard library.
THIRD_PARTY = {
    "": set(),
    "worker": {"numpy"},
    "engine": {"numpy", "taichi"},
    "cache": {"numpy"},
    "blender": {"numpy", *BLENDER_MODULES},
}
# The engine reads and writes no files, starts no programs and opens no connections.
NOT_IN_ENGINE = {"pathlib", "json", "pickle", "shutil", "subprocess", "socket", "tempfile"}
# Modules of blender/ that alone may do a thing; those after the first are parts split from it.
STARTS_PROCESSES = ("bake", "process")
READS_DEPSGRAPH = ("capture", "checks", "evaluated", "fields")
WRITES_MODIFIERS = ("attach", "shape_keys")
STARTS_TAICHI = "engine.runtime"
PROCESS_MODULES = {"subprocess", "multiprocessing", "concurrent"}
FORBIDDEN_MODULES = {"socket", "urllib", "http", "ftplib", "smtplib", "pip", "ensurepip"}
FORBIDDEN_CALLS = {"eval", "exec"}
LONGEST = 500
SPDX = "# SPDX-License-Identifier: GPL-3.0-or-later"


@dataclass(frozen=True)
class Module:
    """One source file of the add-on; `name` is relative to it: "engine.hybrid.sor", "" its root."""

    name: str
    is_package: bool
    tree: ast.Module
    text: str

    @property
    def parts(self) -> list[str]:
        return self.name.split(".") if self.name else []

    @property
    def layer(self) -> str:
        return self.parts[0] if self.parts else ""


@dataclass(frozen=True)
class Import:
    """An import: `target` is the dotted name, relative to the add-on when `is_own`."""

    line: int
    target: str
    is_own: bool


def _imports(module: Module, names: set[str]) -> Iterator[Import | str]:
    """The imports of a module; a text where one is no relative import or leaves the add-on."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == ADDON.name:
                    yield f"line {node.lineno}: imports {alias.name} absolutely"
                yield Import(node.lineno, alias.name, is_own=False)
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                if str(node.module).split(".")[0] == ADDON.name:
                    yield f"line {node.lineno}: imports {node.module} absolutely"
                yield Import(node.lineno, str(node.module), is_own=False)
                continue
            package = module.parts if module.is_package else module.parts[:-1]
            if node.level - 1 > len(package):
                yield f"line {node.lineno}: imports from outside the add-on"
                continue
            base = package[: len(package) - (node.level - 1)]
            base = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                # `from . import x` names a module when there is one, else something in __init__.
                whole = ".".join([*base, alias.name])
                yield Import(node.lineno, whole if whole in names else ".".join(base), is_own=True)


def _own_import_problem(module: Module, target: str) -> str | None:
    """Why a module may not import another one of the add-on, or None."""
    layer, _, rest = target.partition(".")
    if module.layer == "blender":
        if target == "blender.process" and module.name != "blender.bake":
            return "only blender.bake starts a worker"
        return "nobody imports the worker" if layer == "worker" else None
    if module.layer == "":
        return None if layer in ("", "blender") else "the package itself imports only .blender"
    if layer == "blender":
        return "nobody imports blender"
    if layer == "":
        return "nobody imports the package itself"
    if module.layer == "worker":
        return (
            None if layer in ("engine", "cache", "worker") else "the worker uses engine and cache"
        )
    if module.layer == "cache":
        if layer == "cache" or (layer == "engine" and rest.split(".")[0] in CACHE_USES):
            return None
        return f"the cache uses itself and engine.{{{', '.join(sorted(CACHE_USES))}}}"
    return _engine_import_problem(module, layer, rest)


def _engine_import_problem(module: Module, layer: str, rest: str) -> str | None:
    if layer != "engine":
        return "the engine imports nothing of ours but itself"
    if len(module.parts) == 1:
        return None
    own, other = module.parts[1], rest.partition(".")[0]
    if not other:
        return "modules of the engine do not import its __init__"
    if other not in ENGINE_ORDER:
        return None  # reported for that module
    if own == other or own not in ENGINE_ORDER:
        return None
    if ENGINE_ORDER.index(other) > ENGINE_ORDER.index(own):
        return f"engine.{own} stands above engine.{other} in the order of the engine's modules"
    return None


def _foreign_import_problem(module: Module, target: str) -> str | None:
    """Why a module may not import something from outside the add-on, or None."""
    top = target.partition(".")[0]
    if top in BLENDER_MODULES and module.layer != "blender":
        return "only blender imports Blender's modules"
    if top in FORBIDDEN_MODULES:
        return "an extension uses no network and no pip"
    if top in PROCESS_MODULES:
        allowed = {f"blender.{name}" for name in STARTS_PROCESSES}
        if module.name not in allowed:
            return f"only {' and '.join(sorted(allowed))} may start a process"
    if module.layer == "engine" and top in NOT_IN_ENGINE:
        return "the engine touches no files and no processes"
    if top not in sys.stdlib_module_names and top not in THIRD_PARTY.get(module.layer, set()):
        return "it is not among what this layer may use"
    return None


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain; a part that is no name becomes "?"."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _call_problem(module: Module, called: str) -> str | None:
    """Why a module may not make a call, or None."""
    last = called.rpartition(".")[2]
    blender_part = module.parts[1] if module.layer == "blender" and len(module.parts) > 1 else None
    if called in FORBIDDEN_CALLS:
        return "an extension evaluates no text"
    if called in ("os.system", "os.popen", "os.startfile") or called.startswith("os.spawn"):
        return "processes are started by blender.bake alone, with a list of arguments"
    if called in ("ti.init", "taichi.init") and module.name != STARTS_TAICHI:
        return f"only {STARTS_TAICHI} starts Taichi"
    if module.layer == "engine" and called in ("print", "open"):
        return "the engine prints nothing and opens no files"
    reads = last in ("evaluated_depsgraph_get", "evaluated_get", "to_mesh")
    if reads and blender_part not in READS_DEPSGRAPH:
        return f"only blender.{READS_DEPSGRAPH[0]} reads the depsgraph"
    writes = (
        any(fnmatch.fnmatch(called, f"*modifiers.{verb}") for verb in ("new", "remove", "clear"))
        or fnmatch.fnmatch(called, "*modifiers.move")
        or last in ("shape_key_add", "shape_key_remove", "shape_key_clear")
        or ".ops.object.modifier_" in called
        or ".ops.object.shape_key_" in called
    )
    if writes and blender_part not in WRITES_MODIFIERS:
        return f"only blender.{WRITES_MODIFIERS[0]} writes modifiers and shape keys"
    return None


def _file_problems(module: Module) -> Iterator[str]:
    """Breaches that concern the file as a whole."""
    lines = module.text.splitlines()
    if lines[:1] != [SPDX]:
        yield f"line 1 is not {SPDX!r}"
    if len(lines) > LONGEST:
        yield f"{len(lines)} lines: a module past {LONGEST} lines is two modules"
    if module.name.endswith("_kernels"):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                yield f"line {node.lineno}: Taichi cannot read kernels with postponed annotations"
    known_layer = module.layer in THIRD_PARTY
    if not known_layer:
        yield f"{module.layer} is no part of the design"
    if module.layer == "engine" and len(module.parts) > 1 and module.parts[1] not in ENGINE_ORDER:
        yield f"give engine.{module.parts[1]} its place in ENGINE_ORDER of {Path(__file__).name}"


def problems_of(sources: Mapping[str, str]) -> list[str]:
    """All breaches in an add-on.

    Args:
        sources: path relative to the add-on, with slashes -> source text.
    """
    modules = {}
    for path, text in sorted(sources.items()):
        parts = path.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name, is_package, ast.parse(text, path), text)
    problems = []
    for module in modules.values():
        found = list(_file_problems(module))
        for item in _imports(module, set(modules)):
            if isinstance(item, str):
                found.append(item)
                continue
            check = _own_import_problem if item.is_own else _foreign_import_problem
            reason = check(module, item.target)
            if reason:
                found.append(f"line {item.line}: imports {item.target or 'the package'}: {reason}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                called = _dotted(node.func)
                if called.endswith(".to_mesh") and node.args:
                    continue  # BMesh.to_mesh(mesh) writes; Object.to_mesh() reads.
                reason = _call_problem(module, called)
                if reason:
                    found.append(f"line {node.lineno}: calls {called}: {reason}")
        problems += [f"{module.name or 'the package'}: {problem}" for problem in found]
    return problems


def addon_sources() -> dict[str, str]:
    """The sources of the add-on as they are."""
    return {
        path.relative_to(ADDON).as_posix(): path.read_text("utf-8")
        for path in sorted(ADDON.rglob("*.py"))
    }


def test_the_addon_keeps_the_rules() -> None:
    problems = problems_of(addon_sources())
    assert not problems, "\n" + "\n".join(problems)


def test_mypy_knows_every_kernel_module() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    relaxed = {
        name
        for override in settings["tool"]["mypy"]["overrides"]
        if "untyped-decorator" in override.get("disable_error_code", [])
        for name in override["module"]
    }
    kernels = {
        ".".join([ADDON.name, *path.relative_to(ADDON).with_suffix("").parts])
        for path in ADDON.rglob("*_kernels.py")
    }
    assert relaxed == kernels


GOOD = {
    "__init__.py": "def register():\n    from . import blender\n    blender.register()\n",
    "worker.py": "import json\n"
    + "from .cache import job\nfrom .engine.simulate import simulate\n",
    "engine/__init__.py": "",
    "engine/mesh.py": "import numpy as np\n",
    "engine/model.py": "from .mesh import Mesh\nfrom . import mesh\n",
    "engine/solver.py": "from .model import ClothModel\n",
    "engine/runtime.py": "import taichi as ti\n\nti.init(arch=ti.cpu)\n",
    "engine/simulate.py": "from .hybrid import solver\nfrom .hybrid.solver import Hybrid\n",
    "engine/hybrid/__init__.py": "",
    "engine/hybrid/solver.py": "from ..model import ClothModel\nfrom .sor_kernels import sweep\n",
    "engine/hybrid/sor_kernels.py": "import taichi as ti\n",
    "cache/__init__.py": "",
    "cache/job.py": "from ..engine.model import ClothPart\nfrom .pc2 import Writer\n",
    "cache/pc2.py": "import numpy as np\nfrom pathlib import Path\n",
    "blender/__init__.py": "from . import bake, capture\n",
    "blender/bake.py": "import subprocess\nimport bpy\nfrom .process import start\n",
    "blender/process.py": "import subprocess\n",
    "blender/capture.py": "import bpy\n\n"
    "def read(c, ob):\n    return ob.evaluated_get(c.evaluated_depsgraph_get()).to_mesh()\n",
    "blender/attach.py": "def attach(ob):\n    ob.modifiers.new('a', 'MESH_CACHE')\n"
    "    ob.shape_key_add(name='k')\n",
    "blender/panels.py": "import bpy\nfrom .properties import cloth_settings\n",
    "blender/properties.py": "from ..engine.material import PARAMETERS\n",
}


def _with(path: str, text: str) -> list[str]:
    sources = {name: f"{SPDX}\n{source}" for name, source in GOOD.items()}
    sources[path] = f"{SPDX}\n{text}"
    return problems_of(sources)


def test_the_checker_accepts_a_good_addon() -> None:
    assert _with("engine/mesh.py", "import numpy as np\n") == []


BREACHES = {
    "engine uses the cache": ("engine/mesh.py", "from ..cache import pc2\n"),
    "engine uses what is below it": ("engine/mesh.py", "from .model import ClothModel\n"),
    "engine uses a package below it": ("engine/model.py", "from . import hybrid\n"),
    "a function hides the import": ("engine/mesh.py", "def f():\n    from . import model\n"),
    "engine in a package looks down": ("engine/hybrid/solver.py", "from ..simulate import go\n"),
    "engine has an unlisted module": ("engine/odds_and_ends.py", "x = 1\n"),
    "engine uses bpy": ("engine/mesh.py", "import bpy\n"),
    "engine uses mathutils": ("engine/mesh.py", "from mathutils import Vector\n"),
    "engine uses scipy": ("engine/mesh.py", "import scipy.sparse\n"),
    "engine touches files": ("engine/mesh.py", "from pathlib import Path\n"),
    "engine opens a file": ("engine/mesh.py", "open('x')\n"),
    "engine prints": ("engine/mesh.py", "print('x')\n"),
    "a second place starts Taichi": ("engine/solver.py", "import taichi as ti\nti.init()\n"),
    "the cache uses Taichi": ("cache/pc2.py", "import taichi\n"),
    "the cache uses the time loop": ("cache/job.py", "from ..engine.simulate import simulate\n"),
    "the cache uses the worker": ("cache/job.py", "from ..worker import main\n"),
    "the cache uses blender": ("cache/job.py", "from ..blender import bake\n"),
    "the cache uses bpy": ("cache/job.py", "import bpy\n"),
    "the worker uses blender": ("worker.py", "from .blender import bake\n"),
    "the worker uses bpy": ("worker.py", "import bpy\n"),
    "the package uses the engine": ("__init__.py", "from .engine import model\n"),
    "an absolute import": ("worker.py", "from taichi_cloth_addon.cache import job\n"),
    "an absolute plain import": ("worker.py", "import taichi_cloth_addon.cache.job\n"),
    "an import from outside": ("worker.py", "from ..other import thing\n"),
    "a panel starts a process": ("blender/panels.py", "import subprocess\n"),
    "a panel starts a worker": ("blender/panels.py", "from .process import start\n"),
    "a panel uses a shell": ("blender/panels.py", "import os\nos.system('x')\n"),
    "a panel reads the depsgraph": ("blender/panels.py", "c.evaluated_depsgraph_get()\n"),
    "a panel adds a modifier": ("blender/panels.py", "ob.modifiers.new('a', 'MESH_CACHE')\n"),
    "a panel moves a modifier": ("blender/panels.py", "ob.modifiers.move(0, 1)\n"),
    "a panel adds a key": ("blender/panels.py", "ob.shape_key_add()\n"),
    "an operator does it": ("blender/panels.py", "bpy.ops.object.modifier_add(type='CLOTH')\n"),
    "the network": ("blender/panels.py", "import urllib.request\n"),
    "an evaluated text": ("blender/panels.py", "eval('1')\n"),
    "postponed annotations": (
        "engine/hybrid/sor_kernels.py",
        "from __future__ import annotations\nimport taichi as ti\n",
    ),
    "a long module": ("blender/panels.py", "x = 1\n" * LONGEST),
    "a layer of its own": ("helpers/x.py", "x = 1\n"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_the_checker_sees(breach: str) -> None:
    path, text = BREACHES[breach]
    problems = _with(path, text)
    name = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    name = "the package" if name == "__init__" else name
    assert [p for p in problems if p.startswith(f"{name}: ")], problems


def test_the_checker_sees_a_missing_licence_line() -> None:
    sources = {name: f"{SPDX}\n{source}" for name, source in GOOD.items()}
    sources["worker.py"] = GOOD["worker.py"]
    assert len(problems_of(sources)) == 1
