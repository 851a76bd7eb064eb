"""The verifier: run between passes, so that a broken pass is found where it broke.

It checks that each operation is legal at the kernel's level, that every operand is defined
before its use in an enclosing block, that blocks end as their owner demands, and what each
operation itself demands. A fault here is the compiler's, so it raises ``InternalError``.
"""

from __future__ import annotations

from tiledsl.codegen.ir.core import Block, Level, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control
from tiledsl.errors import InternalError


def verify(kernel: Kernel, after: str = "") -> None:
    """Raise ``InternalError`` when the kernel is not well formed; ``after`` names the pass."""
    _Verifier(kernel, after).run()


class _Verifier:
    def __init__(self, kernel: Kernel, after: str) -> None:
        self.kernel = kernel
        self.where = f" after {after}" if after else ""

    def run(self) -> None:
        visible = {param.value for param in self.kernel.params}
        self.block(self.kernel.body, visible, owner=None, loop=None, scope=None)

    def fail(self, op: Op, message: str) -> None:
        raise InternalError(f"invalid IR{self.where}: {op.opcode}: {message}", op.loc)

    def block(
        self,
        block: Block,
        visible: set[Value],
        *,
        owner: Op | None,
        loop: control.For | control.Loop | None,
        scope: control.Scope | None,
    ) -> None:
        inside = visible | set(block.args)
        for position, op in enumerate(block.ops):
            self.operation(op, inside, self.kernel.level)
            if op.is_terminator and position != len(block.ops) - 1:
                self.fail(op, "a terminator must be the last operation of its block")
            if op.is_terminator:
                self.terminator(op, owner, loop, scope)
            if isinstance(op, control.Role) and owner is not None:
                self.fail(op, "a role must stand at the top of the kernel")
            inner_loop = op if isinstance(op, control.For | control.Loop) else loop
            inner_scope = op if isinstance(op, control.Scope) else scope
            if isinstance(op, control.Scope):
                inner_loop = None  # break cannot leave an inlined function
            for nested in op.blocks:
                self.block(nested, inside, owner=op, loop=inner_loop, scope=inner_scope)
                needs_end = not isinstance(op, control.Role)
                if needs_end and nested.terminator is None:
                    self.fail(op, "a nested block has no terminator")
            inside.update(op.results)

    def operation(self, op: Op, visible: set[Value], level: Level) -> None:
        if level is not Level.MIXED and level not in op.levels:
            self.fail(op, f"not legal at {level.value} level")
        for value in op.operands:
            if value not in visible:
                self.fail(op, f"operand %{value.name} ({value.type}) is not defined here")
        try:
            op.verify()
        except ValueError as error:
            self.fail(op, str(error))

    def terminator(
        self,
        op: Op,
        owner: Op | None,
        loop: control.For | control.Loop | None,
        scope: control.Scope | None,
    ) -> None:
        given = [value.type for value in op.operands]
        match op:
            case control.Yield():
                if not isinstance(owner, control.If):
                    self.fail(op, "outside of an if")
                elif given != list(owner.types):
                    self.fail(op, f"gives {[str(t) for t in given]}, the if has {owner.types}")
            case control.Continue() | control.Break():
                if loop is None:
                    self.fail(op, "outside of a loop")
                elif given != [init.type for init in loop.inits]:
                    self.fail(op, f"gives {[str(t) for t in given]}, not what the loop carries")
            case control.Leave():
                if scope is None:
                    self.fail(op, "outside of a scope")
                elif given != list(scope.types):
                    self.fail(op, f"gives {[str(t) for t in given]}, not what the scope returns")
            case _:
                pass
