"""Streams: the handle behind a framework's stream object, and ordering between streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tiledsl.errors import TypeMismatch
from tiledsl.runtime.device import Device, check, driver

DEFAULT_STREAMS = (0, 1, 2)  # the null stream, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD


def stream_handle(stream: object) -> int:
    """The driver's handle of a stream.

    Args:
        stream: an object with ``__cuda_stream__`` (torch since 2.10, cuda-core, numba-cuda), a
            torch stream (``cuda_stream``), a CuPy one (``ptr``), a numba one (``handle``), or
            the handle itself; 0 is the null stream.

    Raises:
        TypeMismatch: for anything else.
    """
    candidate: Any = stream
    protocol = getattr(candidate, "__cuda_stream__", None)
    if protocol is not None:
        version, *handle = protocol() if callable(protocol) else protocol
        if version == 0 and len(handle) == 1:
            return _normal(handle[0])
        raise TypeMismatch(f"stream: expected __cuda_stream__ of version 0, got version {version}")
    if isinstance(candidate, int) and not isinstance(candidate, bool):
        return _normal(candidate)
    for attribute in ("cuda_stream", "ptr", "handle"):
        handle = getattr(candidate, attribute, None)
        if handle is not None:
            # numba keeps a ctypes pointer, whose value is None for the null stream.
            return _normal(getattr(handle, "value", handle) or 0)
    raise TypeMismatch(
        f"stream: expected a CUDA stream or its handle, got {candidate!r}",
        hint="such as torch.cuda.Stream(), cupy.cuda.Stream(), or anything with __cuda_stream__",
    )


def _normal(handle: Any) -> int:
    """The handle with the null stream written as 0; some write CU_STREAM_LEGACY, which is 1."""
    number = int(handle)
    return 0 if number == 1 else number


@contextmanager
def ordered(on: Device, stream: int, others: Iterable[int]) -> Iterator[None]:
    """Run the ``with`` block's launches on ``stream`` after and before the work of ``others``.

    All are handles of streams of the device ``on``.
    """
    others = [other for other in others if other != stream]
    for other in others:
        _wait(on, stream, other)
    yield
    for other in others:
        _wait(on, other, stream)


def _wait(on: Device, waiter: int, earlier: int) -> None:
    """Make the stream ``waiter`` wait for what is on the stream ``earlier`` by now."""
    drv = driver()
    what = f"ordering stream {waiter:#x} after stream {earlier:#x}"
    with on.current():
        flags = drv.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = check(drv.cuEventCreate(int(flags)), what)
        try:
            check(drv.cuEventRecord(event, earlier), what)
            check(drv.cuStreamWaitEvent(waiter, event, 0), what)
        finally:
            # The driver frees it once the wait is over.
            check(drv.cuEventDestroy(event), what)


def synchronize(on: Device, stream: int) -> None:
    """Wait until all work on the stream is done.

    Raises:
        LaunchError: when that work faulted.
    """
    with on.current():
        check(driver().cuStreamSynchronize(stream), f"waiting for stream {stream:#x}")
