"""TMA: loads to shared memory, stores from it, staging buffers and bulk groups.

A load writes its tile at some moment after its issue and then completes bytes on its barrier. A
store reads its source at some moment after its issue, and writes to global memory later still; the
part that issued it learns of the first from ``bulk.wait read`` and of the second from
``bulk.wait``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from tiledsl.codegen.ir.ops import protocol, tile
from tiledsl.codegen.ir.types import BufferType
from tiledsl.errors import InternalError, InvalidValue, Loc
from tiledsl.runtime.emulator.barriers import Mbarrier
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import (
    Buffer,
    SharedArray,
    Tensor,
    box_of,
    load_box,
    store_box,
)
from tiledsl.runtime.emulator.values import Array
from tiledsl.runtime.emulator.wgmma import ready_tile

COPY_UNIT = 16  # bytes at whose multiples a copy starts in global memory


@dataclass(eq=False, slots=True)
class Load:
    """A bulk tensor copy to shared memory."""

    tensor: Tensor
    coords: tuple[int, ...]
    tile: SharedArray
    barrier: Mbarrier
    done: bool = False

    def act(self) -> None:
        load_box(self.tensor.array, self.coords, self.tile.array)
        self.done = True
        self.barrier.complete_bytes(self.tile.array.nbytes)


@dataclass(eq=False, slots=True)
class Store:
    """A bulk tensor copy from shared memory: first it reads, then it writes."""

    tensor: Tensor
    coords: tuple[int, ...]
    source: Array
    loc: Loc
    buffer: Buffer | None = None
    box: int = 0
    data: Array | None = None
    done: bool = False
    flying: Array | None = None  # a view of the marks of what is on its way, see BulkQueue.mark

    def read(self) -> None:
        if self.data is None:
            self.data = self.source.copy()

    def write(self) -> None:
        if not self.done:
            self.read()
            assert self.data is not None
            store_box(self.tensor.array, self.coords, self.data)
            if self.flying is not None:
                self.flying[...] = False
            self.done = True

    def act(self) -> None:
        if self.data is None:
            self.read()
        else:
            self.write()


class BulkQueue:
    """The stores of one part's elected thread, in groups."""

    def __init__(self) -> None:
        self.open: list[Store] = []
        self.unread: deque[list[Store]] = deque()
        self.unwritten: deque[list[Store]] = deque()
        self._known_by_one: list[Store] = []  # read, and only the electing thread knows
        self._marks: dict[
            int, Array
        ] = {}  # by tensor: the elements that stores are on their way to

    def mark(self, store: Store) -> None:
        """Note where a store goes.

        Raises:
            InvalidValue: another store of this part is still on its way there.
        """
        array = store.tensor.array
        marks = self._marks.setdefault(id(array), np.zeros(array.shape, bool))
        store.flying = box_of(marks, store.coords, store.source.shape)
        if store.flying is None:
            return
        if store.flying.any():
            raise InvalidValue(
                f"a TMA store to tensor {store.tensor.name!r} at {store.coords} reaches elements"
                " that another store of this role is still on its way to: nothing orders the two,"
                " expected each element to be stored once",
                store.loc,
                hint="keep the tile in registers and store it once",
            )
        store.flying[...] = True

    def commit(self) -> None:
        self.unread.append(self.open)
        self.open = []

    def wait(self, pending: int, *, read: bool) -> None:
        """Let all but the newest ``pending`` groups finish, or only read their sources."""
        unfinished = 0 if read else len(self.unwritten)
        while self.unread and len(self.unread) + unfinished > pending:
            group = self.unread.popleft()
            for store in group:
                store.read()
            self._known_by_one += group
            self.unwritten.append(group)
            unfinished += not read
        while not read and len(self.unread) + len(self.unwritten) > pending:
            for store in self.unwritten.popleft():
                store.write()

    def announce(self) -> None:
        """The threads of the part meet: all of them know what the elected one has waited for."""
        for store in self._known_by_one:
            if store.buffer is not None:
                store.buffer.readers[store.box] -= 1
        self._known_by_one = []

    def write_all(self) -> None:
        """The block has ended: what was stored is in global memory."""
        for group in self.unwritten:
            for store in group:
                store.write()
        self.unwritten.clear()

    def finish(self, part: Part) -> None:
        """The part ends.

        Raises:
            InternalError: when a store may still read the block's shared memory.
        """
        left = [store for group in self.unread for store in group] + self.open
        if left:
            raise InternalError(
                f"{part.label} ends while {len(left)} TMA store(s) may still read shared memory:"
                " expected a bulk.wait before",
                left[0].loc,
            )


@step(tile.TmaLoad)
def _load(cx: Compiler, op: tile.TmaLoad) -> Step:
    tensor, coords = cx.slot(op.tensor), cx.slots(op.coords)
    target, barrier = cx.slot(op.tile), cx.slot(op.barrier)
    loc = op.loc

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers, result = part.registers, part.block.result
            shared: SharedArray = registers[target]
            at = tuple([registers[coord] for coord in coords])
            check_coordinates(registers[tensor], at, False, loc)
            part.block.start(Load(registers[tensor], at, shared, registers[barrier]))
            result.tma_loads += 1
            result.tma_load_bytes += shared.array.nbytes
        return None

    return run


