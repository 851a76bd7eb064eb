"""Values, blocks and operations: the one class hierarchy that all levels of the IR share.

An operation is a small dataclass. Its fields say what they are::

    @define("mbarrier.wait", levels=PROTOCOL, effect=Effect.SYNC)
    class MbarrierWait(Op):
        barrier: Value = operand()
        parity: Value = operand()

From that the base class derives operands, printing, cloning and operand replacement. Results
are declared by ``result_types``; what an operation demands of its operands by ``verify``.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from tiledsl.codegen.ir.types import Type
from tiledsl.errors import UNKNOWN_LOC, Loc


class Level(enum.Enum):
    """How far a kernel has been brought down."""

    TILE = "tile"
    MIXED = "mixed"  # between the two, while passes bring it down: every operation is legal
    PROTOCOL = "protocol"


TILE = frozenset({Level.TILE})
PROTOCOL = frozenset({Level.PROTOCOL})
ANY_LEVEL = TILE | PROTOCOL


class Effect(enum.Enum):
    """What an operation does besides computing its results."""

    PURE = "pure"  # may be removed when unused, moved and merged
    READ = "read"  # reads memory: may be removed when unused
    WRITE = "write"  # writes memory or prints
    SYNC = "sync"  # waits, signals or fences: nothing may move across
    CONTROL = "control"  # owns blocks or ends one


class Value:
    """An SSA value: the result of an operation or the argument of a block."""

    __slots__ = ("loc", "name", "owner", "type")

    def __init__(self, type: Type, loc: Loc = UNKNOWN_LOC, name: str = "") -> None:
        self.type = type
        self.loc = loc
        self.name = name  # a hint for the printer; need not be unique
        self.owner: Op | Block | None = None

    def __repr__(self) -> str:
        return f"<Value %{self.name or '?'}: {self.type}>"


class Block:
    """A list of operations with arguments. The last operation is the terminator, if any."""

    __slots__ = ("args", "ops")

    def __init__(self, args: Sequence[Value] = ()) -> None:
        self.args = list(args)
        self.ops: list[Op] = []
        for arg in self.args:
            arg.owner = self

    def add_arg(self, type: Type, loc: Loc = UNKNOWN_LOC, name: str = "") -> Value:
        arg = Value(type, loc, name)
        arg.owner = self
        self.args.append(arg)
        return arg

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].is_terminator else None

    def walk(self) -> Iterator[Op]:
        """Every operation in this block and the blocks nested in it, in program order."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


_KIND = "tiledsl.ir.kind"


def operand() -> Any:
    """A field that holds one Value."""
    return dataclasses.field(metadata={_KIND: "operand"})


