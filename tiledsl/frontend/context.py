"""What the frontend and its intrinsics share while one kernel is traced.

``Context`` is the only object that an intrinsic needs: it builds IR at the user's line, converts
and combines compile-time and run-time values, and makes errors that point at the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Block, Builder, Effect, Op, Value
from tiledsl.codegen.ir.dtypes import DType
from tiledsl.codegen.ir.kernel import Captured
from tiledsl.codegen.ir.ops.arith import Constant
from tiledsl.codegen.ir.ops.control import Role
from tiledsl.codegen.ir.types import Scalar
from tiledsl.errors import (
    InvalidValue,
    Loc,
    NameNotFound,
    SyntaxNotSupported,
    TileError,
    TypeMismatch,
)
from tiledsl.frontend import arithmetic, describe
from tiledsl.frontend.aliases import Origins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiledsl.frontend.scope import Frame

_OpT = TypeVar("_OpT", bound=Op)
_E = TypeVar("_E", bound=TileError)
Notes = Sequence[tuple[str, Loc | None]]


class Context:
    """The state of one trace.

    Attributes:
        builder: appends operations to the current block, stamped with ``loc``.
        body: the kernel's body, in which roles stand.
        role: the role being traced, or None outside of roles.
        target: such as ``"sm_90a"``.
        cluster: blocks of a cluster along each of its axes; None in a kernel without clusters.
        persistent: whether the grid is one block for each multiprocessor.
    """

    def __init__(
        self,
        body: Block,
        *,
        target: str,
        warps: int | None = None,
        cluster: tuple[int, ...] | None = None,
        persistent: bool = False,
    ) -> None:
        self.builder = Builder(body)
        self.body = body
        self.role: Role | None = None
        self.target = target
        self.warps = warps
        self.cluster = cluster
        self.persistent = persistent
        self.frames: list[Frame] = []  # functions being traced, the kernel first
        self.heap: list[Any] = []  # lists, dicts and objects that the kernel made, oldest first
        self._heap_ids: set[int] = set()
        self.origins = Origins()
        self.captured: dict[tuple[int, str], Captured] = {}  # by namespace and name
        self.object_names: set[str] = set()  # of rings, barriers and tiles in shared memory
        self.on_assignment: dict[Value, Callable[[str], None]] = {}
        self.branches: list[Loc] = []  # run-time conditions that the current code stands under
        self.weak: set[Value] = set()  # integers and floats whose dtype a first trace looks for
        self._home: dict[Value, Block] = {}  # the block whose operations may use a value
        self._open: list[Block] = [body]
        self._checked = True
        self.home_of_exit: dict[Op, Block] = {}
        self._constants: dict[Block, dict[tuple[str, DType], Value]] = {}

    # --------------------------------------------------------------------- building IR

    @property
    def loc(self) -> Loc:
        """The user's expression or statement that is being traced."""
        return self.builder.loc

    @loc.setter
    def loc(self, loc: Loc) -> None:
        self.builder.loc = loc

    @property
    def at_top(self) -> bool:
        """Whether the current block is the kernel's body: in no role, branch or run-time loop."""
        return self.builder.block is self.body

    def add(self, op: _OpT, name: str = "") -> _OpT:
        """Append an operation at ``loc``; its operands must be visible in the current block."""
        for value in op.operands:
            if self._checked and not self.visible(value):
                raise self.error(
                    NameNotFound,
                    f"{self.describe(value)} is used outside of the block that computes it",
                    hint="compute it before the loop, branch or role, or use it inside",
                    notes=[("it is computed here", value.loc)],
                )
        block = self.builder.block
        if block is self.body and not isinstance(op, Role) and self._first_role() is not None:
            self._add_before_roles(op, name)
        else:
            self.builder.add(op, name)
        for result in op.results:
            self._home[result] = block
        return op

    def emit(self, op: Op, name: str = "") -> Value:
        """Append an operation and return its only result."""
        return self.add(op, name).result

    def _first_role(self) -> int | None:
        """Where the first role stands in the body. Roles are last, so the last operation tells."""
        if not self.body.ops or not isinstance(self.body.ops[-1], Role):
            return None
        return next(i for i, op in enumerate(self.body.ops) if isinstance(op, Role))

    def _add_before_roles(self, op: Op, name: str) -> None:
        """Code between roles is visible in the later ones: compute it before the first."""
        if op.effect is not Effect.PURE or op.blocks:
            raise self.error(
                SyntaxNotSupported,
                f"{op.opcode} after a role: code outside of roles must come before the first role",
                hint="move it before the roles, or into the role that needs it",
            )
        position = self._first_role()
        assert position is not None
        op.at(self.loc, name)
        self.body.ops.insert(position, op)

    def visible(self, value: Value) -> bool:
        """Whether code in the current block may use a value."""
        home = self._home.get(value)
        return home is None or home in self._open

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Append to ``block`` within the ``with``; its arguments are visible there."""
        saved = self.builder.block
        for arg in block.args:
            self._home[arg] = block
        self._open.append(block)
        self.builder.block = block
        try:
            yield block
        finally:
            self.builder.block = saved
            self._open.remove(block)

    def splice(self, block: Block) -> None:
        """Move the operations of a block that turned out not to be needed into the current one."""
        here = self.builder.block
        here.ops.extend(block.ops)
        for op in block.ops:
            for result in op.results:
                self._home[result] = here
        if here.terminator is not None:
            self.home_of_exit[here.terminator] = here
        block.ops = []

    @contextmanager
    def before_exit(self, terminator: Op) -> Iterator[None]:
        """Append before a terminator that was added earlier: conversions of what it carries."""
        block = self.home_of_exit[terminator]
        removed = block.ops.pop()
        assert removed is terminator
        saved, opened, loc = self.builder.block, self._open, self.loc
        # Values of blocks that are closed by now are visible there; the verifier has the last word.
        self.builder.block, self.loc, self._checked = block, terminator.loc, False
        try:
            yield
        finally:
            block.ops.append(terminator)
            self.builder.block, self._open, self.loc, self._checked = saved, opened, loc, True

    def end(self, terminator: _OpT) -> _OpT:
        """End the current block."""
        self.add(terminator)
        self.home_of_exit[terminator] = self.builder.block
        return terminator

    def constant(self, value: float, dtype: DType) -> Value:
        """A run-time value for a Python bool, int or float; the caller has checked that it fits."""
        try:
            value = arithmetic.as_python(value, dtype)
        except OverflowError:  # an integer beyond every float
            number = arithmetic.short_number(value)
            raise self.value_error(f"{number} does not fit {dtype}") from None
        key = (repr(value), dtype)
        blocks = self._open if self._checked else [self.builder.block]
        for block in blocks:
            known = self._constants.get(block, {}).get(key)
            if known is not None:
                return known
        made = self.emit(Constant(value, dtype))
        self._constants.setdefault(self.builder.block, {})[key] = made
        return made

    # ------------------------------------------------------------ objects the kernel made

    def made(self, x: Any) -> Any:
        """Register a mutable object that the kernel made, so that branches can merge it."""
        if id(x) not in self._heap_ids:
            self._heap_ids.add(id(x))
            self.heap.append(x)
            self.origins.add(x)
        return x

    def is_made_here(self, x: object) -> bool:
        """Whether the kernel made this list, dict or instance (and may change it)."""
        return id(x) in self._heap_ids

    def assigned(self, value: Value, name: str) -> None:
        """Told when a variable gets a run-time value: what stands behind it may take its name."""
        told = self.on_assignment.get(value)
        if told is not None:
            told(name)

    def forget(self, count: int) -> None:
        """Drop the objects made after the first ``count``: their trace is thrown away."""
        for x in self.heap[count:]:
            self._heap_ids.discard(id(x))
        del self.heap[count:]

    # ------------------------------------------------------------------- values and types

    def scalar(self, x: object, dtype: DType) -> Value:
        """A number as a run-time value of ``dtype``.

        Implicit conversion: integers and bools to any number, floats to any float. Run-time
        integers wrap when they are narrowed; a compile-time number must fit.

        Raises:
            TypeMismatch: ``x`` is no number, or a float where an integer is needed.
            InvalidValue: a compile-time number that does not fit ``dtype``.
        """
        return arithmetic.scalar(self, x, dtype)

    def int32(self, x: object) -> Value:
        """An index or coordinate: an integer as a run-time int32."""
        return arithmetic.scalar(self, x, dtypes.int32)

    def boolean(self, x: object) -> Value:
        """``bool(x)`` as a run-time bool_."""
        truth = self.truth(x)
        return self.constant(truth, dtypes.bool_) if isinstance(truth, bool) else truth

    def truth(self, x: object) -> bool | Value:
        """``bool(x)``: a Python bool at compile time, else a run-time bool_."""
        return arithmetic.truth(self, x)

    def binary(self, kind: str, lhs: Any, rhs: Any) -> Any:
        """``lhs kind rhs`` as in Python, for any mix of compile-time and run-time values.

        ``kind`` is one of ``arith.BINARY_KINDS`` or ``"pow"``. Two compile-time values are
        computed now.
        """
        return arithmetic.binary(self, kind, lhs, rhs)

    def compare(self, kind: str, lhs: Any, rhs: Any) -> Any:
        """``lhs kind rhs`` for a kind of ``arith.COMPARE_KINDS``."""
        return arithmetic.compare(self, kind, lhs, rhs)

    def unary(self, kind: str, value: Any) -> Any:
        """``neg``, ``pos``, ``abs``, ``invert`` or ``not`` of a value."""
        return arithmetic.unary(self, kind, value)

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call anything that a kernel may call: a td.function is inlined here."""
        from tiledsl.frontend import calls

        return calls.call(self, function, args, kwargs)

    def is_number(self, x: object) -> bool:
        """Whether ``x`` is a bool, int or float, at compile time or at run time."""
        return isinstance(x, bool | int | float) or (
            isinstance(x, Value) and isinstance(x.type, Scalar)
        )

    # -------------------------------------------------------------------------- messages

    def describe(self, x: object) -> str:
        """What a value is, for messages: "an int32", "the compile-time int 5"."""
        return describe.describe(x)

    def error(
        self, kind: type[_E], message: str, *, hint: str | None = None, notes: Notes = ()
    ) -> _E:
        """An error at ``loc``, to be raised by the caller."""
        return kind(message, self.loc, hint, tuple(notes))

    def type_error(self, message: str, hint: str | None = None, notes: Notes = ()) -> TypeMismatch:
        return self.error(TypeMismatch, message, hint=hint, notes=notes)

    def value_error(self, message: str, hint: str | None = None, notes: Notes = ()) -> InvalidValue:
        return self.error(InvalidValue, message, hint=hint, notes=notes)

    def syntax_error(
        self, message: str, hint: str | None = None, notes: Notes = ()
    ) -> SyntaxNotSupported:
        return self.error(SyntaxNotSupported, message, hint=hint, notes=notes)

    def name_error(self, message: str, hint: str | None = None, notes: Notes = ()) -> NameNotFound:
        return self.error(NameNotFound, message, hint=hint, notes=notes)
