"""Layouts of register tiles of rank 1: which of them hold a value per row, which one per column.

A tile of rank 1 lies as its use wants it: ``x[:, None]`` needs a value per row where a thread
has that row, ``x[None, :]`` a value per column. Tiles that meet element by element, or in one
variable of a loop, must lie alike, so they form classes (union-find), and each class takes the
layout that its broadcasts ask for. One that is never broadcast holds a value per column.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Block, Op, Value
from tiledsl.codegen.ir.layouts import MMA_ROWS, SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import arith, control, memory
from tiledsl.codegen.ir.types import Tile
from tiledsl.errors import Loc, TypeMismatch

_ELEMENTWISE = (arith.Binary, arith.Compare, arith.Unary, arith.Cast, arith.Select)
_WORDS = {0: "a value per column (x[None, :])", 1: "a value per row (x[:, None])"}


def slice_layouts(body: Block, parts: int, role: str) -> dict[Value, SliceLayout]:
    """The layout of every tile of rank 1 in a role of ``parts`` warpgroups.

    Raises:
        TypeMismatch: a tile that is used both along rows and along columns; an extent that does
            not fit.
    """
    classes = _Classes()
    for op in body.walk():
        _join(op, classes)
        for result in op.results:
            classes.note(result)
        for block in op.blocks:
            for arg in block.args:
                classes.note(arg)
    wanted: dict[Value, tuple[int, Loc]] = {}
    for op in body.walk():
        if isinstance(op, memory.Broadcast):
            root = classes.find(op.value)
            axis, loc = wanted.setdefault(root, (op.axis, op.loc))
            if axis != op.axis:
                raise TypeMismatch(
                    f"this tile is {_WORDS[op.axis]} here: expected one use only, it is also"
                    f" {_WORDS[axis]}",
                    op.loc,
                    notes=(("used the other way here", loc), ("made here", op.value.loc)),
                    hint="make the tile twice, once for each use",
                )
    return {
        value: _layout(value, wanted.get(classes.find(value), (0, value.loc))[0], parts, role)
        for value in classes.values
    }


def _layout(value: Value, axis: int, parts: int, role: str) -> SliceLayout:
    assert isinstance(value.type, Tile)
    (extent,) = value.type.shape
    # The parent's other extent does not matter: the smallest makes equal slices compare equal.
    if axis == 0:
        if extent % 8:
            raise TypeMismatch(
                f"a register tile with a value per column needs a multiple of 8 columns, got shape"
                f" {value.type.shape}",
                value.loc,
            )
        return SliceLayout(WgmmaFragment(parts, MMA_ROWS, extent), axis)
    if extent % (MMA_ROWS * parts):
        raise TypeMismatch(
            f"a register tile with a value per row needs a multiple of {MMA_ROWS * parts} rows in"
            f" role {role!r}, got shape {value.type.shape}",
            value.loc,
        )
    return SliceLayout(WgmmaFragment(parts, extent // parts, 8), axis)


def _is_slice(value: Value) -> bool:
    return isinstance(value.type, Tile) and len(value.type.shape) == 1


class _Classes:
    """Tiles of rank 1 that must lie alike."""

    def __init__(self) -> None:
        self.parents: dict[Value, Value] = {}

    @property
    def values(self) -> list[Value]:
        return list(self.parents)

    def note(self, value: Value) -> None:
        if _is_slice(value):
            self.parents.setdefault(value, value)

    def find(self, value: Value) -> Value:
        self.parents.setdefault(value, value)
        while self.parents[value] is not value:
            value = self.parents[value]
        return value

    def unite(self, *values: Value) -> None:
        slices = [value for value in values if _is_slice(value)]
        for value in slices[1:]:
            self.parents[self.find(value)] = self.find(slices[0])


def _join(op: Op, classes: _Classes) -> None:
    if isinstance(op, _ELEMENTWISE):
        classes.unite(*op.operands, *op.results)
    elif isinstance(op, control.For | control.Loop):
        args = op.body.args[1:] if isinstance(op, control.For) else op.body.args
        _join_ends(op.body, (control.Continue, control.Break), args, classes)
        for init, arg, result in zip(op.inits, args, op.results, strict=True):
            classes.unite(init, arg, result)
    elif isinstance(op, control.If):
        for block in (op.then, op.orelse):
            if isinstance(block.terminator, control.Yield):
                for group in zip(block.terminator.values, op.results, strict=True):
                    classes.unite(*group)
    elif isinstance(op, control.Scope):
        _join_ends(op.body, (control.Leave,), list(op.results), classes)


_Ends = tuple[type[control.Continue] | type[control.Break] | type[control.Leave], ...]


def _join_ends(block: Block, kinds: _Ends, values: list[Value], classes: _Classes) -> None:
    """Unite what ends a loop or scope with ``values``, wherever below it the end stands."""
    for op in block.ops:
        if isinstance(op, kinds):
            for group in zip(op.values, values, strict=True):
                classes.unite(*group)
        elif isinstance(op, control.If) or (
            isinstance(op, control.For | control.Loop) and kinds == (control.Leave,)
        ):
            for nested in op.blocks:
                _join_ends(nested, kinds, values, classes)
