"""Launching: the user's arguments on a loaded kernel.

The fast path is two look-ups. The types of the arguments give the functions that read them; what
these read, all that the parameters depend on, gives a finished parameter block, which is never
changed again. So threads share it without a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import call
from typing import Any, NoReturn

from tiledsl.codegen.ir.plan import ParamSlot
from tiledsl.errors import InternalError, LaunchError, TypeMismatch
from tiledsl.runtime.arguments import check_same_device, read_array
from tiledsl.runtime.device import (
    Device,
    check,
    current_device,
    describe_error,
    device,
    driver,
    error_hint,
)
from tiledsl.runtime.frameworks import LEGACY_STREAM, framework_of
from tiledsl.runtime.grid import Grid, launch_grid
from tiledsl.runtime.library import LoadedKernel
from tiledsl.runtime.parameters import ParameterBlock, pack_parameters
from tiledsl.runtime.scalars import scalar_keyer
from tiledsl.runtime.streams import DEFAULT_STREAMS, ordered, stream_handle, synchronize

__all__ = ["BoundLaunch", "Launcher", "LoadedKernel"]

_MAX_CACHED = 512  # parameter blocks of a launcher, a few hundred bytes each


class BoundLaunch:
    """A launch with its arguments, grid and device settled; only the stream is open.

    ``launch`` may be called from several threads, and again for as long as the arrays live.
    """

    __slots__ = (
        "_block", "_configs", "_context", "_current", "_function", "_start", "device", "grid",
        "kernel",
    )  # fmt: skip

    def __init__(
        self, kernel: LoadedKernel, on: Device, grid: tuple[int, int, int], packed: Sequence[bytes]
    ) -> None:
        self.kernel = kernel
        self.device = on
        self.grid = grid
        self._context = on.context
        self._function = kernel.function(on)
        self._block = ParameterBlock(packed)
        self._configs: dict[int, Any] = {}
        self._current = driver().cuCtxGetCurrent
        self._start = driver().cuLaunchKernelEx

    def launch(self, stream: int) -> None:
        """Start the kernel on a stream of the device; returns before it has run.

        Raises:
            LaunchError: when the driver refuses, with grid, block and shared memory.
        """
        config = self._configs.get(stream) or self._configure(stream)
        if config is None:
            return
        status, context = self._current()
        if not status and int(context) == self._context:
            (status,) = self._start(config, self._function, self._block.address, 0)
        else:  # the null stream means the one of the current context
            with self.device.current():
                (status,) = self._start(config, self._function, self._block.address, 0)
        if status:
            self._fail(status, stream)

    def _configure(self, stream: int) -> Any:
        """The driver's launch configuration; None for a grid without blocks."""
        if 0 in self.grid:
            return None
        drv = driver()
        self._check_stream(stream)
        config = self.kernel.configuration(self.grid)
        config.hStream = drv.CUstream(stream)
        self._configs[stream] = config
        return config

    def _check_stream(self, stream: int) -> None:
        if stream in DEFAULT_STREAMS:  # of whatever device is current
            return
        drv, what = driver(), f"reading the stream {stream:#x}"
        with self.device.current():
            capturing = check(drv.cuStreamIsCapturing(drv.CUstream(stream)), what)
            if capturing != drv.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE:
                return  # asking further would end the capture
            owner = int(check(drv.cuStreamGetDevice(drv.CUstream(stream)), what))
        if owner != self.device.ordinal:
            raise LaunchError(
                f"the stream of kernel {self.kernel.name} is on another device than its arrays:"
                f" expected one of cuda:{self.device.ordinal}, got one of cuda:{owner}",
                hint=f"make the stream while cuda:{self.device.ordinal} is current",
            )

    def _fail(self, status: Any, stream: int) -> NoReturn:
        kernel = self.kernel
        clusters = f" cluster {kernel.cluster}," if kernel.cluster_size > 1 else ""
        raise LaunchError(
            f"launching kernel {kernel.name} failed: {describe_error(status)}; grid {self.grid},"
            f"{clusters} block ({kernel.threads}, 1, 1), {kernel.shared_bytes} bytes of dynamic"
            f" shared memory, stream {stream:#x}, {self.device.name}",
            hint=error_hint(status),
        )


@dataclass(slots=True)
class _Reading:
    """How arguments of some types are read, and what has been launched with such.

    Attributes:
        keys: for each argument, its hashable stand-in from the value and the stream's handle.
        first: index of the first array, whose framework gives the stream.
        stream: asks it for its current stream; None without arrays.
        simple: whether all arrays work on that one stream.
        bound: finished launches by grid and stand-ins.
    """

    keys: tuple[Callable[[Any, int], Hashable], ...]
    first: int = 0
    stream: Callable[[Any], int | None] | None = None
    simple: bool = True
    bound: dict[Hashable, BoundLaunch] = field(default_factory=dict)


