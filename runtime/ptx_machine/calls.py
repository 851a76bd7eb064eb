"""Calls of device functions, inlined: the interpreter has no stack.

What a call passes through ``.param`` variables goes through local memory: the callee's parameter
*is* the caller's variable, as PTX allows (a function may read its parameters and write its results,
and whoever takes the address of a parameter sees it in local memory). ``ret`` becomes a branch.

Two functions without a body are known, for ``printf`` and ``assert`` of CUDA: ``vprintf`` and
``__assertfail`` become instructions ``vprintf d, format, arguments`` and
``assertfail message, file, line, function, size`` (isa/control.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tiledsl.runtime.ptx_machine.errors import DecodeError, at_instruction
from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Loc,
    Module,
    Operand,
    Pair,
    Parameter,
    Register,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["inline_calls"]

_MOST_STATEMENTS = 2_000_000
_LOCAL = {"param": "local", "param::func": "local"}
# What the known functions are passed: bits of each parameter, then of the result (0: none).
_KNOWN = {"vprintf": ((64, 64), 32), "__assertfail": ((64, 64, 32, 64, 64), 0)}


def inline_calls(module: Module, entry: Function) -> Function:
    """The entry as one body without calls; itself if it has none.

    Raises:
        DecodeError: recursion, an indirect call, a function without a body, wrong arguments.
    """
    plain = all(
        isinstance(statement, Label) or statement.opcode != "call" for statement in entry.body
    )
    if plain and not any(it.space == "param" for it in entry.variables.values()):
        return entry
    made = Function(
        entry.name,
        True,
        entry.parameters,
        directives=entry.directives,
        line=entry.line,
        defined=True,
    )
    _Inliner(module, made).expand(_Frame(entry, "", {}, {}, None, None, (entry.name,)))
    return made


@dataclass(slots=True)
class _Frame:
    """One inlined function.

    Attributes:
        suffix: of its registers, labels and local variables; "" in the entry.
        bound: name of a ``.param`` parameter or result -> the caller's variable.
        variables: name in the function -> name in what is made.
        leave: the label that ``ret`` goes to.
        site: where it was called.
        stack: names of the functions that are being inlined.
    """

    function: Function
    suffix: str
    bound: dict[str, str]
    variables: dict[str, str]
    leave: str | None
    site: Loc | None
    stack: tuple[str, ...]


class _Inliner:
    def __init__(self, module: Module, made: Function) -> None:
        self.module = module
        self.made = made
        self.count = 0
        self.locs: dict[tuple[Loc, Loc | None], Loc] = {}

    def expand(self, frame: _Frame) -> None:
        self._declare(frame)
        body = self.made.body
        for statement in frame.function.body:
            if len(body) > _MOST_STATEMENTS:
                raise DecodeError(
                    f"{self.made.name}: with all calls inlined it has more than "
                    f"{_MOST_STATEMENTS} statements"
                )
            if isinstance(statement, Label):
                body.append(replace(statement, name=statement.name + frame.suffix))
                continue
            here = self._renamed(statement, frame)
            if here.opcode == "call":
                self._call(here, frame)
            elif here.opcode == "ret" and frame.leave is not None:
                body.append(
                    replace(here, opcode="bra", modifiers=(), operands=(Symbol(frame.leave),))
                )
            else:
                body.append(here)

    def _declare(self, frame: _Frame) -> None:
        function, suffix, made = frame.function, frame.suffix, self.made
        for name, kind in function.registers.items():
            made.registers[name + suffix] = kind
        for name, variable in function.variables.items():
            own = name
            if suffix:
                # Each call has locals of its own; shared variables are those of the function.
                per_call = variable.space in ("local", "param", "reg")
                own = name + suffix if per_call else f"{name}@{function.name}"
            frame.variables[name] = own
            space = "local" if variable.space == "param" else variable.space
            made.variables[own] = replace(variable, name=own, space=space)

    # ------------------------------------------------------------------ names
    def _renamed(self, statement: Instruction, frame: _Frame) -> Instruction:
        suffix, guard, labels = frame.suffix, statement.guard, statement.labels
        rename = _renamer(frame)
        opcode, modifiers, operands = statement.opcode, statement.modifiers, statement.operands
        if opcode in ("bra", "brx"):
            if not suffix:
                return statement
            operands = tuple(
                Symbol(it.name + suffix) if isinstance(it, Symbol) else rename(it)
                for it in operands
            )
            labels = tuple(label + suffix for label in labels)
        else:
            operands = tuple([rename(operand) for operand in operands])
        if opcode in ("ld", "st") and modifiers and modifiers[0].startswith("param"):
            modifiers = self._space(statement, frame, modifiers)
        elif not suffix:
            return replace(statement, operands=operands)
        if guard is not None and guard.name in frame.function.registers:
            guard = replace(guard, name=guard.name + suffix)
        loc = self._loc(statement.loc, frame.site)
        return replace(
            statement, modifiers=modifiers, operands=operands, guard=guard, loc=loc, labels=labels
        )

    def _space(
        self, statement: Instruction, frame: _Frame, modifiers: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Parameters of an entry stay in their space; all others lie in local memory."""
        for operand in statement.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Symbol):
                name = operand.base.name
                if name in frame.bound or name in frame.variables:
                    return (_LOCAL.get(modifiers[0], modifiers[0]), *modifiers[1:])
        if frame.suffix:
            return (_LOCAL.get(modifiers[0], modifiers[0]), *modifiers[1:])
        return ("param", *modifiers[1:]) if modifiers[0] == "param::entry" else modifiers

    def _loc(self, loc: Loc | None, site: Loc | None) -> Loc | None:
        if loc is None or site is None:
            return loc or site
        known = self.locs.get((loc, site))
        if known is None:
            chain = [loc]
            while chain[-1].call_site is not None:
                chain.append(chain[-1].call_site)
            known = site
            for link in reversed(chain):
                known = replace(link, call_site=known)
            self.locs[loc, site] = known
        return known

    # ------------------------------------------------------------------ calls
    def _call(self, call: Instruction, frame: _Frame) -> None:
        if call.guard is not None and call.opcode == "call":
            self._guarded(call, frame)
            return
        results, callee, arguments = _parts(call)
        name = callee.name
        function = self.module.functions.get(name)
        if function is None:
            raise at_instruction(call, f"there is no function {name}")
        if function.name in frame.stack:
            chain = " -> ".join((*frame.stack, function.name))
            raise at_instruction(call, f"recursion is not supported: {chain}")
        if function.entry:
            raise at_instruction(call, f"{name} is an entry, which cannot be called")
        if not function.defined:
            self._known_function(call, name, results, arguments)
            return
        self._inline(call, frame, function, results, arguments)

    def _guarded(self, call: Instruction, frame: _Frame) -> None:
        """``@p call``: a branch around it."""
        assert call.guard is not None
        behind = self._unique("behind")
        around = replace(
            call,
            opcode="bra",
            modifiers=(),
            operands=(Symbol(behind),),
            guard=replace(call.guard, negated=not call.guard.negated),
        )
        self.made.body.append(around)
        self._call(replace(call, guard=None), frame)
        self.made.body.append(Label(behind, call.line))

    def _inline(
        self,
        call: Instruction,
        frame: _Frame,
        function: Function,
        results: Sequence[Operand],
        arguments: Sequence[Operand],
    ) -> None:
        self.count += 1
        suffix = f"@{function.name}.{self.count}"
        leave = f"return{suffix}"
        site = call.loc or frame.site
        inner = _Frame(function, suffix, {}, {}, leave, site, (*frame.stack, function.name))
        pairs = (
            ("arguments", function.parameters, arguments),
            ("results", function.results, results),
        )
        for what, wanted, given in pairs:
            if len(wanted) != len(given):
                raise at_instruction(
                    call, f"{function.name} has {len(wanted)} {what}, but {len(given)} are given"
                )
        for parameter, operand in zip(function.parameters, arguments, strict=True):
            self._pass(call, inner, parameter, operand)
        late = []
        for parameter, operand in zip(function.results, results, strict=True):
            late += self._return(call, inner, parameter, operand)
        self.expand(inner)
        self.made.body.append(Label(leave, call.line))
        self.made.body += late

    def _pass(
        self, call: Instruction, inner: _Frame, parameter: Parameter, operand: Operand
    ) -> None:
        """Hand an argument over."""
        bits = _bits(parameter.type)
        if parameter.space == "reg":
            register = Register(parameter.name + inner.suffix)
            self.made.registers[register.name] = parameter.type
            self.made.body.append(_made(call, "mov", (bits,), register, operand))
            return
        inner.bound[parameter.name] = self._variable(call, inner, parameter, operand)
        if not isinstance(operand, Symbol):
            address = Address(Symbol(inner.bound[parameter.name]))
            self.made.body.append(_made(call, "st", ("local", bits), address, operand))

    def _return(
        self, call: Instruction, inner: _Frame, parameter: Parameter, operand: Operand
    ) -> list[Instruction]:
        """Make room for a result; what hands it over behind the call."""
        bits = _bits(parameter.type)
        if parameter.space == "reg":
            register = Register(parameter.name + inner.suffix)
            self.made.registers[register.name] = parameter.type
            return [_made(call, "mov", (bits,), operand, register)]
        inner.bound[parameter.name] = self._variable(call, inner, parameter, operand)
        if isinstance(operand, Symbol):
            return []
        address = Address(Symbol(inner.bound[parameter.name]))
        return [_made(call, "ld", ("local", bits), operand, address)]

    def _variable(
        self, call: Instruction, inner: _Frame, parameter: Parameter, operand: Operand
    ) -> str:
        """The variable that a parameter is: the caller's, or a new one for a register."""
        if isinstance(operand, Symbol):
            variable = self.made.variables.get(operand.name)
            if variable is None or operand.offset:
                raise at_instruction(call, f"{operand.name} is no .param variable of the caller")
            if variable.size != parameter.size:
                raise at_instruction(
                    call,
                    f"{parameter.name} has {parameter.size} bytes, but {operand.name} has "
                    f"{variable.size}",
                )
            if variable.align < parameter.align:
                self.made.variables[variable.name] = replace(variable, align=parameter.align)
            return variable.name
        name = parameter.name + inner.suffix
        self.made.variables[name] = Variable(
            name, "local", parameter.type, parameter.align, parameter.size
        )
        return name

    def _known_function(
        self,
        call: Instruction,
        name: str,
        results: Sequence[Operand],
        arguments: Sequence[Operand],
    ) -> None:
        """``vprintf`` and ``__assertfail``: an instruction with its operands in registers."""
        if name not in _KNOWN:
            raise at_instruction(
                call,
                f"function {name} has no body",
                hint=f"without a body the machine knows {' and '.join(_KNOWN)} only",
            )
        widths, result = _KNOWN[name]
        if len(arguments) != len(widths) or len(results) > (result > 0):
            raise at_instruction(call, f"wrong number of arguments or results for {name}")
        registers: list[Operand] = []
        for operand, width in zip(arguments, widths, strict=True):
            if isinstance(operand, Symbol):
                register = self._temporary(width)
                address = Address(operand)
                self.made.body.append(_made(call, "ld", ("local", f"b{width}"), register, address))
                operand = register
            registers.append(operand)
        if name == "__assertfail":
            self.made.body.append(_made(call, "assertfail", (), *registers))
            return
        target = self._temporary(result)
        self.made.body.append(_made(call, "vprintf", (), target, *registers))
        for operand in results:
            if isinstance(operand, Symbol):
                store = _made(call, "st", ("local", f"b{result}"), Address(operand), target)
                self.made.body.append(store)
            else:
                self.made.body.append(_made(call, "mov", (f"b{result}",), operand, target))

    def _temporary(self, width: int) -> Register:
        name = self._unique("argument")
        self.made.registers[name] = f"b{width}"
        return Register(name)

    def _unique(self, name: str) -> str:
        self.count += 1
        return f"{name}@{self.count}"


