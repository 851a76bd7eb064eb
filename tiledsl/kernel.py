"""``@td.kernel``: from a Python function to variants, and from a call to the GPU or the emulator.

A kernel has one compiled variant for each combination of argument types (dtype, rank) and
constants. A call with arrays in GPU memory launches there; with NumPy arrays it runs on the
emulator, which needs no GPU and no LLVM.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from tiledsl.binding import Binder, Grid, check_cluster
from tiledsl.codegen.ir.exact import exact
from tiledsl.codegen.ir.kernel import Captured
from tiledsl.codegen.ir.kernel import Kernel as KernelIR
from tiledsl.codegen.nvptx.targets import Target, get_target
from tiledsl.errors import InvalidValue
from tiledsl.frontend.build import (
    ConstantSpec,
    ParamSpec,
    build_kernel,
)
from tiledsl.language.grid import Persistent
from tiledsl.runtime import arguments
from tiledsl.runtime.requirements import check_requirements
from tiledsl.runtime.tensormap_rules import check_tensormap

if TYPE_CHECKING:
    from tiledsl.codegen.explain import Explanation
    from tiledsl.compiled import CompiledKernel
    from tiledsl.runtime.launch import Launcher
    from tiledsl.runtime.ptx_machine.machine import Result

DEFAULT_TARGET = "sm_90a"
# The emulated device: few enough that every block of a persistent kernel walks several tiles.
EMULATED_MULTIPROCESSORS = 4
_MAX_KNOWN = 512  # keys of launches that were made before, a few hundred bytes each


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    grid: Grid | Persistent | None = None,
    warps: int | None = None,
    cluster: tuple[int, ...] | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    grid: Grid | Persistent | None = None,
    warps: int | None = None,
    cluster: tuple[int, ...] | None = None,
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
        cluster: blocks of a cluster along one to three axes, such as ``(2, 1)``: they run at the
            same time, share loads (``td.tma_load(..., multicast=axis)``) and reach each other's
            barriers. At most 8 blocks. With ``td.persistent``, as many clusters as run at once;
            a grid of your own must be divisible by it, axis by axis.

    Example::

        @td.kernel(grid=td.persistent)
        def gemm(a: td.Tensor, b: td.Tensor, c: td.Tensor, *, BM: td.Constant[int] = 128): ...

        gemm(a, b, c)              # NumPy arrays: emulator; torch, CuPy, ... arrays: GPU
        gemm(a, b, c, BM=64)       # another variant
    """
    if function is not None:
        return Kernel(function, grid=grid, warps=warps, cluster=cluster)
    return lambda function: Kernel(function, grid=grid, warps=warps, cluster=cluster)


