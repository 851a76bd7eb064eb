"""Small helpers that the passes share: rewriting a block in order, constants, liveness."""

from __future__ import annotations

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Builder, Effect, Op, Value, users
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control
from tiledsl.errors import Loc


class Emitter(Builder):
    """A builder with the shorthands that expansions need; every operation gets ``loc``."""

    def const(self, value: int | float | bool, dtype: DType = dtypes.int32) -> Value:
        return self.value(arith.Constant(value, dtype))

    def binary(self, kind: str, lhs: Value, rhs: Value | int, name: str = "") -> Value:
        if isinstance(rhs, int):
            rhs = self.const(rhs, arith.element_type(lhs.type))
        return self.value(arith.Binary(kind, lhs, rhs), name)

    def equal(self, lhs: Value, rhs: int) -> Value:
        return self.value(arith.Compare("eq", lhs, self.const(rhs, arith.element_type(lhs.type))))

    def select(self, condition: Value, true: Value, false: Value, name: str = "") -> Value:
        return self.value(arith.Select(condition, true, false), name)


def emitter(loc: Loc) -> Emitter:
    """An emitter into a fresh block, whose ``block.ops`` replace the operation being expanded."""
    return Emitter(Block(), loc)


def blocks_of(block: Block) -> list[Block]:
    """``block`` and every block nested in it."""
    found = [block]
    for op in block.ops:
        for nested in op.blocks:
            found += blocks_of(nested)
    return found


def remove_dead(kernel: Kernel) -> None:
    """Remove pure and reading operations whose results nobody uses."""
    while _remove_dead_once(kernel):
        pass


def _remove_dead_once(kernel: Kernel) -> bool:
    used = users(kernel.body)
    changed = False
    for block in blocks_of(kernel.body):
        kept = [op for op in block.ops if op.is_terminator or not _dead(op, used)]
        changed |= len(kept) != len(block.ops)
        block.ops = kept
    return changed


def _dead(op: Op, used: dict[Value, list[Op]]) -> bool:
    return _removable(op) and not any(result in used for result in op.results)


def _removable(op: Op) -> bool:
    """Whether nothing but its results tells that the operation was run."""
    if isinstance(op, control.If):
        return all(_removable(inner) for block in op.blocks for inner in block.ops)
    return op.effect in (Effect.PURE, Effect.READ) or isinstance(op, control.Yield)
