"""Structured values as leaves and a key: how they are merged after branches and carried by loops.

``flatten((x, 3))`` gives the leaves ``[x, 3]`` and a key that says "a tuple of two". Two values
with equal keys can be merged leaf by leaf: leaves that are the same stay as they are, numbers
that differ become run-time values, and anything else cannot be merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.ops.arith import Full
from tiledsl.codegen.ir.types import Scalar, Tile, Type
from tiledsl.frontend import arithmetic
from tiledsl.frontend.objects import TracedObject

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context

Leaf = Value | bool | int | float

# ------------------------------------------------------------------------------- structure


class Key:
    """What a flattened value is, besides its leaves; equal keys can be merged."""

    def build(self, leaves: Iterator[Any]) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LeafKey(Key):
    """A run-time value or a number."""

    def build(self, leaves: Iterator[Any]) -> Any:
        return next(leaves)


@dataclass(frozen=True, slots=True, eq=False)
class ConstKey(Key):
    """Any other compile-time object."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstKey) and same_constant(self.value, other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))

    def build(self, leaves: Iterator[Any]) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class SequenceKey(Key):
    """A tuple (named or not) or list."""

    type: type
    items: tuple[Key, ...]

    def build(self, leaves: Iterator[Any]) -> Any:
        items = [item.build(leaves) for item in self.items]
        if hasattr(self.type, "_make"):
            return self.type._make(items)
        return self.type(items)


@dataclass(frozen=True, slots=True)
class DictKey(Key):
    names: tuple[Any, ...]
    items: tuple[Key, ...]

    def build(self, leaves: Iterator[Any]) -> Any:
        return {name: item.build(leaves) for name, item in zip(self.names, self.items, strict=True)}


@dataclass(frozen=True, slots=True)
class RecordKey(Key):
    """An instance of a user's class, as its attributes."""

    type: type
    names: tuple[str, ...]
    items: tuple[Key, ...]

    def build(self, leaves: Iterator[Any]) -> Any:
        made: Any = object.__new__(self.type)
        for name, item in zip(self.names, self.items, strict=True):
            object.__setattr__(made, name, item.build(leaves))
        return made


@dataclass(frozen=True, slots=True, eq=False)
class TracedKey(Key):
    """An object of the language, such as a pipeline's stage."""

    traced: TracedObject
    inner: Any
    count: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TracedKey)
            and type(self.traced) is type(other.traced)
            and self.count == other.count
            and same_constant(self.inner, other.inner)
        )

    def __hash__(self) -> int:
        return hash(type(self.traced))

    def build(self, leaves: Iterator[Any]) -> Any:
        return self.traced.unflatten([next(leaves) for _ in range(self.count)])


@dataclass(frozen=True, slots=True, eq=False)
class ObjectKey(Key):
    """A mutable object that stays the very one, so that aliases stay aliases.

    What it holds is merged by itself.
    """

    object: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self.object is other.object

    def __hash__(self) -> int:
        return id(self.object)

    def build(self, leaves: Iterator[Any]) -> Any:
        return self.object


LEAF = LeafKey()


def same_constant(a: Any, b: Any) -> bool:
    """Whether two compile-time objects are the same, or equal and of one type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:  # arrays and the like have no single truth
        return False


def is_record(x: object) -> bool:
    """Whether ``x`` is an instance whose attributes may be run-time values."""
    return (
        dataclasses.is_dataclass(x)
        and not isinstance(x, type | TracedObject | DType)
        and contains_value(x)
    )


def fields_of(x: Any) -> dict[str, Any]:
    """The attributes of an instance, slots included."""
    if dataclasses.is_dataclass(x):
        names = [f.name for f in dataclasses.fields(x) if hasattr(x, f.name)]
        extra = [n for n in getattr(x, "__dict__", {}) if n not in names]
        return {name: getattr(x, name) for name in (*names, *extra)}
    return dict(getattr(x, "__dict__", {}))


def contains_value(x: Any, depth: int = 0) -> bool:
    """Whether a run-time value is found in ``x``, at any depth of Python's containers."""
    if isinstance(x, Value):
        return True
    if depth > 20 or isinstance(x, bool | int | float | str | type | DType) or x is None:
        return False
    if isinstance(x, TracedObject):
        return bool(x.flatten()[0])
    if isinstance(x, tuple | list | set | frozenset):
        return any(contains_value(item, depth + 1) for item in x)
    if isinstance(x, dict):
        return any(contains_value(item, depth + 1) for item in x.values())
    if dataclasses.is_dataclass(x):
        return any(contains_value(item, depth + 1) for item in fields_of(x).values())
    return False


def flatten_contents(cx: Context, contents: Any, leaves: list[Leaf], others: Sequence[Any]) -> Key:
    """As ``flatten``, for a copy of what a mutable object holds.

    Objects that all ``others``, copies from other paths, hold at the same place stay the same.
    """

    def item(place: Any, x: Any) -> Key:
        if cx.is_made_here(x) and all(_at(other, place) is x for other in others):
            return ObjectKey(x)
        return flatten(cx, x, leaves)

    if isinstance(contents, list):
        return SequenceKey(list, tuple(item(i, x) for i, x in enumerate(contents)))
    return DictKey(tuple(contents), tuple(item(name, x) for name, x in contents.items()))


