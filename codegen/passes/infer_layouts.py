"""Which roles need whole warpgroups, and the layout of every register tile in them.

A role that touches register tiles runs on all threads of its warpgroups, and its tiles take the
wgmma fragment layout; every other role needs no more than one elected thread. Sets the mode of
each role in ``kernel.plan`` and the layout in the types of the tiles.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.kernel import Kernel, outside_roles, roles_of
from tiledsl.codegen.ir.layouts import MMA_ROWS, WgmmaFragment
from tiledsl.codegen.ir.ops import arith, control
from tiledsl.codegen.ir.plan import Plan, RolePlan
from tiledsl.codegen.ir.types import Tile, Type
from tiledsl.errors import Loc, ResourceLimit, TypeMismatch

DEFAULT_WARPS = 4


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
        plan = RolePlan(name, warps, 0, "warpgroup" if tiles is not None else "thread")
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


def _assign(body: Block, parts: int, role: str) -> None:
    for op in body.walk():
        for value in op.results:
            if isinstance(value.type, Tile):
                value.type = _with_layout(value.type, parts, role, value.loc)
        for block in op.blocks:
            for arg in block.args:
                if isinstance(arg.type, Tile):
                    arg.type = _with_layout(arg.type, parts, role, arg.loc)
        if isinstance(op, arith.Full):
            assert isinstance(op.result.type, Tile)
            op.layout = op.result.type.layout
        if isinstance(op, control.If | control.Scope):
            op.types = tuple(_typed(t, parts, role, op.loc) for t in op.types)


def _typed(type: Type, parts: int, role: str, loc: Loc) -> Type:
    return _with_layout(type, parts, role, loc) if isinstance(type, Tile) else type


def _with_layout(tile: Tile, parts: int, role: str, loc: Loc) -> Tile:
    if len(tile.shape) != 2:
        raise TypeMismatch(
            f"register tiles have rank 2 for now: got shape {tile.shape}",
            loc,
            hint="use a tile of shape (rows, columns)",
        )
    rows, columns = tile.shape
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
        raise TypeMismatch(
            f"a register tile needs a multiple of 8 columns, got shape {tile.shape}", loc
        )
    return Tile(tile.shape, tile.dtype, WgmmaFragment(parts, rows // parts, columns))