class Kernel:
    """A kernel: call it, index it with a grid, or compile it. Made by ``@td.kernel``."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        grid: Grid | Persistent | None = None,
        warps: int | None = None,
        cluster: tuple[int, ...] | None = None,
    ) -> None:
        if warps is not None and (not isinstance(warps, int) or not 1 <= warps <= 32):
            raise InvalidValue(f"warps: expected a number from 1 to 32, got {warps!r}")
        self.binder = Binder(function)
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self.function = function
        self.grid = grid
        self.warps = warps
        self.cluster = check_cluster(cluster)
        self._run_time = self.binder.run_time
        self._variants: dict[Hashable, CompiledKernel] = {}
        self._captured: dict[Hashable, Captured] = {}
        self._launchers: dict[Hashable, Launcher] = {}
        self._known: dict[Hashable, list[tuple[Launcher, tuple[int, ...] | None]]] = {}
        # A grid that is computed from the arguments has to be computed for each launch.
        self._run_time_first = self.binder.run_time_first and not callable(grid)
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
        bound = self.binder.bind(args, kwargs)
        names = self._run_time
        values = [bound[name] for name in names]
        specs = [arguments.classify(n, v) for n, v in zip(names, values, strict=True)]
        place = arguments.launch_place(zip(names, specs, strict=True))
        blocks = self.binder.blocks(self.grid if grid is None else grid, bound)
        params = {
            name: self.binder.spec(name, spec) for name, spec in zip(names, specs, strict=True)
        }
        if place != "device":
            self._emulate(bound, params, values, blocks)
            return
        launcher = self._launcher(bound, params, self._device_target(values))
        launcher(values, blocks, stream)
        if key is not None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()  # another grid or constant each time: none of them come back
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
        try:
            found = (grid, *((name, exact(v)) for name, v in kwargs.items()))
            hash(found)
        except TypeError:
            return None
        return found

    def _launcher(
        self, bound: Mapping[str, Any], params: dict[str, ParamSpec], target: Target
    ) -> Launcher:
        from tiledsl.runtime.launch import Launcher, LoadedKernel

        key = (target.name, self.binder.key(bound, params))
        launcher = self._launchers.get(key)
        if launcher is None:
            compiled = self._variant(bound, params, target)
            loaded = LoadedKernel(
                compiled.cubin,
                compiled.name,
                threads=compiled.plan.threads,
                shared_bytes=compiled.plan.shared_bytes,
                target=compiled.target.name,
                cluster=compiled.kernel.cluster_dims,
                persistent=compiled.kernel.persistent,
                loc=compiled.kernel.loc,
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

    def _device_target(self, values: Sequence[Any]) -> Target:
        """The target of the device that the arrays are on, which need not be the current one."""
        from tiledsl.runtime.device import device

        arrays = (
            (name, arguments.read_array(name, value))
            for name, value in zip(self._run_time, values, strict=True)
            if arguments.is_array(value)
        )
        ordinal = arguments.check_same_device(arrays)
        assert ordinal is not None  # one of them made this a launch
        return get_target(device(ordinal).target)

    def _emulate(
        self,
        bound: Mapping[str, Any],
        params: dict[str, ParamSpec],
        values: list[Any],
        blocks: tuple[int, ...] | None,
    ) -> None:
        from tiledsl.runtime.emulator import emulate
        from tiledsl.runtime.grid import check_clusters

        backend = os.environ.get("TILEDSL_BACKEND", "emulator")
        if backend == "ptx":
            self._print_ptx(bound, params, values, blocks)
            return
        if backend != "emulator":
            raise InvalidValue(f"TILEDSL_BACKEND: expected 'emulator' or 'ptx', got {backend!r}")

        compiled = self._variant(bound, params, get_target(DEFAULT_TARGET))
        self._check_emulated(compiled, values)
        seed = os.environ.get("TILEDSL_EMULATOR_SEED", "")
        if seed and not seed.isdecimal():
            raise InvalidValue(f"TILEDSL_EMULATOR_SEED: expected a number, got {seed!r}")
        x, y, z = self._host_grid(compiled, blocks)
        check_clusters(self.name, (x, y, z), compiled.kernel.cluster_dims)
        emulate(compiled.kernel, values, grid=(x, y, z), seed=int(seed) if seed else None)

    def run_ptx(
        self,
        *args: Any,
        grid: Grid | None = None,
        ptx: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Result:
        """Run the kernel's PTX, as a GPU would get it, on the CPU: NumPy arguments as in a call.

        Slower than the emulator, and independent of it: a wrong address, descriptor, fragment,
        swizzle or phase in what was emitted gives a wrong result here, or an error that names the
        PTX line and yours.

        Args:
            grid: as for ``launch``.
            ptx: run this instead of the kernel's own PTX, which ``kernel.lower(...).ptx`` gives
                for editing. Name, parameters, threads and shared memory stay the kernel's.
            options: of the machine: ``policy`` ("eager", "late", "random" or "pct": when
                asynchronous work happens and which warp runs), ``seed``, ``checks`` (races,
                fences; on by default), ``together`` (all blocks at once), ``profile``.

        Returns:
            What was counted: instructions, what was printed, and with ``profile`` a Profile.

        Raises:
            MachineFault: what the PTX does wrong.
            DecodeError: an edited PTX that is wrong, or whose parameters are not the kernel's.
        """
        self._forget_outdated()
        bound = self.binder.bind(args, kwargs)
        names = self._run_time
        values = [bound[name] for name in names]
        specs = [arguments.classify(n, v) for n, v in zip(names, values, strict=True)]
        if arguments.launch_place(zip(names, specs, strict=True)) == "device":
            raise InvalidValue(f"kernel {self.name}: run_ptx takes NumPy arrays")
        blocks = self.binder.blocks(self.grid if grid is None else grid, bound)
        params = {
            name: self.binder.spec(name, spec) for name, spec in zip(names, specs, strict=True)
        }
        return self._run_ptx(bound, params, values, blocks, options or {}, ptx)

    def _run_ptx(
        self,
        bound: Mapping[str, Any],
        params: dict[str, ParamSpec],
        values: list[Any],
        blocks: tuple[int, ...] | None,
        options: Mapping[str, Any],
        ptx: str | None = None,
    ) -> Result:
        from tiledsl.runtime.emulator.arguments import bind
        from tiledsl.runtime.grid import check_clusters
        from tiledsl.runtime.ptx_backend import PER_KERNEL, Launch, run_kernel

        known = [name for name in Launch.__dataclass_fields__ if name not in PER_KERNEL]
        for name in options:
            if name not in known:
                raise InvalidValue(f"options: expected some of {', '.join(known)}, got {name!r}")
        compiled = self._variant(bound, params, get_target(DEFAULT_TARGET))
        self._check_emulated(compiled, values)
        bind(compiled.kernel, values)  # the emulator's checks, such as of arrays that are read-only
        x, y, z = self._host_grid(compiled, blocks)
        check_clusters(self.name, (x, y, z), compiled.kernel.cluster_dims)
        return run_kernel(
            compiled.kernel,
            compiled.ptx if ptx is None else ptx,
            self._run_time,
            values,
            (x, y, z),
            **options,
        )

    def _print_ptx(
        self,
        bound: Mapping[str, Any],
        params: dict[str, ParamSpec],
        values: list[Any],
        blocks: tuple[int, ...] | None,
    ) -> None:
        """Run on the PTX machine instead of the emulator, whose prints appear as well."""
        from tiledsl.runtime.ptx_machine.report import MachineFault

        prints: Sequence[str] = ()
        try:
            prints = self._run_ptx(bound, params, values, blocks, _ptx_options()).prints
        except MachineFault as fault:
            prints = fault.prints
            raise
        finally:
            sys.stdout.write("".join(prints))

    def _host_grid(
        self, compiled: CompiledKernel, blocks: tuple[int, ...] | None
    ) -> tuple[int, int, int]:
        """The grid on the CPU; a persistent one has few blocks, but two clusters to share tiles."""
        size = compiled.kernel.cluster_size
        clusters = max(2, EMULATED_MULTIPROCESSORS // size)
        x, y, z = (*(blocks if blocks is not None else (size * clusters,)), 1, 1)[:3]
        return x, y, z

    def _check_emulated(self, compiled: CompiledKernel, values: list[Any]) -> None:
        """What a launch on the GPU would refuse is refused here too."""
        arrays = {
            index: arguments.read_array(name, value)
            for index, (name, value) in enumerate(zip(self._run_time, values, strict=True))
            if arguments.is_array(value)
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
            ``.sass()``, ``.resources``, ``.cluster``, ``.counts``, ``.timings``.
        """
        compiled = self.lower(*args, target=target, **kwargs)
        compiled.assemble()
        return compiled

    def lower(self, *args: Any, target: str = DEFAULT_TARGET, **kwargs: Any) -> CompiledKernel:
        """As ``compile``, but only down to protocol level; the rest is made when asked for."""
        self._forget_outdated()
        found = get_target(target)
        return self._variant(*self._described(args, kwargs), found)

    def explain(self, *args: Any, target: str = DEFAULT_TARGET, **kwargs: Any) -> Explanation:
        """What the compiler derived of the kernel: barriers, counts, bytes, warps, shared memory.

        Args:
            args, kwargs, target: as for ``compile``.

        Returns:
            Printed, it is a table; in a notebook also a picture of roles, rings and stages
            (``.svg``).

        Raises:
            TileError: the kernel cannot be compiled.

        Example::

            matrix = td.spec((512, 512), td.bfloat16)
            print(gemm.explain(matrix, matrix, matrix))
        """
        from tiledsl.codegen.explain import Collector, Explanation
        from tiledsl.compiled import compile_tile_level

        found = get_target(target)
        bound, params = self._described(args, kwargs)
        # Another trace: stages, from which most is read, are gone from a variant that is ready.
        collector = Collector()
        compiled = compile_tile_level(
            lambda: self._build(bound, params, found), found, collector.after
        )
        return Explanation(collector.facts(compiled.kernel, found.limits))

    def _described(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, ParamSpec]]:
        """Arguments that may be described instead of given, bound to names; those of run time."""
        bound = self.binder.bind(args, kwargs)
        params = {
            name: self.binder.spec(name, self.binder.described(name, bound[name]))
            for name in self._run_time
        }
        return bound, params

    @property
    def variants(self) -> tuple[CompiledKernel, ...]:
        """The variants compiled so far."""
        return tuple(self._variants.values())

    def _variant(
        self, bound: Mapping[str, Any], params: dict[str, ParamSpec], target: Target
    ) -> CompiledKernel:
        # The passes are imported when something is compiled: `import tiledsl` stays quick.
        from tiledsl.compiled import compile_tile_level

        key = (target.name, self.binder.key(bound, params))
        found = self._variants.get(key)
        if found is None:
            with self._lock:
                found = self._variants.get(key)
                if found is None:
                    found = compile_tile_level(lambda: self._build(bound, params, target), target)
                    self._variants[key] = found
                    # Another dict, since other threads may be walking over this one.
                    self._captured = self._captured | {
                        (c.space, c.name): c for c in found.kernel.captured
                    }
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
            for p in self.binder.parameters
        }
        return build_kernel(
            self.function,
            specs,
            name=self.name,
            persistent=isinstance(self.grid, Persistent),
            warps=self.warps,
            target=target.name,
            cluster=self.cluster,
        )

    def __reduce__(self) -> str:
        """Pickled by name, as Python's own functions are; a copy is the kernel itself."""
        return self.function.__qualname__

    def __repr__(self) -> str:
        return f"<tiledsl kernel {self.name}{self.binder.signature}>"


def _ptx_options() -> dict[str, Any]:
    """How the PTX machine runs, from the environment: TILEDSL_PTX_POLICY, TILEDSL_PTX_SEED."""
    from tiledsl.runtime.ptx_machine.opcodes import POLICIES

    seed = os.environ.get("TILEDSL_PTX_SEED") or "0"
    if not seed.isdecimal():
        raise InvalidValue(f"TILEDSL_PTX_SEED: expected a number, got {seed!r}")
    policy = os.environ.get("TILEDSL_PTX_POLICY") or "late"
    if policy not in POLICIES:
        raise InvalidValue(f"TILEDSL_PTX_POLICY: expected one of {POLICIES}, got {policy!r}")
    return {"policy": policy, "seed": int(seed)}