class Launcher:
    """Launches a loaded kernel with the user's arguments. Safe to call from several threads.

    Args:
        kernel: the machine code.
        slots: its machine parameters (``Plan.params``).
        names: names of the kernel's run-time parameters, in the order of the arguments.
        require: called with the shapes of the tensor arguments, by index, and all arguments,
            before they are first launched with; raises when the kernel refuses them.
    """

    def __init__(
        self,
        kernel: LoadedKernel,
        slots: Sequence[ParamSlot],
        names: Sequence[str],
        require: Callable[[dict[int, tuple[int, ...]], Sequence[Any]], None] | None = None,
    ) -> None:
        self.kernel = kernel
        self._require = require
        self.slots = tuple(slots)
        self.names = tuple(names)
        self._abi_checked = False
        self._readings: dict[tuple[type, ...], _Reading] = {}

    def __call__(self, args: Sequence[Any], grid: Grid = None, stream: object = None) -> None:
        """Launch; returns before the kernel has run.

        Args:
            args: an array or number for each of ``names``.
            grid: blocks, as a number or one to three; None for one block a multiprocessor, or
                the clusters that fit at once. Zero blocks are allowed and do nothing.
            stream: where to launch: an object with ``__cuda_stream__``, a torch, CuPy or numba
                stream, or a handle; it is not ordered with anything. None for the current
                stream of the first array's framework; then the streams of the other
                frameworks among the arguments are ordered before and after the kernel.

        With arrays of a framework that tells no stream (jax, and others that have DLPack only)
        the call waits until the kernel is done, since nothing else would order its result.

        Raises:
            LaunchError, TypeMismatch, InvalidValue: naming the argument or the rule.
        """
        reading = self._readings.get(tuple(map(type, args))) or self._learn(args)
        handle, key = self._key(reading, args, grid, stream)
        bound = reading.bound.get(key)
        if bound is None:
            bound = self.bind(args, grid, handle)
            if len(reading.bound) >= _MAX_CACHED:
                reading.bound.clear()  # arguments that never repeat: none of the old come back
            reading.bound[key] = bound
        self._start(reading, bound, args, handle, stream is None)

    def launch_again(self, args: Sequence[Any], grid: Grid = None, stream: object = None) -> bool:
        """Launch if these very arguments were launched before (equal dtypes, pointers, extents).

        Returns False, having done nothing, when they were not.
        """
        reading = self._readings.get(tuple(map(type, args)))
        if reading is None:
            return False
        handle, key = self._key(reading, args, grid, stream)
        bound = reading.bound.get(key)
        if bound is None:
            return False
        self._start(reading, bound, args, handle, stream is None)
        return True

    @staticmethod
    def _key(
        reading: _Reading, args: Sequence[Any], grid: Grid, stream: object
    ) -> tuple[int, Hashable]:
        """The stream's handle, and what the parameters and the grid depend on."""
        if stream is not None:
            handle = stream_handle(stream)
        elif reading.stream is not None:
            handle = reading.stream(args[reading.first]) or LEGACY_STREAM
        else:
            handle = LEGACY_STREAM
        # As one map, since this is the part of a launch that takes longest.
        standins = tuple(map(call, reading.keys, args, repeat(handle)))
        return handle, (tuple(grid) if isinstance(grid, list) else grid, standins)

    def _start(
        self, reading: _Reading, bound: BoundLaunch, args: Sequence[Any], handle: int, order: bool
    ) -> None:
        if reading.simple:
            bound.launch(handle)
        else:
            self._launch_ordered(bound, args, handle, order=order)

    def bind(
        self, args: Sequence[Any], grid: Grid = None, stream: int = LEGACY_STREAM
    ) -> BoundLaunch:
        """Check and pack the arguments, without launching.

        The result can be launched again and again, with whatever the arrays hold by then.
        """
        if len(args) != len(self.names):
            self._refuse_count(args)
        arrays = {
            number: read_array(self.names[number], value, stream)
            for number, value in enumerate(args)
            if framework_of(value) is not None
        }
        if self._require is not None:
            self._require({number: array.shape for number, array in arrays.items()}, args)
        ordinal = check_same_device((self.names[number], array) for number, array in arrays.items())
        on = current_device() if ordinal is None else device(ordinal)
        self.kernel.function(on)  # says first whether the kernel can run here at all
        packed = pack_parameters(self.slots, self.names, arrays, args)
        self._check_abi(packed, on)
        return BoundLaunch(self.kernel, on, launch_grid(self.kernel, grid, on), packed)

    def _learn(self, args: Sequence[Any]) -> _Reading:
        """How to read arguments of these types; kept for the calls to come."""
        if len(args) != len(self.names):
            self._refuse_count(args)
        frameworks = [framework_of(value) for value in args]
        keys = [
            scalar_keyer(name, value) if found is None else found.keyer(name)
            for name, value, found in zip(self.names, args, frameworks, strict=True)
        ]
        arrays = [(number, found) for number, found in enumerate(frameworks) if found is not None]
        reading = _Reading(tuple(keys))
        if arrays:
            reading.first, framework = arrays[0]
            reading.stream = framework.stream
            reading.simple = framework.one_stream and len({found for _, found in arrays}) == 1
        self._readings[tuple(map(type, args))] = reading
        return reading

    def _launch_ordered(
        self, bound: BoundLaunch, args: Sequence[Any], handle: int, *, order: bool
    ) -> None:
        frameworks = [(framework_of(value), value) for value in args]
        readers = [(found, value) for found, value in frameworks if found is not None]
        others: set[int] = set()
        if order:
            streams = (found.stream(value) for found, value in readers)
            others = {other for other in streams if other is not None}
        with ordered(bound.device, handle, others):
            bound.launch(handle)
        if any(found.waits for found, _ in readers):
            synchronize(bound.device, handle)

    def _refuse_count(self, args: Sequence[Any]) -> NoReturn:
        raise TypeMismatch(
            f"kernel {self.kernel.name}: expected {len(self.names)} arguments"
            f" ({', '.join(self.names)}), got {len(args)}"
        )

    def _check_abi(self, packed: Sequence[bytes], on: Device) -> None:
        """Once a launcher: what the code declares is what the plan says."""
        if self._abi_checked:
            return
        with on.current():
            expected = self.kernel.parameter_sizes()
        given = [len(data) for data in packed]
        if expected != given:
            raise InternalError(
                f"kernel {self.kernel.name}: its code has parameters of {expected} bytes, its plan"
                f" {given}"
            )
        self._abi_checked = True
