"""TMA stores from shared memory, staging buffers and bulk groups.

A store reads its source at some moment after its issue, and writes to global memory later still.
The part that issued it learns of the first from ``bulk.wait read`` and of the second from
``bulk.wait``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops import protocol
from tiledsl.codegen.ir.types import BufferType, TensorType
from tiledsl.errors import InternalError, InvalidValue, Loc
from tiledsl.runtime.emulator.arith import binary_function
from tiledsl.runtime.emulator.boxes import box_of, combine_box, store_box
from tiledsl.runtime.emulator.compile import Compiler, Signal, Step, step
from tiledsl.runtime.emulator.copies import check_coordinates
from tiledsl.runtime.emulator.machine import Part
from tiledsl.runtime.emulator.memory import Buffer, SharedArray, Tensor
from tiledsl.runtime.emulator.values import Array
from tiledsl.runtime.emulator.wgmma import ready_tile

# What a reducing store makes of what is there and what it brings. A NaN loses against a number in
# min and max.
_REDUCE_FLOATS: dict[str, Callable[..., Any]] = {"min": np.fmin, "max": np.fmax}


def _reduction(kind: str, dtype: DType) -> Callable[[Array, Array], Array]:
    if dtype.is_float and kind in _REDUCE_FLOATS:
        return _REDUCE_FLOATS[kind]
    function: Callable[[Array, Array], Array] = binary_function(kind, dtype, tile=True)
    return function


@dataclass(eq=False, slots=True)
class Store:
    """A bulk tensor copy from shared memory: first it reads, then it writes."""

    tensor: Tensor
    coords: tuple[int, ...]
    source: Array
    loc: Loc
    reduce: str | None = None
    combine: Callable[[Array, Array], Array] | None = None
    buffer: Buffer | None = None
    box: int = 0
    data: Array | None = None
    done: bool = False
    flying: Array | None = None  # a view of the marks of what is on its way, see BulkQueue.mark
    forced: ClassVar[bool] = True

    def read(self) -> None:
        if self.data is None:
            self.data = self.source.copy()

    def write(self) -> None:
        if not self.done:
            self.read()
            assert self.data is not None
            if self.combine is None:
                store_box(self.tensor.array, self.coords, self.data)
            else:
                combine_box(self.tensor.array, self.coords, self.data, self.combine)
            if self.flying is not None:
                self.flying -= 1
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
        # By tensor and reduction: how many stores are on their way to each element.
        self._marks: dict[tuple[int, str | None], Array] = {}

    def mark(self, store: Store) -> None:
        """Note where a store goes.

        Raises:
            InvalidValue: another store of this part is still on its way there.
        """
        array, shape = store.tensor.array, store.source.shape
        key = id(array), store.reduce
        if key not in self._marks:
            self._marks[key] = np.zeros(array.shape, np.uint16)
        store.flying = box_of(self._marks[key], store.coords, shape)
        if store.flying is None:
            return
        for (other, kind), marks in self._marks.items():
            # Reductions of one kind may come in any order, if nothing else comes in between.
            if other != key[0] or (kind is not None and kind == store.reduce):
                continue
            on_the_way = box_of(marks, store.coords, shape)
            if on_the_way is not None and on_the_way.any():
                raise InvalidValue(
                    f"a TMA store to tensor {store.tensor.name!r} at {store.coords} reaches"
                    " elements that another store of this role is still on its way to: nothing"
                    " orders the two, expected each element to be stored once",
                    store.loc,
                    hint="keep the tile in registers and store it once",
                )
        store.flying += 1

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


def _start_store(part: Part, store: Store) -> None:
    check_coordinates(store.tensor, store.coords, True, store.loc)
    part.bulk.mark(store)
    part.bulk.open.append(store)
    part.block.start(store)
    part.block.result.tma_stores += 1
    part.block.result.tma_store_bytes += store.source.nbytes


def _combine(
    op: protocol.TmaStoreBuffer | protocol.TmaStoreShared,
) -> Callable[[Array, Array], Array] | None:
    assert isinstance(op.tensor.type, TensorType)
    return None if op.reduce is None else _reduction(op.reduce, op.tensor.type.dtype)


@step(protocol.TmaStoreBuffer)
def _store_buffer(cx: Compiler, op: protocol.TmaStoreBuffer) -> Step:
    source, tensor, coords = cx.slot(op.buffer), cx.slot(op.tensor), cx.slots(op.coords)
    box, loc, reduce, combine = op.box, op.loc, op.reduce, _combine(op)

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
        data = buffer.boxes[box]
        _start_store(part, Store(registers[tensor], at, data, loc, reduce, combine, buffer, box))
        return None

    return run


@step(protocol.TmaStoreShared)
def _store_shared(cx: Compiler, op: protocol.TmaStoreShared) -> Step:
    source, tensor, coords = cx.slot(op.tile), cx.slot(op.tensor), cx.slots(op.coords)
    loc, reduce, combine = op.loc, op.reduce, _combine(op)

    def run(part: Part) -> Signal:
        if part.elected("role"):
            registers = part.registers
            shared: SharedArray = registers[source]
            if shared.generic.writers:
                shared.generic.check(part, shared.name, "stores", loc)
            at = tuple([registers[coord] for coord in coords])
            _start_store(part, Store(registers[tensor], at, shared.array, loc, reduce, combine))
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