def operands(*, default: Any = dataclasses.MISSING, kw_only: bool = False) -> Any:
    """A field that holds a tuple of Values. One that may be empty is given by its name."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={_KIND: "operands"})


def attribute(*, default: Any = dataclasses.MISSING) -> Any:
    """A field that holds a compile-time value."""
    return dataclasses.field(default=default, metadata={_KIND: "attribute"})


def nested_block() -> Any:
    """A field that holds a Block."""
    return dataclasses.field(metadata={_KIND: "block"})


OPS: dict[str, type[Op]] = {}
_OpT = TypeVar("_OpT", bound="type[Op]")


@dataclass_transform(
    field_specifiers=(operand, operands, attribute, nested_block), eq_default=False
)
def define(
    opcode: str,
    *,
    levels: frozenset[Level] = ANY_LEVEL,
    effect: Effect = Effect.PURE,
    terminator: bool = False,
    needs: str | None = None,
) -> Callable[[_OpT], _OpT]:
    """Turn a class body into an operation.

    Args:
        opcode: the printed name, ``family.verb``.
        levels: the levels at which the operation is legal.
        effect: what it does besides computing its results.
        terminator: whether it ends a block.
        needs: the feature that a target must have (a key of ``nvptx.targets``), or None.
    """

    def decorate(cls: _OpT) -> _OpT:
        made: Any = dataclasses.dataclass(eq=False, repr=False)(cls)
        result: _OpT = made
        if opcode in OPS:
            raise ValueError(f"operation {opcode!r} defined twice: {OPS[opcode]} and {cls}")
        kinds: dict[str, str] = {}
        for field in dataclasses.fields(made):
            kind = field.metadata.get(_KIND)
            if kind is None:
                raise TypeError(
                    f"{cls.__name__}.{field.name} must be operand(), operands(), attribute()"
                    " or nested_block()"
                )
            kinds[field.name] = kind
        result.opcode = opcode
        result.levels = levels
        result.effect = effect
        result.is_terminator = terminator
        result.needs = needs
        result.field_kinds = kinds
        OPS[opcode] = result
        return result

    return decorate


class Op:
    """Base of all operations."""

    opcode: ClassVar[str] = ""
    levels: ClassVar[frozenset[Level]] = ANY_LEVEL
    effect: ClassVar[Effect] = Effect.PURE
    is_terminator: ClassVar[bool] = False
    needs: ClassVar[str | None] = None
    field_kinds: ClassVar[dict[str, str]] = {}

    loc: Loc
    results: tuple[Value, ...]

    def __post_init__(self) -> None:
        self.loc = UNKNOWN_LOC
        self.results = ()
        for type in self.result_types():
            self._add_result(type)

    def _add_result(self, type: Type) -> Value:
        value = Value(type, self.loc)
        value.owner = self
        self.results += (value,)
        return value

    def result_types(self) -> Sequence[Type]:
        """Types of the results, from operands and attributes."""
        return ()

    def verify(self) -> None:
        """Raise ``ValueError`` when the operands or attributes do not fit together."""

    @property
    def result(self) -> Value:
        (value,) = self.results
        return value

    @property
    def operands(self) -> list[Value]:
        """Operands in field order."""
        found: list[Value] = []
        for name, kind in self.field_kinds.items():
            if kind == "operand":
                found.append(getattr(self, name))
            elif kind == "operands":
                found.extend(getattr(self, name))
        return found

    @property
    def attributes(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n, kind in self.field_kinds.items() if kind == "attribute"}

    @property
    def blocks(self) -> list[Block]:
        return [getattr(self, n) for n, kind in self.field_kinds.items() if kind == "block"]

    def replace_operands(self, mapping: Mapping[Value, Value]) -> None:
        """Substitute operands of this operation (not of nested blocks)."""
        for name, kind in self.field_kinds.items():
            if kind == "operand":
                old = getattr(self, name)
                setattr(self, name, mapping.get(old, old))
            elif kind == "operands":
                setattr(self, name, tuple(mapping.get(v, v) for v in getattr(self, name)))

    def at(self, loc: Loc, name: str = "") -> Self:
        """Set the location and, for a single result, its name hint. Returns self."""
        self.loc = loc
        for result in self.results:
            result.loc = loc
            if name:
                result.name = name
        return self

    def __repr__(self) -> str:
        return f"<{self.opcode} at {self.loc.short()}>"


def replace_uses(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Substitute values in every operation of ``block``, nested blocks included."""
    for op in block.walk():
        op.replace_operands(mapping)


def users(block: Block) -> dict[Value, list[Op]]:
    """Every value used in ``block`` (nested blocks included) with the operations that use it."""
    found: dict[Value, list[Op]] = {}
    for op in block.walk():
        for value in op.operands:
            found.setdefault(value, []).append(op)
    return found


class Builder:
    """Appends operations to a block, stamping each with the current location."""

    def __init__(self, block: Block, loc: Loc = UNKNOWN_LOC) -> None:
        self.block = block
        self.loc = loc

    def add(self, op: _AnyOp, name: str = "") -> _AnyOp:
        op.at(self.loc, name)
        self.block.ops.append(op)
        return op

    def value(self, op: Op, name: str = "") -> Value:
        """Append ``op`` and return its only result."""
        return self.add(op, name).result


_AnyOp = TypeVar("_AnyOp", bound=Op)
