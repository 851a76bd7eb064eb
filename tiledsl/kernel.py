"""``@td.kernel``: from a Python function to variants, and from a call to the GPU or the emulator.

A kernel has one compiled variant for each combination of argument types (dtype, rank) and
constants. A call with arrays in GPU memory launches there; with NumPy arrays it runs on the
emulator, which needs no GPU and no LLVM.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, overload

from tiledsl.codegen.ir.dtypes import DType, as_dtype
from tiledsl.codegen.ir.kernel import Captured
from tiledsl.codegen.ir.kernel import Kernel as KernelIR
from tiledsl.codegen.nvptx.targets import Target, get_target
from tiledsl.errors import InvalidValue, LaunchError, TypeMismatch
from tiledsl.frontend.build import (
    ConstantSpec,
    Parameter,
    ParamSpec,
    ScalarSpec,
    TensorSpec,
    build_kernel,
    parse_signature,
)
from tiledsl.language.grid import Persistent
from tiledsl.language.tensor import Spec
from tiledsl.runtime import arguments
from tiledsl.runtime.arrays import ArraySpec
from tiledsl.runtime.requirements import check_requirements
from tiledsl.runtime.tensormap import check_tensormap

if TYPE_CHECKING:
    from tiledsl.compiled import CompiledKernel
    from tiledsl.runtime.launch import Launcher

DEFAULT_TARGET = "sm_90a"
# The emulated device: few enough that every block of a persistent kernel walks several tiles.
EMULATED_MULTIPROCESSORS = 4

Grid = int | tuple[int, ...] | Callable[[Any], Any]


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *, grid: Grid | Persistent | None = None, warps: int | None = None
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    grid: Grid | Persistent | None = None,
    warps: int | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Turn a Python function into a GPU kernel.

    Parameters annotated ``td.Tensor`` are arrays in global memory, ``td.Constant[...]`` are
    known at compile time (each value another variant), a dtype such as ``td.float32`` is a
    scalar; a parameter without annotation takes what is passed.

    Args:
        function: the function; it returns nothing and writes to its tensors.
        grid: ``td.persistent`` for one block a multiprocessor; or the number of blocks, up to
            three; or a function of the bound arguments (``lambda args: td.cdiv(args.x.shape[0],
            args.BM)``). None: given at the call, ``kernel[grid](...)``.
        warps: warps of a block in a kernel without roles (4 unless given). Roles have their own.

    Example::

        @td.kernel(grid=td.persistent)
        def gemm(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, BM: td.Constant[int] = 128): ...

        gemm(a, b, c)              # NumPy arrays: emulator; torch, CuPy, ... arrays: GPU
        gemm(a, b, c, BM=64)       # another variant
    """
    if function is not None:
        return Kernel(function, grid=grid, warps=warps)
    return lambda function: Kernel(function, grid=grid, warps=warps)