def _at(contents: Any, place: Any) -> Any:
    try:
        return contents[place]
    except LookupError:
        return None


def flatten(cx: Context, x: Any, leaves: list[Leaf]) -> Key:
    """Append the leaves of ``x`` and return its key."""
    if isinstance(x, Value) or type(x) in (bool, int, float):
        leaves.append(x)
        return LEAF
    if isinstance(x, TracedObject):
        inner, key = x.flatten()
        leaves.extend(inner)
        return TracedKey(x, key, len(inner))
    if isinstance(x, tuple | list):
        return SequenceKey(type(x), tuple(flatten(cx, item, leaves) for item in x))
    if type(x) is dict:
        return DictKey(tuple(x), tuple(flatten(cx, item, leaves) for item in x.values()))
    if is_record(x) or cx.is_made_here(x):
        fields = fields_of(x)
        return RecordKey(
            type(x), tuple(fields), tuple(flatten(cx, item, leaves) for item in fields.values())
        )
    return ConstKey(x)


def unflatten(cx: Context, key: Key, leaves: list[Any]) -> Any:
    """The value again, around other leaves. Lists, dicts and records in it are new objects."""
    made = key.build(iter(leaves))
    register(cx, made)
    return made


def register(cx: Context, x: Any) -> None:
    """Enter the mutable objects in ``x`` into the heap of the trace."""
    if isinstance(x, tuple | list):
        for item in x:
            register(cx, item)
    elif type(x) is dict:
        for item in x.values():
            register(cx, item)
    elif is_record(x):
        for item in fields_of(x).values():
            register(cx, item)
    if type(x) in (list, dict) or is_record(x):
        cx.made(x)


# ------------------------------------------------------------------------------ leaf types


@dataclass(frozen=True, slots=True)
class LeafType:
    """The IR type that a leaf has or takes.

    ``weak`` types stem from literals and adapt to the other side; ``number`` is the literal.
    """

    type: Type
    weak: bool = False
    number: float | None = None

    def __str__(self) -> str:
        return str(self.type.dtype) if isinstance(self.type, Scalar) else str(self.type)


def leaf_type(cx: Context, leaf: Leaf) -> LeafType | None:
    """The type of a leaf; None for an integer that fits no dtype."""
    if isinstance(leaf, Value):
        return LeafType(leaf.type, leaf in cx.weak)
    dtype = arithmetic.natural_dtype(leaf)
    if dtype is None:
        return None
    return LeafType(Scalar(dtype), not isinstance(leaf, bool), leaf)


def join(a: LeafType | None, b: LeafType | None) -> LeafType | None:
    """The type that holds both leaves without loss, or None.

    Integers widen to integers and floats to floats, as in ``dtypes.promote``; a literal adapts;
    a run-time integer does not become a float by itself.
    """
    if a is None or b is None:
        return None
    if a.type == b.type:
        return LeafType(a.type, a.weak and b.weak, a.number if a.number == b.number else None)
    if not isinstance(a.type, Scalar) or not isinstance(b.type, Scalar):
        return None
    left, right = a.type.dtype, b.type.dtype
    if a.weak and b.weak:
        dtype = dtypes.promote(left, right)
        return None if dtype is None else LeafType(Scalar(dtype), True)
    for weak, strong in ((a, right), (b, left)):
        if weak.weak and strong.kind != "bool":
            assert isinstance(weak.type, Scalar)
            if weak.type.dtype.is_float and not strong.is_float:
                return None  # an integer variable that is assigned 0.5
            number = weak.number if weak.number is not None else 0
            adapted = arithmetic.beside(number, strong)
            return None if adapted is None else LeafType(Scalar(adapted))
    bools = "bool" in (left.kind, right.kind)
    if not bools and left.is_float != right.is_float:
        return None
    dtype = dtypes.promote(left, right)
    return None if dtype is None else LeafType(Scalar(dtype))


def leaf_as(cx: Context, leaf: Leaf, type: Type) -> Value:
    """A leaf as a run-time value of ``type``, which ``join`` found for it."""
    if isinstance(leaf, Value):
        if leaf.type == type:
            return leaf
        assert isinstance(type, Scalar)
        return arithmetic.cast(cx, leaf, type.dtype)
    assert isinstance(type, Scalar)
    return cx.constant(leaf, type.dtype)


def can_be_anything(type: Type) -> bool:
    """Whether ``anything`` makes a value of this type."""
    return isinstance(type, Scalar | Tile)


def anything(cx: Context, type: Type) -> Value:
    """A value for a place that nobody reads."""
    if isinstance(type, Tile):
        return cx.emit(Full(cx.constant(0, type.dtype), type.shape))
    assert isinstance(type, Scalar)
    return cx.constant(0, type.dtype)


def same_leaf(a: Leaf, b: Leaf) -> bool:
    """Whether two leaves need no merging: one value, or one number of one type."""
    if a is b:
        return True
    if isinstance(a, Value) or isinstance(b, Value):
        return False
    return type(a) is type(b) and repr(a) == repr(b)
