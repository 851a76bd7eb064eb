"""Bytes on the user's own mbarriers: what ``arrive_and_expect_bytes`` announces must come.

The user may announce in one place and load in another, so only what is certain is refused: bytes
that nobody announces, bytes that no load brings, and, where all of a barrier's announcements and
loads stand in one piece of code without branches between them, two sums that differ. A phase with
bytes left over never ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tiledsl.codegen.checks.evaluate import Known
from tiledsl.codegen.checks.stages import BULK_LOADS, Guards, list_loads, tile_bytes, uncast
from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.kernel import Kernel, roles_of
from tiledsl.codegen.ir.ops import control, protocol, sync
from tiledsl.errors import StageError

_WAYS_OUT = (control.Continue, control.Break, control.Leave, control.Return)


@dataclass(slots=True)
class _Touched:
    """What announces and what brings bytes on one row of mbarriers, or on one of the row."""

    name: str
    expects: list[Op] = field(default_factory=list)
    loads: list[Op] = field(default_factory=list)
    bodies: list[Block] = field(default_factory=list)  # of the roles in which that happens

    @property
    def ops(self) -> set[Op]:
        return {*self.expects, *self.loads}


def check_raw_bytes(kernel: Kernel) -> None:
    """Raise ``StageError`` for an mbarrier whose announced and loaded bytes certainly differ."""
    rows: dict[Value, _Touched] = {}
    single: dict[tuple[Value, int], _Touched] = {}
    vague: set[Value] = set()  # rows of which a barrier is taken that is only known at run time
    doubtful: set[Value] = set()  # rows that share a value with another barrier
    for _, body in roles_of(kernel):
        guards = Guards(body)
        for op in body.walk():
            if not isinstance(op, (*BULK_LOADS, protocol.MbarrierArriveExpectTx)):
                continue
            origins = guards.origins(op.barrier)
            found = {at.barriers for at in origins if isinstance(at, sync.MbarrierAt)}
            if len(found) > 1 or any(not isinstance(at, sync.MbarrierAt) for at in origins):
                doubtful |= found
            for at in origins:
                if not isinstance(at, sync.MbarrierAt):
                    continue
                name = _name(at.barriers)
                _add(rows.setdefault(at.barriers, _Touched(name)), op, body)
                index = Known().get(uncast(at.index))
                if index is None or len(origins) > 1:
                    vague.add(at.barriers)
                else:
                    what = f"{name}[{index}]" if _number(at.barriers) > 1 else name
                    _add(single.setdefault((at.barriers, index), _Touched(what)), op, body)
    for row, touched in rows.items():
        if row in doubtful:
            continue
        if row in vague:
            _check(touched)
        else:
            for (of, _), one in single.items():
                if of is row:
                    _check(one)


def _name(row: Value) -> str:
    owner = row.owner
    return owner.name if isinstance(owner, sync.MbarrierCreate) else row.name


def _number(row: Value) -> int:
    owner = row.owner
    return owner.number if isinstance(owner, sync.MbarrierCreate) else 1


def _add(touched: _Touched, op: Op, body: Block) -> None:
    known = touched.expects if isinstance(op, protocol.MbarrierArriveExpectTx) else touched.loads
    if op not in known:
        known.append(op)
    if body not in touched.bodies:
        touched.bodies.append(body)


def _check(touched: _Touched) -> None:
    if not touched.expects:
        raise StageError(
            f"loads complete on mbarrier {touched.name!r}, and nothing announces their bytes:"
            " its phase would never end",
            touched.loads[0].loc,
            notes=list_loads((load, 1) for load in touched.loads),
            hint="call arrive_and_expect_bytes(n) on it, with the bytes of all loads of a phase",
        )
    announced = sum(_bytes(op) for op in touched.expects)
    if not touched.loads:
        if announced:
            raise StageError(
                f"{announced} bytes are announced on mbarrier {touched.name!r}, and no load"
                " completes on it: its phase would never end",
                touched.expects[0].loc,
                hint="pass this barrier to the load, or call arrive() instead",
            )
        return
    if len(touched.bodies) > 1:
        return
    block = _innermost(touched.bodies[0], touched.ops)
    left = _net(block, touched.ops)
    if left:
        brought = sum(tile_bytes(op) for op in touched.loads)
        raise StageError(
            f"arrive_and_expect_bytes announces {announced} bytes on mbarrier {touched.name!r},"
            f" and the loads that complete on it bring {brought}: its phase would never end, or end"
            " too early",
            touched.expects[0].loc,
            notes=list_loads((load, 1) for load in touched.loads),
            hint=f"announce {brought} bytes"
            if announced - brought == left and len(touched.expects) == 1
            else "announce what the loads of one phase bring",
        )


def _bytes(op: Op) -> int:
    return op.nbytes if isinstance(op, protocol.MbarrierArriveExpectTx) else -tile_bytes(op)


def _holds(op: Op, ops: set[Op]) -> bool:
    return op in ops or any(inner in ops for block in op.blocks for inner in block.walk())


def _innermost(block: Block, ops: set[Op]) -> Block:
    """The innermost block that all of the operations stand in."""
    holders = [op for op in block.ops if _holds(op, ops)]
    if len(holders) == 1:
        blocks = [b for b in holders[0].blocks if any(inner in ops for inner in b.walk())]
        if len(blocks) == 1:
            return _innermost(blocks[0], ops)
    return block


def _net(block: Block, ops: set[Op]) -> int | None:
    """Bytes announced less those brought by one run of a block; None: not known."""
    return _sum(_net_of(op, ops) for op in block.ops)


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _net_of(op: Op, ops: set[Op]) -> int | None:
    if op in ops:
        return _bytes(op)
    if isinstance(op, control.If):
        if any(isinstance(block.terminator, _WAYS_OUT) for block in op.blocks):
            return None  # what follows may not run
        then, orelse = (_net(block, ops) for block in op.blocks)
        return then if then == orelse else None
    if not op.blocks:
        return 0
    (body,) = op.blocks
    ways_out = (inner for inner in body.walk() if isinstance(inner, _WAYS_OUT))
    if any(inner is not body.terminator for inner in ways_out):
        return None if _holds(op, ops) else 0
    net = _net(body, ops)
    if not net:
        return net
    trips = _trips(op)
    return None if trips is None else trips * net


def _trips(op: Op) -> int | None:
    if isinstance(op, control.Scope):
        return 1
    if not isinstance(op, control.For) or not isinstance(op.body.terminator, control.Continue):
        return None
    known = Known()
    bounds = [known.get(value) for value in (op.start, op.stop, op.step)]
    if None in bounds or not bounds[2]:
        return None
    return len(range(*(int(bound or 0) for bound in bounds)))
