# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that are quick to launch.

Taichi 1.7.4 looks at every argument of a launch anew in Python, about 6 µs for each array
(measured), which adds up to more than the work of a small cloth. Here the arguments are put
into Taichi's launch context once for each set of arrays; a launch then sets the numbers and
goes. docs/decisions/0007-launches.md says more.
"""

import functools
import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import runtime

ti = runtime.import_taichi()
impl = ti.lang.impl
Ndarray = ti.lang._ndarray.Ndarray

# Sets of arrays remembered by a kernel; beyond that it forgets them all.
_MOST = 64
# All kernels, to be told to forget.
_kernels: "weakref.WeakSet[Kernel]" = weakref.WeakSet()


@dataclass(frozen=True)
class _Prepared:
    """A compiled kernel with its arrays set.

    Attributes:
        program: the Taichi program it belongs to; a new one makes it void.
        arrays: where each array goes, and what Taichi keeps of it.
        kept: keeps the arrays alive, so that their identities stay theirs.
    """

    program: Any
    compiled: Any
    context: Any
    arrays: tuple[tuple[tuple[int], Any], ...]
    kept: tuple[Any, ...]


class Kernel:
    """A Taichi kernel; call it with the same arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap a function that ti.kernel would take."""
        functools.update_wrapper(self, function)
        self._kernel = ti.kernel(function)
        parameters = inspect.signature(function).parameters.values()
        kinds = [parameter.annotation for parameter in parameters]
        self._by_value = [not isinstance(kind, ti.types.ndarray) for kind in kinds]
        self._templates = [kind is ti.template or isinstance(kind, ti.template) for kind in kinds]
        _kernels.add(self)
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        # Where a number goes: its place in the call, in the context, and how it is set.
        self._numbers: list[tuple[int, tuple[int], Any]] = []
        place = 0
        for index, kind in enumerate(kinds):
            if self._templates[index]:
                continue
            if self._by_value[index]:
                self._numbers.append((index, (place,), kind))
            place += 1
        self._returns = inspect.signature(function).return_annotation is not inspect._empty

    def __call__(self, *arguments: Any) -> Any:
        """Launch; see the kernel."""
        key = tuple(
            [
                id(argument) if not by_value else argument if template else None
                for argument, by_value, template in zip(
                    arguments, self._by_value, self._templates, strict=True
                )
            ]
        )
        program = impl.get_runtime().prog
        prepared = self._prepared.get(key)
        if prepared is None or prepared.program is not program:
            prepared = self._prepare(program, arguments)
            if prepared is None:
                return self._kernel(*arguments)
            if len(self._prepared) >= _MOST:
                self._prepared.clear()
            self._prepared[key] = prepared
        context = prepared.context
        # A launch replaces the arrays in the context by their addresses.
        for place, array in prepared.arrays:
            context.set_arg_ndarray(place, array)
        for index, place, kind in self._numbers:
            if kind is ti.f32:
                context.set_arg_float(place, float(arguments[index]))
            elif kind is ti.i32:
                context.set_arg_int(place, int(arguments[index]))
            else:
                kind.set_kernel_struct_args(kind(*arguments[index]), context, place)
        program.launch_kernel(prepared.compiled, context)
        if self._returns:
            ti.sync()
            return context.get_struct_ret_float((0,))
        return None

    def clear(self) -> None:
        """Forget all arrays."""
        self._prepared.clear()

    def _prepare(self, program: Any, arguments: tuple[Any, ...]) -> _Prepared | None:
        """Compile and set the arrays; None if one of them is not Taichi's."""
        arrays = tuple(
            argument
            for argument, by_value in zip(arguments, self._by_value, strict=True)
            if not by_value
        )
        if not all(isinstance(array, Ndarray) for array in arrays):
            return None
        primal = self._kernel._primal
        kernel = primal.compiled_kernels[primal.ensure_compiled(*arguments)]
        compiled = program.compile_kernel(program.config(), program.get_device_caps(), kernel)
        context = kernel.make_launch_context()
        places = [place for place, template in enumerate(self._templates) if not template]
        placed = tuple(
            ((places.index(index),), argument.arr)
            for index, argument in enumerate(arguments)
            if not self._by_value[index]
        )
        return _Prepared(program, compiled, context, placed, arrays)


def forget() -> None:
    """Let go of all arrays, once a solver is not used any more: launches keep theirs alive."""
    runtime.synchronize()
    for each in _kernels:
        each.clear()


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator in the place of ti.kernel."""
    return Kernel(function)
