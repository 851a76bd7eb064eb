"""Which roles need whole warpgroups, and the layout of every register tile in them.

A role that touches register tiles runs on all threads of its warpgroups; a role that copies with
``cp.async`` on all threads of its warps; every other role needs no more than one elected thread.
Tiles of rank 2 take the wgmma fragment layout. Tiles of rank 1 are slices of it: a value per row
or a value per column, as the broadcasts that use them say (``slice_layouts``). Sets the mode of
each role in ``kernel.plan`` and the layout in the types of the tiles.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.layouts import MMA_ROWS, SliceLayout, WgmmaFragment
from tiledsl.codegen.ir.ops import arith, control, copy, memory
from tiledsl.codegen.ir.plan import Plan, RolePlan
from tiledsl.codegen.ir.types import Tile, Type
from tiledsl.codegen.passes.slice_layouts import slice_layouts
from tiledsl.errors import Loc, ResourceLimit, TypeMismatch

DEFAULT_WARPS = 4
# Operations that carry the layout of the tile that they make.
MOST_ELEMENTS = 1024  # of a tile in a thread: four times what its 255 registers hold in float32

_MAKERS = (arith.Full, memory.SharedLoad, memory.TileLoad, memory.Iota, memory.Broadcast)


def infer_layouts(kernel: Kernel) -> None:
    """Fill ``kernel.plan.roles`` (without places) and give each register tile its layout."""
    kernel.plan = Plan()
    roles = {op.name: op for op in kernel.body.ops if isinstance(op, control.Role)}
    if roles:
        _refuse_tiles_outside(kernel)
    for name, body in roles_of(kernel):
        role = roles.get(name)
        warps = role.warps if role is not None else kernel.warps or DEFAULT_WARPS
        loc = role.loc if role is not None else kernel.loc
        tiles = _first_tile(body)
        if tiles is not None and warps % 4:
            raise ResourceLimit(
                f"role {name!r} computes with register tiles and so needs whole warpgroups:"
                f" expected a multiple of 4 warps, got {warps}",
                loc,
                notes=(("a register tile is made here", tiles.loc),),
                hint=f"write warps={-(-warps // 4) * 4}",
            )
        plan = RolePlan(name, warps, 0, _mode(body, tiles))
        kernel.plan.roles.append(plan)
        if tiles is not None:
            _assign(body, plan.parts, name)


def _first_tile(body: Block) -> Value | None:
    return next((r for op in body.walk() for r in op.results if isinstance(r.type, Tile)), None)


def _refuse_tiles_outside(kernel: Kernel) -> None:
    for op in outside_roles(kernel):
        for result in op.results:
            if isinstance(result.type, Tile):
                raise TypeMismatch(
                    "a register tile belongs to one role: expected it to be made inside of a"
                    " role, because this kernel has roles",
                    result.loc,
                    hint="move this into the role that uses the tile",
                )


def _mode(body: Block, tile: Value | None) -> str:
    if tile is not None:
        return "warpgroup"
    return "warps" if any(isinstance(op, copy.AsyncCopy) for op in body.walk()) else "thread"


def _assign(body: Block, parts: int, role: str) -> None:
    slices = slice_layouts(body, parts, role)

    def laid_out(type: Type, loc: Loc, value: Value | None) -> Type:
        if not isinstance(type, Tile):
            return type
        if value is not None and value in slices:
            tile = Tile(type.shape, type.dtype, slices[value])
        else:
            tile = _with_layout(type, parts, role, loc)
        _check_elements(tile, role, loc)
        return tile

    for op in body.walk():
        for value in op.results:
            value.type = laid_out(value.type, value.loc, value)
        for block in op.blocks:
            for arg in block.args:
                arg.type = laid_out(arg.type, arg.loc, arg)
        if isinstance(op, _MAKERS):
            assert isinstance(op.result.type, Tile)
            op.layout = op.result.type.layout
        if isinstance(op, control.If | control.Scope):
            op.types = tuple(result.type for result in op.results)


def _with_layout(tile: Tile, parts: int, role: str, loc: Loc) -> Tile:
    if len(tile.shape) != 2:
        raise TypeMismatch(
            f"register tiles have rank 1 or 2 for now: got shape {tile.shape}",
            loc,
            hint="use a tile of shape (rows, columns)",
        )
    return Tile(tile.shape, tile.dtype, fragment(tile.shape, parts, role, loc))


def _check_elements(tile: Tile, role: str, loc: Loc) -> None:
    """Refuse a tile that would make many thousands of instructions, most of which spill."""
    assert isinstance(tile.layout, WgmmaFragment | SliceLayout)
    if tile.layout.values > MOST_ELEMENTS:
        raise ResourceLimit(
            f"a register tile of shape {tile.shape} gives each thread of role {role!r}"
            f" {tile.layout.values} elements: expected at most {MOST_ELEMENTS}, for a thread has"
            " 255 registers",
            loc,
            hint="use smaller tiles, in a loop, or more warps",
        )


def fragment(shape: tuple[int, ...], parts: int, role: str, loc: Loc) -> WgmmaFragment:
    """The layout of a tile of rank 2 in a role of ``parts`` warpgroups."""
    rows, columns = shape
    if rows % (MMA_ROWS * parts):
        fits = [4 * p for p in range(1, 17) if rows % (MMA_ROWS * p) == 0]
        raise ResourceLimit(
            f"a tile of {rows} rows cannot be dealt to the {parts} warpgroup(s) of role"
            f" {role!r}: expected a multiple of {MMA_ROWS * parts} rows",
            loc,
            hint=f"use warps={' or '.join(map(str, fits))} for {rows} rows"
            if fits
            else f"use a multiple of {MMA_ROWS * parts} rows",
        )
    if columns % 8:
        raise TypeMismatch(f"a register tile needs a multiple of 8 columns, got shape {shape}", loc)
    return WgmmaFragment(parts, rows // parts, columns)
