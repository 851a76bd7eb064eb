"""Which function lowers which operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tiledsl.codegen.ir.core import Op

if TYPE_CHECKING:
    from tiledsl.codegen.nvptx.context import Lowering

_OpT = TypeVar("_OpT", bound=Op)

LOWERINGS: dict[type[Op], Callable[[Lowering, Any], None]] = {}


def lower(
    op_class: type[_OpT],
) -> Callable[[Callable[[Lowering, _OpT], None]], Callable[[Lowering, _OpT], None]]:
    """Register the decorated function as the lowering of ``op_class``.

    It gets the lowering in progress and the operation, emits at ``lowering.builder`` and sets each
    result with ``lowering.define``.
    """

    def decorate(
        function: Callable[[Lowering, _OpT], None],
    ) -> Callable[[Lowering, _OpT], None]:
        if op_class in LOWERINGS:
            raise ValueError(f"{op_class.opcode} has two lowerings")
        LOWERINGS[op_class] = function
        return function

    return decorate