class Kernel:
    """A kernel: call it, index it with a grid, or compile it. Made by ``@td.kernel``."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        grid: Grid | Persistent | None = None,
        warps: int | None = None,
    ) -> None:
        if warps is not None and (not isinstance(warps, int) or not 1 <= warps <= 32):
            raise InvalidValue(f"warps: expected a number from 1 to 32, got {warps!r}")
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self.function = function
        self.grid = grid
        self.warps = warps
        self.parameters: tuple[Parameter, ...] = parse_signature(function)
        self._signature = inspect.signature(function)
        self._run_time = [p.name for p in self.parameters if p.kind != "constant"]
        self._variants: dict[Hashable, CompiledKernel] = {}
        self._captured: dict[Hashable, Captured] = {}
        self._launchers: dict[Hashable, Launcher] = {}
        self._known: dict[Hashable, list[tuple[Launcher, tuple[int, ...] | None]]] = {}
        kinds = [p.kind != "constant" for p in self.parameters]
        # A grid that is computed from the arguments has to be computed for each launch.
        self._run_time_first = all(kinds[: len(self._run_time)]) and not callable(grid)
        self._lock = threading.Lock()

    # --------------------------------------------------------------------------- calling

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on its grid; see ``launch``."""
        self.launch(*args, **kwargs)

    def __getitem__(self, grid: Grid) -> Callable[..., None]:
        """``kernel[grid](...)``: run with this grid."""
        return functools.partial(self.launch, grid=grid)

    def launch(
        self, *args: Any, grid: Grid | None = None, stream: Any = None, **kwargs: Any
    ) -> None:
        """Run the kernel with arguments as in the function's signature.

        GPU arrays: launched on ``stream`` (an object with ``__cuda_stream__``, a torch, CuPy or
        numba stream, or a handle), by default on the current stream of the framework that owns
        the first array; returns before the kernel has run. NumPy arrays: emulated, returns when
        done.

        Args:
            grid: number of blocks: an int, one to three ints, or a function of the bound
                arguments; needed unless the kernel was declared with one.

        Raises:
            TileError: about the kernel, an argument or the launch; it names line or argument.
        """
        self._forget_outdated()
        key = self._launch_key(args, kwargs, grid)
        if key is not None:
            for launcher, blocks in self._known.get(key, ()):
                if launcher.launch_again(args, blocks, stream):
                    return
        bound = self._bind(args, kwargs)
        names = self._run_time
        values = [bound[name] for name in names]
        specs = [arguments.classify(n, v) for n, v in zip(names, values, strict=True)]
        place = arguments.launch_place(zip(names, specs, strict=True))
        blocks = self._blocks(grid, bound)
        params = {
            name: self._spec(self._parameter(name), spec)
            for name, spec in zip(names, specs, strict=True)
        }
        if place != "device":
            self._emulate(bound, params, values, blocks)
            return
        launcher = self._launcher(bound, params)
        launcher(values, blocks, stream)
        if key is not None:
            known = self._known.setdefault(key, [])
            if (launcher, blocks) not in known:
                known.append((launcher, blocks))

    def _launch_key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Grid | None
    ) -> Hashable | None:
        """A cheap key for "same Python types, constants and grid as a launch before", or None.

        Binding and classifying arguments takes longer than launching. Which variant it is, is
        known by the launcher that had the very same arrays before: dtypes and ranks are in its key.
        """
        if len(args) != len(self._run_time) or not self._run_time_first or callable(grid):
            return None
        found = (grid, *((name, type(v), v) for name, v in kwargs.items()))
        try:
            hash(found)
        except TypeError:
            return None
        return found

    def _launcher(self, bound: Mapping[str, Any], params: dict[str, ParamSpec]) -> Launcher:
        from tiledsl.runtime.launch import Launcher, LoadedKernel

        key = self._key(bound, params)
        launcher = self._launchers.get(key)
        if launcher is None:
            compiled = self._variant(bound, params, self._device_target())
            loaded = LoadedKernel(
                compiled.cubin,
                compiled.name,
                threads=compiled.plan.threads,
                shared_bytes=compiled.plan.shared_bytes,
                target=compiled.target.name,
            )
            require = functools.partial(check_requirements, compiled.kernel)
            launcher = Launcher(
                loaded,
                compiled.plan.params,
                self._run_time,
                require if compiled.plan.requirements else None,
            )
            self._launchers[key] = launcher
        return launcher

    @staticmethod
    def _device_target() -> Target:
        from tiledsl.runtime.device import current_device

        return get_target(current_device().target)

    def _emulate(
        self,
        bound: Mapping[str, Any],
        params: dict[str, ParamSpec],
        values: list[Any],
        blocks: tuple[int, ...] | None,
    ) -> None:
        from tiledsl.runtime.emulator import emulate

        compiled = self._variant(bound, params, get_target(DEFAULT_TARGET))
        self._check_emulated(compiled, values)
        grid = blocks if blocks is not None else (EMULATED_MULTIPROCESSORS,)
        seed = os.environ.get("TILEDSL_EMULATOR_SEED", "")
        if seed and not seed.isdecimal():
            raise InvalidValue(f"TILEDSL_EMULATOR_SEED: expected a number, got {seed!r}")
        x, y, z = (*grid, 1, 1)[:3]
        emulate(compiled.kernel, values, grid=(x, y, z), seed=int(seed) if seed else None)

    def _check_emulated(self, compiled: CompiledKernel, values: list[Any]) -> None:
        """What a launch on the GPU would refuse is refused here too."""
        arrays = {
            index: arguments.read_array(name, value)
            for index, (name, value) in enumerate(zip(self._run_time, values, strict=True))
            if hasattr(value, "shape") and value.shape != ()
        }
        shapes = {index: array.shape for index, array in arrays.items()}
        check_requirements(compiled.kernel, shapes, values)
        for slot in compiled.plan.params:
            if slot.spec is not None:
                # Where NumPy put the array says nothing about where it will be on the GPU.
                placed = replace(arrays[slot.param], pointer=0)
                check_tensormap(self._run_time[slot.param], placed, slot.spec)

    # -------------------------------------------------------------------------- compiling

    def compile(self, *args: Any, target: str = DEFAULT_TARGET, **kwargs: Any) -> CompiledKernel:
        """Compile for given argument types, down to the cubin. Needs no GPU and no driver.

        Args:
            args, kwargs: as in a call, with ``td.spec(shape, dtype)`` or an array for a tensor,
                and a dtype or a number for a scalar.
            target: architecture, such as ``"sm_90a"``.

        Returns:
            The variant, with ``.ir``, ``.protocol_ir``, ``.llvm``, ``.ptx``, ``.cubin``,
            ``.sass()``, ``.resources``, ``.timings``.
        """
        compiled = self.lower(*args, target=target, **kwargs)
        compiled.assemble()
        return compiled

    def lower(self, *args: Any, target: str = DEFAULT_TARGET, **kwargs: Any) -> CompiledKernel:
        """As ``compile``, but only down to protocol level; the rest is made when asked for."""
        self._forget_outdated()
        found = get_target(target)
        bound = self._bind(args, kwargs)
        params = {
            name: self._spec(self._parameter(name), self._described(name, bound[name]))
            for name in self._run_time
        }
        return self._variant(bound, params, found)

    @property
    def variants(self) -> tuple[CompiledKernel, ...]:
        """The variants compiled so far."""
        return tuple(self._variants.values())

    @staticmethod
    def _described(name: str, value: Any) -> Any:
        """A spec for what ``compile`` was given in the place of an argument."""
        if isinstance(value, Spec):
            return ArraySpec(value.dtype, len(value.shape))
        if isinstance(value, DType):
            return value
        return arguments.classify(name, value)

    def _variant(
        self, bound: Mapping[str, Any], params: dict[str, ParamSpec], target: Target
    ) -> CompiledKernel:
        # The passes are imported when something is compiled: `import tiledsl` stays quick.
        from tiledsl.compiled import compile_tile_level

        key = (target.name, self._key(bound, params))
        found = self._variants.get(key)
        if found is None:
            with self._lock:
                found = self._variants.get(key)
                if found is None:
                    found = compile_tile_level(lambda: self._build(bound, params, target), target)
                    self._variants[key] = found
                    self._captured |= {(c.name, id(c)): c for c in found.kernel.captured}
        return found

    def _forget_outdated(self) -> None:
        """Drop all variants when a global or closure variable that they compiled in has changed.

        As in Python, where a function sees the value that the name has when it is called.
        """
        for captured in self._captured.values():
            if not captured.is_current:
                break
        else:
            return
        with self._lock:
            self._variants.clear()
            self._launchers.clear()
            self._known.clear()
            self._captured = {}

    def _build(
        self, bound: Mapping[str, Any], params: dict[str, ParamSpec], target: Target
    ) -> KernelIR:
        specs: dict[str, ParamSpec] = {
            p.name: params[p.name] if p.kind != "constant" else ConstantSpec(bound[p.name])
            for p in self.parameters
        }
        return build_kernel(
            self.function,
            specs,
            name=self.name,
            persistent=isinstance(self.grid, Persistent),
            warps=self.warps,
            target=target.name,
        )

    def _key(self, bound: Mapping[str, Any], params: dict[str, ParamSpec]) -> Hashable:
        constants = tuple(
            (bound[p.name], type(bound[p.name])) for p in self.parameters if p.kind == "constant"
        )
        key = (tuple(params.values()), constants)
        try:
            hash(key)
        except TypeError:
            for p in self.parameters:
                if p.kind == "constant" and not isinstance(bound[p.name], Hashable):
                    raise TypeMismatch(
                        f"constant {p.name} of kernel {self.name}: expected a hashable"
                        f" value, got {type(bound[p.name]).__name__}",
                        hint="pass a tuple instead of a list, or a frozen dataclass",
                    ) from None
            raise
        return key

    # ---------------------------------------------------------------------------- binding

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeMismatch(
                f"kernel {self.name}: {error}",
                hint=f"its signature is {self.name}{self._signature}",
            ) from None
        bound.apply_defaults()
        values = dict(bound.arguments)
        for p in self.parameters:
            if p.kind == "constant":
                self._check_constant(p, values[p.name])
        return values

    def _check_constant(self, parameter: Parameter, value: Any) -> None:
        """A constant must be a Python value of the annotated type, never an array."""
        wanted = parameter.constant_type
        is_array = hasattr(value, "__dlpack__") or isinstance(value, Spec)
        fits = wanted is None or isinstance(value, wanted)
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            fits = True
        if wanted is int and isinstance(value, bool):
            fits = False
        if is_array or not fits:
            name = wanted.__name__ if wanted is not None else "a Python value"
            got = f"an array of type {type(value).__name__}" if is_array else f"{value!r}"
            raise TypeMismatch(
                f"constant {parameter.name} of kernel {self.name}: expected {name}, known at"
                f" compile time, got {got}",
                hint=f"annotate {parameter.name} as td.Tensor to pass an array"
                if is_array
                else f"write {parameter.name}: td.Constant[{type(value).__name__}] to allow this",
            )

    def _parameter(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)

    def _spec(self, parameter: Parameter, given: Any) -> ParamSpec:
        """What the frontend needs to know of a run-time argument."""
        name = parameter.name
        if isinstance(given, ArraySpec):
            if parameter.kind == "scalar":
                raise TypeMismatch(
                    f"argument {name} of kernel {self.name}: expected a {parameter.dtype}"
                    f" number, got an array of rank {given.rank}",
                    hint=f"annotate {name} as td.Tensor to pass an array",
                )
            return TensorSpec(given.dtype, given.rank)
        if parameter.kind == "tensor":
            raise TypeMismatch(
                f"argument {name} of kernel {self.name}: expected an array, got a number",
                hint=f"annotate {name} with a dtype such as td.float32 to pass a number",
            )
        if parameter.dtype is not None:
            return ScalarSpec(parameter.dtype)
        if isinstance(given, DType):
            return ScalarSpec(given)
        inferred = given.dtype or as_dtype(
            {"bool": "bool_", "int": "int32", "float": "float32"}[given.kind]
        )
        return ScalarSpec(inferred)

    def _blocks(self, grid: Grid | None, bound: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The grid as one to three ints; None for one block a multiprocessor."""
        chosen = grid if grid is not None else self.grid
        if isinstance(chosen, Persistent):
            return None
        if chosen is None:
            raise LaunchError(
                f"kernel {self.name} was called without a grid",
                hint=f"write {self.name}[grid](...), or declare it with"
                " @td.kernel(grid=td.persistent)",
            )
        if callable(chosen):
            chosen = chosen(SimpleNamespace(**bound))
        blocks = tuple(chosen) if isinstance(chosen, tuple | list) else (chosen,)
        legal = 1 <= len(blocks) <= 3 and all(
            hasattr(b, "__index__") and not isinstance(b, bool) and b >= 0 for b in blocks
        )
        if not legal:
            raise LaunchError(
                f"kernel {self.name}: expected a grid of one to three numbers of blocks,"
                f" got {chosen!r}"
            )
        return tuple(int(b) for b in blocks)

    def __repr__(self) -> str:
        return f"<tiledsl kernel {self.name}{self._signature}>"
