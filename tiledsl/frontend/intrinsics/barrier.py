"""Raw mbarriers, and named barriers between roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import arith, sync
from tiledsl.codegen.ir.ops.protocol import (
    MbarrierArrive,
    MbarrierArriveExpectTx,
    MbarrierWait,
)
from tiledsl.codegen.ir.types import BarriersType, BarrierType, NamedBarrierType, Scalar
from tiledsl.frontend.intrinsics.arguments import index_of, integer, static_int
from tiledsl.frontend.intrinsics.cluster import size
from tiledsl.frontend.intrinsics.naming import ObjectName, expect_at_top
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import implements, method
from tiledsl.language import barrier as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

MAX_COUNT = 2**20 - 1  # arrivals of a phase, and bytes that it may wait for


@implements(language.mbarrier)
def mbarrier(cx: Context, count: object = None, number: object = None) -> Any:
    call = "td.mbarrier"
    arrivals = None
    if count is not None:
        arrivals = static_int(cx, count, f"{call}: count", least=1, most=MAX_COUNT)
    row = 1 if number is None else static_int(cx, number, f"{call}: number", least=1)
    expect_at_top(cx, call, "barrier")
    name = ObjectName(cx, sync.MbarrierCreate("mbarrier", row, arrivals))
    if number is not None:
        return Barriers(name)
    single = cx.emit(sync.MbarrierAt(name.value, cx.int32(0)))
    cx.on_assignment[single] = name.assigned
    return single


@dataclass(frozen=True, eq=False)
class Barriers(TracedObject):
    """A row of raw mbarriers: ``bars[i]``."""

    kind: ClassVar[str] = "row of mbarriers"
    properties: ClassVar[tuple[str, ...]] = ("number",)

    name: ObjectName

    def assigned(self, name: str) -> None:
        self.name.assigned(name)

    def attribute(self, cx: Context, name: str) -> Any:
        if name == "number":
            return self._number
        if name in ("arrive", "wait", "try_wait", "arrive_and_expect_bytes"):
            raise cx.type_error(
                f"{name}: expected one mbarrier, got a row of {self._number}",
                hint=f"write {self.name.value.name}[i].{name}(...)",
            )
        return super().attribute(cx, name)

    @property
    def _number(self) -> int:
        row = self.name.value.type
        assert isinstance(row, BarriersType)
        return row.number

    def item(self, cx: Context, index: Any) -> Value:
        at = row_index(cx, index, self._number, "a row of mbarriers")
        return cx.emit(sync.MbarrierAt(self.name.value, at), "barrier")


def row_index(cx: Context, index: object, number: int, what: str) -> Value:
    """The index of one of ``number`` objects, checked where it is known at compile time."""
    at = integer(cx, index, f"index of {what}")
    if not isinstance(at, Value) and not 0 <= at < number:
        raise cx.value_error(f"index of {what}: expected a number from 0 to {number - 1}, got {at}")
    return cx.int32(at)


@method(BarrierType, "__getitem__")
def item(cx: Context, barrier: Value, index: object) -> Value:
    raise cx.type_error(
        "expected a row of mbarriers, got a single one",
        hint="td.mbarrier(number=4) makes a row; the first argument is the count of arrivals",
    )


@method(BarrierType, "arrive")
def arrive(cx: Context, barrier: Value, rank: object = None) -> None:
    block = () if rank is None else (_rank(cx, rank),)
    cx.add(MbarrierArrive(barrier, (), rank=block, elect="role"))


def _rank(cx: Context, rank: object) -> Value:
    """The rank of a block in this kernel's cluster, checked where it is known at compile time."""
    if cx.cluster is None:
        raise cx.value_error(
            "arrive: rank: this kernel has no clusters",
            hint="write @td.kernel(cluster=(2, 1)), or leave the rank out",
        )
    number = integer(cx, rank, "arrive: rank")
    if not isinstance(number, Value) and not 0 <= number < size(cx):
        raise cx.value_error(
            f"arrive: rank: expected a number from 0 to {size(cx) - 1}, the blocks of a cluster"
            f" {cx.cluster}, got {number}"
        )
    return cx.int32(number)


@method(BarrierType, "arrive_and_expect_bytes")
def arrive_and_expect_bytes(cx: Context, barrier: Value, nbytes: object) -> None:
    what = "arrive_and_expect_bytes: nbytes"
    cx.add(MbarrierArriveExpectTx(barrier, static_int(cx, nbytes, what, least=0, most=MAX_COUNT)))


@method(BarrierType, "wait")
def wait(cx: Context, barrier: Value, parity: object) -> None:
    cx.add(MbarrierWait(barrier, _parity(cx, parity, "wait")))


@method(BarrierType, "try_wait")
def try_wait(cx: Context, barrier: Value, parity: object) -> Value:
    return cx.emit(sync.MbarrierTryWait(barrier, _parity(cx, parity, "try_wait")), "ready")


def _parity(cx: Context, parity: object, what: str) -> Value:
    """The lowest bit of a phase number: what else the hardware would take is not defined."""
    if isinstance(parity, bool):
        return cx.int32(int(parity))
    if isinstance(parity, Value) and parity.type == Scalar(dtypes.bool_):
        return cx.emit(arith.Cast(parity, dtypes.int32), "parity")
    number = index_of(parity)
    if number is not None:
        return cx.int32(number & 1)
    return cx.int32(cx.binary("and", integer(cx, parity, f"{what}: parity"), 1))


# ----------------------------------------------------------------------------- named barriers


@implements(language.named_barrier)
def named_barrier(cx: Context) -> Value:
    expect_at_top(cx, "td.named_barrier", "barrier")
    name = ObjectName(cx, sync.NamedCreate("named_barrier"))
    cx.on_assignment[name.value] = name.assigned
    return name.value


def _in_role(cx: Context, what: str) -> None:
    if cx.role is None:
        raise cx.syntax_error(
            f"{what}: a named barrier is between roles: expected it inside of one",
            hint="what stands before the roles needs no barrier: they begin when it is done",
        )


@method(NamedBarrierType, "sync")
def sync_(cx: Context, barrier: Value) -> None:
    _in_role(cx, "sync")
    cx.add(sync.NamedSync(barrier))


@method(NamedBarrierType, "wait")
def named_wait(cx: Context, barrier: Value) -> None:
    _in_role(cx, "wait")
    cx.add(sync.NamedSync(barrier))


@method(NamedBarrierType, "arrive")
def named_arrive(cx: Context, barrier: Value) -> None:
    _in_role(cx, "arrive")
    cx.add(sync.NamedArrive(barrier))