def _parts(call: Instruction) -> tuple[tuple[Operand, ...], Symbol, tuple[Operand, ...]]:
    """``(results), function, (arguments)``: what may be left out is empty."""
    rest = list(call.operands)
    results: tuple[Operand, ...] = ()
    if rest and isinstance(rest[0], Vector):
        results = rest.pop(0).elements  # type: ignore[union-attr]
    callee = rest.pop(0) if rest else None
    if isinstance(callee, Register):
        raise at_instruction(
            call, "an indirect call: the machine inlines calls, and must know what is called"
        )
    if not isinstance(callee, Symbol):
        raise at_instruction(call, "expected the name of a function")
    arguments: tuple[Operand, ...] = ()
    if rest and isinstance(rest[0], Vector):
        arguments = rest.pop(0).elements  # type: ignore[union-attr]
    if rest:
        raise at_instruction(call, "an indirect call: the machine inlines calls")
    return results, callee, arguments


def _made(
    call: Instruction, opcode: str, modifiers: tuple[str, ...], *operands: Operand
) -> Instruction:
    """An instruction that stands in for part of a call."""
    return replace(call, opcode=opcode, modifiers=modifiers, operands=operands, guard=None)


def _bits(kind: str) -> str:
    """The type for moves of a parameter."""
    return "pred" if kind == "pred" else f"b{BITS[TYPE_CODES[kind]]}"


def _renamer(frame: _Frame) -> Callable[[Operand], Operand]:
    """Names of a function -> names in what is made."""
    suffix, registers = frame.suffix, frame.function.registers
    bound, variables = frame.bound, frame.variables

    def rename(operand: Operand) -> Operand:
        match operand:
            case Register():
                if not suffix or operand.name not in registers:
                    return operand
                return Register(operand.name + suffix, operand.negated)
            case Symbol():
                name = operand.name
                return Symbol(bound.get(name) or variables.get(name, name), operand.offset)
            case Address():
                coordinates = operand.coordinates
                if coordinates is not None:
                    coordinates = tuple([rename(it) for it in coordinates])
                base = rename(operand.base)
                assert isinstance(base, Register | Symbol | Immediate)
                return Address(base, operand.offset, coordinates)
            case Vector():
                return Vector(tuple([rename(it) for it in operand.elements]))
            case Pair():
                return Pair(rename(operand.first), rename(operand.second))
        return operand

    return rename