def check_coordinates(tensor: Tensor, coords: tuple[int, ...], stores: bool, loc: Loc) -> None:
    """Where the hardware stops with an illegal instruction, the emulator says why.

    Raises:
        InvalidValue: the innermost coordinate is not at a multiple of 16 bytes, or a store starts
            before the tensor (a load may: what lies outside reads as zero).
    """
    nbytes = coords[-1] * tensor.array.itemsize
    if nbytes % COPY_UNIT:
        raise InvalidValue(
            f"a TMA copy of tensor {tensor.name!r} starts at innermost coordinate {coords[-1]},"
            f" which is byte {nbytes} of a row: expected a multiple of {COPY_UNIT} bytes",
            loc,
            hint=f"use a multiple of {COPY_UNIT // tensor.array.itemsize} for the last coordinate",
        )
    if stores and min(coords) < 0:
        raise InvalidValue(
            f"a TMA store to tensor {tensor.name!r} starts at {coords}, before the tensor: expected"
            " coordinates of at least 0",
            loc,
            hint="only loads may start before a tensor",
        )


def _start_store(part: Part, store: Store) -> None:
    check_coordinates(store.tensor, store.coords, True, store.loc)
    part.bulk.mark(store)
    part.bulk.open.append(store)
    part.block.start(store)
    part.block.result.tma_stores += 1
    part.block.result.tma_store_bytes += store.source.nbytes


@step(protocol.TmaStoreBuffer)
def _store_buffer(cx: Compiler, op: protocol.TmaStoreBuffer) -> Step:
    source, tensor, coords = cx.slot(op.buffer), cx.slot(op.tensor), cx.slots(op.coords)
    box, loc = op.box, op.loc

    def run(part: Part) -> Signal:
        registers = part.registers
        buffer: Buffer = registers[source]
        if buffer.contents[box] != "visible":
            raise InternalError(
                f"{part.label} stores box {box} of {buffer.name}, whose contents are"
                f" {buffer.contents[box]}: expected a write, a proxy fence and a meeting of the"
                " part's threads before",
                loc,
            )
        buffer.readers[box] += 1
        at = tuple([registers[coord] for coord in coords])
        _start_store(part, Store(registers[tensor], at, buffer.boxes[box], loc, buffer, box))
        return None

    return run


@step(protocol.TmaStoreShared)
def _store_shared(cx: Compiler, op: protocol.TmaStoreShared) -> Step:
    source, tensor, coords = cx.slot(op.tile), cx.slot(op.tensor), cx.slots(op.coords)
    loc = op.loc

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers = part.registers
            at = tuple([registers[coord] for coord in coords])
            _start_store(part, Store(registers[tensor], at, registers[source].array, loc))
        return None

    return run


@step(protocol.BulkCommit)
def _commit(cx: Compiler, op: protocol.BulkCommit) -> Step:
    elect = op.elect

    def run(part: Part) -> Signal:
        if part.elected(elect):
            part.bulk.commit()
        return None

    return run


@step(protocol.BulkWait)
def _wait(cx: Compiler, op: protocol.BulkWait) -> Step:
    elect, pending, read = op.elect, op.pending, op.read

    def run(part: Part) -> Signal:
        if part.elected(elect):
            part.bulk.wait(pending, read=read)
        return None

    return run


# ------------------------------------------------------------------------ staging buffers


@step(protocol.StagingBuffer)
def _buffer(cx: Compiler, op: protocol.StagingBuffer) -> Step:
    out, name, kind, loc = cx.slot(op.result), op.name, op.buffer, op.loc

    def run(part: Part) -> Signal:
        buffer = part.buffers.get(name)
        if buffer is None:
            buffer = part.block.memory.buffer(name, kind, part.index, loc)
            part.buffers[name] = buffer
        part.registers[out] = buffer
        return None

    return run


@step(protocol.StagingWrite)
def _write(cx: Compiler, op: protocol.StagingWrite) -> Step:
    value, target, loc = cx.slot(op.value), cx.slot(op.buffer), op.loc
    kind = op.buffer.type
    assert isinstance(kind, BufferType)
    columns = kind.shape[1]
    boxes = range(op.first_box, op.first_box + op.boxes)
    first_column = op.column

    def run(part: Part) -> Signal:
        source = ready_tile(part.registers[value], loc)
        buffer: Buffer = part.registers[target]
        column = first_column
        for box in boxes:
            if buffer.readers[box]:
                raise InternalError(
                    f"{part.label} writes box {box} of {buffer.name} while a TMA store may still"
                    " read it: expected a bulk.wait and a meeting of the part's threads before",
                    loc,
                )
            buffer.boxes[box][...] = source[:, column : column + columns]
            buffer.contents[box] = "written"
            column += columns
        return None

    return run
