"""What the parser makes of PTX text."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "Address", "Discard", "Function", "Immediate", "Instruction", "Label", "Loc", "Module",
    "Operand", "Pair", "Parameter", "Register", "Statement", "Symbol", "Variable", "Vector",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A register, also a special one (``%tid.x``); ``!p`` is negated, ``-a`` is not PTX."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number, as the bits of its kind: "int" (64 bits, two's complement), "f32" or "f64"."""

    bits: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, function or label, and a displacement in bytes (``table+4``)."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; ``coordinates`` for ``[map, {x, y}]``."""

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] | None = None


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Discard:
    """``_``: a result that nobody wants."""


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Discard


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the source: ``.loc``, with the file's name from ``.file``.

    ``call_site``: where the surrounding function, ``function``, was called when it was inlined.
    """

    file: str
    line: int
    column: int
    function: str = ""
    call_site: Loc | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!p add.rn.f32 d, a, b;`` with opcode "add" and modifiers ("rn", "f32").

    Attributes:
        line: of the PTX text, from 1.
        text: the instruction as written, for messages.
        loc: the source line that the last ``.loc`` in front of it named.
        labels: the branch targets of ``brx.idx``, from its ``.branchtargets`` list.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int
    text: str
    loc: Loc | None = None
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """A place to branch to; labels in ``{}`` are renamed so that they are unique in a function."""

    name: str
    line: int


Statement = Instruction | Label


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: ``.shared .align 16 .b8 buffer[1024];``.

    Attributes:
        space: "reg", "shared", "local", "global", "const" or "param".
        size: bytes; 0 for ``extern`` shared memory, whose size the launch gives.
        initial: the bytes it starts with, None where there is no initialiser.
        pointers: where in ``initial`` addresses of other variables go: (offset, symbol).
    """

    name: str
    space: str
    type: str
    align: int
    size: int
    initial: bytes | None = None
    pointers: tuple[tuple[int, Symbol], ...] = ()
    extern: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry or function: its offset in the parameter space, and its size.

    ``space``: "param", or "reg" for a ``.func`` that takes registers.
    """

    name: str
    type: str
    align: int
    size: int
    offset: int
    space: str = "param"


@dataclass(slots=True)
class Function:
    """``.entry`` or ``.func``: registers by name (with their PTX type), variables, statements."""

    name: str
    entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Such as ``.reqntid``, ``.maxntid``, ``.minnctapersm``, ``.reqnctapercluster``."""
    line: int = 0
    defined: bool = False
    """Whether it has a body; ``.extern`` functions have none."""


@dataclass(slots=True)
class Module:
    """A whole PTX file."""

    version: tuple[int, int]
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    text: str
