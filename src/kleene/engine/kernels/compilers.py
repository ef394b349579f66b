"""How numba compiles parts of kernels, and what LLVM does with filters: no more work than the code is worth.

A part of a kernel (`inlined`, `called`) is never called from Python, nor by itself: it has no wrappers, it is not optimized or
turned into machine code before it is linked into the kernel, where all of it is, and it is compiled once for an argument, not
again for each constant in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from numba.core import codegen, compiler, types
from numba.core.registry import CPUDispatcher

_library: Any = codegen.JITCodeLibrary
_compiler: Any = compiler.Compiler
_dispatcher: Any = CPUDispatcher
_unliteral: Any = types.unliteral


class _PartLibrary(_library):  # type: ignore[misc]
    """Code that is linked into a kernel, and optimized there."""

    @property
    def codegen(self) -> Any:
        """What is told where the function's globals are: nobody, as nothing is called."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Nothing is loaded that could have it."""

    def get_pointer_to_function(self, _: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(_compiler):  # type: ignore[misc]
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), "part")
        self.state.library.enable_object_caching()


class _Part(_dispatcher):  # type: ignore[misc]
    """A part of a kernel: called from Python it is the function as it was written."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        options |= {"nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=_PartCompiler)

    def __call__(self, *given: Any) -> Any:
        return self.py_func(*given)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(_unliteral(item) for item in args), kws)


def part(function: Callable[..., Any], **options: Any) -> Any:
    """A part of kernels, compiled with options of numba's."""
    return _Part(function, **options)


class FilterLibrary(_library):  # type: ignore[misc]
    """Code that is optimized in one go: not function by function before, nor for counts of references, of which it has none."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout  # noqa: SLF001 - as its base does

    def _optimize_final_module(self) -> None:
        builder = llvm.create_pass_builder(self._codegen._tm, llvm.create_pipeline_tuning_options(3))  # noqa: SLF001
        builder.getModulePassManager().run(self._final_module, builder)
