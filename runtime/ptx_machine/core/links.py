"""Calls through an address, from one part of the interpreter to another.

Numba puts all that a function calls into its object code and optimises the whole again, for every
caller on the way up. What many call, and the families at the top, are called through ``M.links``, a
table of addresses: each of these parts is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from tiledsl.runtime.ptx_machine.core.jit import LINKED, compiled, i64
from tiledsl.runtime.ptx_machine.core.raw import i64p
from tiledsl.runtime.ptx_machine.core.state import MACHINE, WARPS
from tiledsl.runtime.ptx_machine.opcodes import FAMILIES

__all__ = ["EXECUTE_WGMMA", "PERFORM", "RANDOM_WGMMA", "call_link", "link_table"]

# A family's step has the family's number.
PERFORM, EXECUTE_WGMMA, RANDOM_WGMMA = range(len(FAMILIES), len(FAMILIES) + 3)


def _call_address(typing: Any, address: Any, M: Any, W: Any, a: Any, b: Any, c: Any) -> Any:
    """Call a function i64(M, W, i64, i64, i64) by its address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        kinds = [context.get_value_type(kind) for kind in signature.args[1:]]
        function = ir.FunctionType(context.get_value_type(signature.return_type), kinds)
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])

    return i64(i64, MACHINE, WARPS, i64, i64, i64), generate


_call: Any = intrinsic(_call_address)


@compiled(i64, i64, i64, i64, i64)
def call_link(M: Any, W: Any, number: int, a: int, b: int, c: int) -> int:
    """Call the function with this number."""
    return _call(i64p(M.links)[number], M, W, a, b, c)


def link_table() -> Any:
    """The addresses of all that have been compiled, int64 [numbers]: what ``M.links`` points to."""
    table = np.zeros(RANDOM_WGMMA + 1, np.int64)
    for number, function in LINKED.items():
        (made,) = function.overloads.values()
        name = made.fndesc.llvm_cfunc_wrapper_name
        table[number] = made.library.get_pointer_to_function(name)
    return table
