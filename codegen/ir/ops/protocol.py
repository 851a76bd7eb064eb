"""What the hardware does: barriers, asynchronous groups, fences. Legal at protocol level only.

A role runs as one or more *parts*, each a coroutine of its own in the emulator: one elected
thread (a role that needs no more), or one part a warpgroup. ``elect`` says who performs an
operation that one thread suffices for: ``"part"`` one thread of each part, ``"role"`` one thread
of the role's first part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tiledsl.codegen.ir.core import (
    PROTOCOL,
    Effect,
    Op,
    Value,
    attribute,
    define,
    operand,
    operands,
)
from tiledsl.codegen.ir.ops.arith import element_type
from tiledsl.codegen.ir.ops.tile import I32, at_coords, check_coords, check_mma
from tiledsl.codegen.ir.types import (
    BarrierType,
    BufferType,
    LocalType,
    Scalar,
    SharedTile,
    Tile,
    Type,
)

Namer = Callable[[Value], str]


# ------------------------------------------------------------------- variables of a role


@define("local.new", levels=PROTOCOL, effect=Effect.WRITE)
class LocalNew(Op):
    """A variable of this role, with its first value. Ring cursors live in these."""

    init: Value = operand()
    name: str = attribute()

    def result_types(self) -> Sequence[Type]:
        return (LocalType(element_type(self.init.type)),)

    def print_head(self, name: Namer) -> str:
        return f"local.new {name(self.init)} : {self.init.type}"


@define("local.get", levels=PROTOCOL, effect=Effect.READ)
class LocalGet(Op):
    """The present value of a variable."""

    local: Value = operand()

    def result_types(self) -> Sequence[Type]:
        assert isinstance(self.local.type, LocalType)
        return (Scalar(self.local.type.dtype),)

    def print_head(self, name: Namer) -> str:
        return f"local.get {name(self.local)}"


@define("local.set", levels=PROTOCOL, effect=Effect.WRITE)
class LocalSet(Op):
    """Assign a variable."""

    local: Value = operand()
    value: Value = operand()

    def verify(self) -> None:
        if not isinstance(self.local.type, LocalType):
            raise ValueError(f"expected a local variable, got {self.local.type}")
        if self.value.type != Scalar(self.local.type.dtype):
            raise ValueError(f"assigns {self.value.type} to {self.local.type}")


@define("role.part", levels=PROTOCOL)
class PartIndex(Op):
    """Which part of the role this is, 0 ... parts - 1."""

    def result_types(self) -> Sequence[Type]:
        return (I32,)


# --------------------------------------------------------------------------- mbarriers


@define("ring.barrier")
class RingBarrier(Op):
    """The full or the empty mbarrier of slot ``index`` of a ring."""

    ring: Value = operand()
    index: Value = operand()
    which: str = attribute()  # "full" or "empty"

    def result_types(self) -> Sequence[Type]:
        return (BarrierType(),)

    def print_head(self, name: Namer) -> str:
        return f"ring.{self.which} {name(self.ring)}[{name(self.index)}]"

    def verify(self) -> None:
        if self.which not in ("full", "empty"):
            raise ValueError(f"a ring has full and empty barriers, not {self.which!r}")


@define("mbarrier.wait", effect=Effect.SYNC, needs="mbarrier")
class MbarrierWait(Op):
    """Wait until the phase of parity ``parity`` has completed.

    All threads of the part wait, or with ``elect="role"`` the elected thread of the role alone,
    whose warp then meets. A phase can be told from the one after the next only while each phase
    needs an arrival of whoever waits: the waits of a producer with several threads must be
    elected, for its consumers do not wait for all of them.

    ``unless`` is none or one bool_, from ``mbarrier.try_wait``: a thread where it is true does not
    wait.
    """

    barrier: Value = operand()
    parity: Value = operand()
    unless: tuple[Value, ...] = operands(default=(), kw_only=True)
    elect: str = attribute(default="all")

    def print_head(self, name: Namer) -> str:
        elect = f" {{elect={self.elect}}}" if self.elect != "all" else ""
        unless = f" unless {name(self.unless[0])}" if self.unless else ""
        return f"mbarrier.wait {name(self.barrier)}, parity {name(self.parity)}{unless}{elect}"

    def verify(self) -> None:
        if self.parity.type != I32:
            raise ValueError(f"the parity must be int32, got {self.parity.type}")
        if self.elect not in ("all", "role"):
            raise ValueError(f"all threads wait or the role's elected one, not {self.elect!r}")


@define("mbarrier.arrive", effect=Effect.SYNC, needs="mbarrier")
class MbarrierArrive(Op):
    """Arrive once, by one elected thread; with a predicate, only where it is true.

    ``axes`` are cluster axes: it then arrives on the same barrier of every block that shares one
    of these axes with this block (that differs from it in at most the coordinate of that axis),
    itself included; with ``spans`` of every block that differs from it in the coordinates of these
    axes only, in any number of them. ``rank`` is none or one int32: it arrives in the block of that
    rank alone. Remote arrivals have the default semantics, never ``.release.cluster``.
    """

    barrier: Value = operand()
    predicate: tuple[Value, ...] = operands()  # none or one bool_
    rank: tuple[Value, ...] = operands(default=(), kw_only=True)
    elect: str = attribute()
    axes: tuple[int, ...] = attribute(default=())
    spans: bool = attribute(default=False)

    def print_head(self, name: Namer) -> str:
        when = f" if {name(self.predicate[0])}" if self.predicate else ""
        where = f" in block {name(self.rank[0])}" if self.rank else ""
        axes = f", axes={self.axes}" if self.axes else ""
        axes += " together" if self.spans else ""
        return f"mbarrier.arrive {name(self.barrier)}{when}{where} {{elect={self.elect}{axes}}}"


@define("mbarrier.arrive_expect_tx", effect=Effect.SYNC, needs="mbarrier")
class MbarrierArriveExpectTx(Op):
    """Arrive once and announce ``nbytes`` of transactions, by one elected thread of the role."""

    barrier: Value = operand()
    nbytes: int = attribute()

    def print_head(self, name: Namer) -> str:
        return f"mbarrier.arrive_expect_tx {name(self.barrier)}, {self.nbytes} bytes"


# ------------------------------------------------------------------------------- wgmma


@define("wgmma.mma", levels=PROTOCOL, effect=Effect.SYNC, needs="wgmma")
class Wgmma(Op):
    """Issue and commit one asynchronous group computing ``acc + a @ b`` for each part's rows.

    The result stays in flight until a ``wgmma.wait`` retires the group; until then only another
    ``wgmma.mma`` may take it, as its accumulator.
    """

    a: Value = operand()
    b: Value = operand()
    acc: Value = operand()

    def result_types(self) -> Sequence[Type]:
        return (self.acc.type,)

    def verify(self) -> None:
        check_mma(self.a.type, self.b.type, self.acc.type)


@define("wgmma.wait", levels=PROTOCOL, effect=Effect.SYNC, needs="wgmma")
class WgmmaWait(Op):
    """Wait until at most ``pending`` groups of this part are in flight.

    ``values`` are accumulators; the results are the same registers after the wait, so that
    nothing that reads them can move above it.
    """

    values: tuple[Value, ...] = operands()
    pending: int = attribute()

    def result_types(self) -> Sequence[Type]:
        return [value.type for value in self.values]

    def print_head(self, name: Namer) -> str:
        values = "".join(f", {name(v)}" for v in self.values)
        return f"wgmma.wait {self.pending}{values}"


# ------------------------------------------------- stores through shared memory, by TMA


@define("staging.buffer", levels=PROTOCOL)
class StagingBuffer(Op):
    """A shared-memory buffer of this part, through which register tiles leave by TMA."""

    name: str = attribute()
    buffer: BufferType = attribute()

    def result_types(self) -> Sequence[Type]:
        return (self.buffer,)

    def print_head(self, name: Namer) -> str:
        return f"staging.buffer {self.buffer}"


@define("staging.write", levels=PROTOCOL, effect=Effect.WRITE)
class StagingWrite(Op):
    """Write columns ``column ...`` of a register tile into boxes ``first_box ...`` of a buffer.

    Every thread of the part writes its own elements (stmatrix for 16-bit types). ``boxes`` boxes
    are filled, each with the part's rows and the buffer's column extent.
    """

    value: Value = operand()
    buffer: Value = operand()
    column: int = attribute()
    first_box: int = attribute()
    boxes: int = attribute()

    def verify(self) -> None:
        value, buffer = self.value.type, self.buffer.type
        if not isinstance(value, Tile) or not isinstance(buffer, BufferType):
            raise ValueError(f"expected a register tile and a buffer, got {value} and {buffer}")
        if value.dtype != buffer.dtype or self.first_box + self.boxes > buffer.count:
            raise ValueError(f"cannot write {value} into {buffer}")
        if self.column + self.boxes * buffer.shape[1] > value.shape[1]:
            raise ValueError(f"columns from {self.column} on exceed {value}")


@define("tma.store_buffer", levels=PROTOCOL, effect=Effect.WRITE, needs="tma")
class TmaStoreBuffer(Op):
    """Start a bulk tensor copy of one box of a buffer to global memory, by one thread a part."""

    buffer: Value = operand()
    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    box: int = attribute()
    reduce: str | None = attribute(default=None)
    cache: str | None = attribute(default=None)

    def print_head(self, name: Namer) -> str:
        target = at_coords(name, self.tensor, self.coords)
        return f"tma.store_buffer {name(self.buffer)}[{self.box}] -> {target}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)


@define("tma.store_shared", levels=PROTOCOL, effect=Effect.WRITE, needs="tma")
class TmaStoreShared(Op):
    """Start a bulk tensor copy of a shared tile to global memory, by one thread of the role."""

    tile: Value = operand()
    tensor: Value = operand()
    coords: tuple[Value, ...] = operands()
    reduce: str | None = attribute(default=None)
    cache: str | None = attribute(default=None)

    def print_head(self, name: Namer) -> str:
        target = at_coords(name, self.tensor, self.coords)
        return f"tma.store_shared {name(self.tile)} -> {target}"

    def verify(self) -> None:
        check_coords(self.tensor, self.coords)
        if not isinstance(self.tile.type, SharedTile) or self.tile.type.transposed:
            raise ValueError(f"expected a shared tile as stored, got {self.tile.type}")


@define("bulk.commit", levels=PROTOCOL, effect=Effect.SYNC)
class BulkCommit(Op):
    """Close the group of bulk stores that the electing thread has started."""

    elect: str = attribute()


@define("bulk.wait", levels=PROTOCOL, effect=Effect.SYNC)
class BulkWait(Op):
    """The electing thread waits until at most ``pending`` of its bulk groups are unfinished.

    With ``read`` it waits only until their sources in shared memory have been read.
    """

    pending: int = attribute()
    read: bool = attribute()
    elect: str = attribute()


# ------------------------------------------------------------------- fences and barriers


@define("fence.proxy_async", levels=PROTOCOL, effect=Effect.SYNC)
class FenceProxyAsync(Op):
    """Order this thread's generic accesses to shared memory before those of TMA and wgmma.

    They see its writes, and write over what it reads only behind that (decision 0014).
    """


@define("part.sync", levels=PROTOCOL, effect=Effect.SYNC)
class PartSync(Op):
    """A named barrier over the threads of one part."""


@define("role.sync", levels=PROTOCOL, effect=Effect.SYNC)
class RoleSync(Op):
    """A named barrier over all threads of the role."""
