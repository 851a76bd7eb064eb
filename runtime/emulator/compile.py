"""From blocks of IR to Python functions that run them.

Each operation becomes one closure over slot numbers, made once for all parts and blocks of the
grid. What cannot block becomes a plain function ``step(part)``; what may wait becomes a generator
function, which yields what it waits for, or None where another part may run first. Both return a
signal: None to go on, or how control left the block.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tiledsl.codegen.ir.core import Block, Effect, Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import copy, memory, sync
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.ops.control import Role
from tiledsl.codegen.ir.plan import Plan, RolePlan
from tiledsl.errors import InternalError
from tiledsl.runtime.emulator.geometry import Cluster
from tiledsl.runtime.emulator.machine import Part, Wait
from tiledsl.runtime.emulator.values import as_scalar

# How control left a block.
CONTINUE, BREAK, LEAVE, RETURN = 1, 2, 3, 4
Signal = int | None

Step = Callable[[Part], Signal]
Coroutine = Generator[Wait | None, None, Signal]


@dataclass(frozen=True, slots=True)
class Blocking:
    """Code that may wait: ``start`` is a generator function."""

    start: Callable[[Part], Coroutine]


Code = Step | Blocking

# Operations through which one role may see what another does, besides those that synchronise.
_SHARED = (
    memory.SharedLoad, memory.SharedStore, copy.AsyncCopy, sync.WordGet, sync.WordSet,
)  # fmt: skip

_OpT = TypeVar("_OpT", bound=Op)
_MAKERS: dict[type[Op], Callable[[Compiler, Any], Code | None]] = {}


def step(
    kind: type[_OpT],
) -> Callable[[Callable[[Compiler, _OpT], Code | None]], Callable[[Compiler, _OpT], Code | None]]:
    """Register how an operation is compiled. None stands for nothing to do."""

    def register(
        make: Callable[[Compiler, _OpT], Code | None],
    ) -> Callable[[Compiler, _OpT], Code | None]:
        if kind in _MAKERS:
            raise ValueError(f"operation {kind.opcode!r} is compiled twice")
        _MAKERS[kind] = make
        return make

    return register


def emulated_ops() -> frozenset[type[Op]]:
    """Every operation that the emulator knows."""
    return frozenset(_MAKERS)


@dataclass(frozen=True, slots=True)
class LoopSlots:
    """Where a loop keeps the values it carries, and its results."""

    args: list[int]
    results: list[int]


class Compiler:
    """Compiles the blocks of one kernel.

    Attributes:
        plan: of the kernel.
        cluster: the shape of its clusters.
        parts: parts of the role that is being compiled.
        preempt: whether another part may run before each synchronising operation.
        template: initial registers: constants stand in it already.
        ifs, loops, scopes: slots of the results of the enclosing operations, innermost last.
    """

    def __init__(self, plan: Plan, cluster: Cluster, *, preempt: bool) -> None:
        self.plan = plan
        self.cluster = cluster
        self.parts = 1
        self.preempt = preempt
        self.template: list[Any] = []
        self.ifs: list[list[int]] = []
        self.loops: list[LoopSlots] = []
        self.scopes: list[list[int]] = []
        self._slots: dict[Value, int] = {}

    def slot(self, value: Value) -> int:
        """The slot of a value, the same in every part."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self.template)
            self.template.append(None)
        return found

    def slots(self, values: Sequence[Value]) -> list[int]:
        return [self.slot(value) for value in values]

    def block(self, ops: Block | Sequence[Op]) -> Code:
        """Compile a block, or some of its operations."""
        pieces: list[Code] = []
        for op in ops.ops if isinstance(ops, Block) else ops:
            code = self._operation(op)
            if code is not None:
                pieces.append(code)
        return _sequence(pieces)

    def _operation(self, op: Op) -> Code | None:
        make = _MAKERS.get(type(op))
        if make is None:
            raise InternalError(f"the emulator has no {op.opcode}", op.loc)
        code = make(self, op)
        touches_others = op.effect is Effect.SYNC or op.needs == "tma" or type(op) in _SHARED
        if self.preempt and touches_others and code is not None:
            return _preemptible(code)
        return code


def _plain(steps: Sequence[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]
    run_all = tuple(steps)

    def run(part: Part) -> Signal:
        for one in run_all:
            signal = one(part)
            if signal is not None:
                return signal
        return None

    return run


def _sequence(pieces: list[Code]) -> Code:
    """One piece of code that runs ``pieces`` in order; neighbouring plain steps are joined."""
    joined: list[Code] = []
    plain: list[Step] = []
    for piece in pieces:
        if isinstance(piece, Blocking):
            if plain:
                joined.append(_plain(plain))
                plain = []
            joined.append(piece)
        else:
            plain.append(piece)
    if not joined:
        return _plain(plain)
    if plain:
        joined.append(_plain(plain))
    if len(joined) == 1:
        return joined[0]
    order = tuple(
        (True, one.start) if isinstance(one, Blocking) else (False, one) for one in joined
    )

    def start(part: Part) -> Coroutine:
        for blocking, one in order:
            signal: Any = one(part)
            if blocking:
                signal = yield from signal
            if signal is not None:
                return int(signal)
        return None

    return Blocking(start)


def coroutine(code: Code) -> Callable[[Part], Coroutine]:
    """Any code as a generator function."""
    if isinstance(code, Blocking):
        return code.start

    def start(part: Part) -> Coroutine:
        return code(part)
        yield None  # makes this a generator function

    return start


def _preemptible(code: Code) -> Blocking:
    inner = coroutine(code)

    def start(part: Part) -> Coroutine:
        yield None
        return (yield from inner(part))

    return Blocking(start)


@step(Constant)
def _constant(cx: Compiler, op: Constant) -> None:
    cx.template[cx.slot(op.result)] = as_scalar(op.value, op.dtype)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled kernel.

    Attributes:
        template: registers at the start of a block, less the arguments.
        params: slots of the kernel's parameters.
        preamble: what stands outside of the roles; runs before them.
        roles: what each role runs.
        has_roles: whether the kernel has roles; else its whole body stands in ``roles``.
    """

    template: list[Any]
    params: list[int]
    preamble: Callable[[Part], Coroutine]
    roles: list[tuple[RolePlan, Callable[[Part], Coroutine]]]
    has_roles: bool


def compile_kernel(kernel: Kernel, *, preempt: bool) -> Program:
    """Compile a protocol-level kernel.

    Raises:
        InternalError: without a plan, or with an operation of another level.
    """
    if kernel.plan is None:
        raise InternalError(f"kernel {kernel.name} has no plan: bring it down first", kernel.loc)
    cx = Compiler(kernel.plan, Cluster(kernel.cluster), preempt=preempt)
    params = [cx.slot(param.value) for param in kernel.params]
    roles = [op for op in kernel.body.ops if isinstance(op, Role)]
    if not roles:
        plan = kernel.plan.role("main")
        cx.parts = plan.parts
        main = coroutine(cx.block(kernel.body))
        return Program(cx.template, params, coroutine(_plain([])), [(plan, main)], False)
    preamble = cx.block([op for op in kernel.body.ops if not isinstance(op, Role)])
    bodies = []
    for role in roles:
        plan = kernel.plan.role(role.name)
        cx.parts = plan.parts
        bodies.append((plan, coroutine(cx.block(role.body))))
    return Program(cx.template, params, coroutine(preamble), bodies, True)
