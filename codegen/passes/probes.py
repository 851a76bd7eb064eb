"""Which answers of ``try_acquire`` each thread may have for itself.

All threads of a role must take the same branches, so an answer that a branch depends on has to be
the same for all of them, for which they meet. One that only says whether a wait can be left out
need not be: a thread that has seen the phase complete goes on, another one waits.
"""

from __future__ import annotations

from tiledsl.codegen.checks.paths import Merges
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.ops import arith, control


def decides_waits_only(answer: Value, used: dict[Value, list[Op]], merges: Merges) -> bool:
    """Whether ``answer``, and all that is computed from it, only tells acquires not to wait."""
    given_to: dict[Value, list[Value]] = {}
    for target, values in merges.incoming.items():
        for value in values:
            given_to.setdefault(value, []).append(target)
    todo, seen = [answer], set[Value]()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        todo += given_to.get(value, [])
        for op in used.get(value, []):
            if value in getattr(op, "ready", ()):
                continue
            if isinstance(op, arith.Binary | arith.Unary | arith.Select):
                todo += op.results
            elif not _hands_on(op):
                return False
    return True


def _hands_on(op: Op) -> bool:
    """Whether an operation gives its operands on to where ``Merges`` says."""
    return op.is_terminator or isinstance(op, control.For | control.Loop)
