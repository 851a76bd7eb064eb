"""The launch grid, and unrolled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops import tile
from tiledsl.frontend.intrinsics.arguments import static_int
from tiledsl.frontend.iteration import elements
from tiledsl.frontend.registry import implements
from tiledsl.language import grid as language

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


@implements(language.block_id)
def block_id(cx: Context, axis: object = 0) -> Value:
    number = static_int(cx, axis, "td.block_id: axis", least=0, most=2)
    return cx.emit(tile.BlockId(number))


@implements(language.num_blocks)
def num_blocks(cx: Context, axis: object = 0) -> Value:
    number = static_int(cx, axis, "td.num_blocks: axis", least=0, most=2)
    return cx.emit(tile.BlockCount(number))


@implements(language.static_range)
def static_range(
    cx: Context, start: object, stop: object = None, step: object = 1
) -> tuple[int, ...]:
    """A tuple: loops over tuples are unrolled."""
    first = static_int(cx, start, "td.static_range: " + ("start" if stop is not None else "stop"))
    by = static_int(cx, step, "td.static_range: step")
    if by == 0:
        raise cx.value_error("td.static_range: expected a step that is not zero, got 0")
    if stop is None:
        first, last = 0, first
    else:
        last = static_int(cx, stop, "td.static_range: stop")
    return tuple(elements(cx, range(first, last, by), "to loop over"))
