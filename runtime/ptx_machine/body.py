"""The body of a function, statement by statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tiledsl.runtime.ptx_machine.errors import DecodeError, python_loc
from tiledsl.runtime.ptx_machine.lexer import Tokens
from tiledsl.runtime.ptx_machine.lines import Lines
from tiledsl.runtime.ptx_machine.opcodes import TYPE_CODES
from tiledsl.runtime.ptx_machine.operands import Scope
from tiledsl.runtime.ptx_machine.syntax import (
    Function,
    Instruction,
    Label,
    Loc,
    Operand,
    Register,
    Symbol,
    Variable,
)
from tiledsl.runtime.ptx_machine.variables import SPACES, variables

__all__ = ["Body"]

# One statement: a label, an instruction up to its semicolon, a brace, or a directive's name.
_STATEMENT = re.compile(
    r"""\s*+()(?:
        ([A-Za-z_$%][\w$]*)\s*:(?!:)
      | (?:@\s*(!?)\s*([A-Za-z_$%][\w$]*)\s+)?([a-z]\w*)((?:\s*\.[\w:]+)*)([^;]*);
      | ([{}])
      | \.(\w+)
      | ;)""",
    re.VERBOSE,
)
_POSITION, _LABEL, _NOT, _GUARD, _OPCODE, _MODIFIERS, _OPERANDS, _BRACE, _DIRECTIVE = range(1, 10)
_LIST = re.compile(r"[^;]*;")
_LISTS = re.compile(r"\s*\.(branchtargets|calltargets|callprototype)\b([^;]*);")
_REGISTER = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*(?:<\s*(\d+)\s*>)?\s*")
_REG = re.compile(r"\s*(?:\.(v[248])\s*)?\.(\w+)\s*(?:\.(v[248])\s+)?([^;]*);")
# A line within a statement that looks like the next one.
_ANOTHER = re.compile(r"\n\s*(?:\}|@|\.\w|[$\w]+\s*:(?!:)|[a-z]\w*\.[a-z])")
_MOST_REGISTERS = 1_000_000


class Body:
    """Reads what stands behind the opening brace of a function."""

    def __init__(
        self,
        function: Function,
        text: str,
        position: int,
        lines: Lines,
        module_variables: Mapping[str, Variable],
    ) -> None:
        self.function = function
        self.text = text
        self.position = position
        self.lines = lines
        around = Scope()
        around.variables.update(module_variables)
        self.outermost = self.scope = Scope(around)
        self.lists: dict[str, tuple[str, ...]] = {}  # .branchtargets and .calltargets by label
        self.loc: Loc | None = None
        self.count = 0  # of names made up
        self._modifiers: dict[str, tuple[str, ...]] = {}
        for parameter in (*function.parameters, *function.results):
            if parameter.space == "reg":
                function.registers[parameter.name] = parameter.type
                self.scope.registers[parameter.name] = parameter.name

    def read(self) -> int:
        """Read up to the closing brace; the position behind it."""
        text, match, body = self.text, _STATEMENT.match, self.function.body
        while True:
            found = match(text, self.position)
            if found is None:
                raise self._unknown()
            self.position = found.end()
            kind = found.lastindex
            if kind == _OPERANDS:
                body.append(self._instruction(found))
            elif kind == _DIRECTIVE:
                self._directive(found)
            elif kind == _LABEL:
                self._label(found)
            elif kind == _BRACE and found[_BRACE] == "{":
                self.scope = Scope(self.scope)
                self.scope.start = len(body)
            elif kind == _BRACE:
                self._close()
                if self.scope is self.outermost:
                    return self.position
                assert self.scope.outer is not None
                self.scope = self.scope.outer

    def error(self, position: int, why: str) -> DecodeError:
        return DecodeError(f"PTX line {self.lines.line(position)}: {why}")

    def _unknown(self) -> DecodeError:
        rest = self.text[self.position :].lstrip()
        at = len(self.text) - len(rest)
        if not rest:
            line = self.function.line
            return DecodeError(f"PTX line {line}: the body of {self.function.name} does not end")
        return self.error(at, f"no statement: {rest.splitlines()[0][:100]!r}")

    # ------------------------------------------------------------------ instructions
    def _instruction(self, found: re.Match[str]) -> Instruction:
        position = found.start(_POSITION)
        words = found[_MODIFIERS]
        modifiers = self._modifiers.get(words)
        if modifiers is None:
            modifiers = tuple(word.strip() for word in words.split("."))[1:]
            self._modifiers[words] = modifiers
        text = " ".join(self.text[position : self.position].split())
        try:
            written, opcode = found[_OPERANDS].strip(), found[_OPCODE]
            if opcode == "bra":  # a label, whatever else has this name
                operands: tuple[Operand, ...] = (Symbol(written),)
            elif opcode == "call":
                operands = self.scope.call_operands(written)
            else:
                operands = self.scope.operands(written)
            guard = None
            if found[_GUARD]:
                guard = self.scope.register(found[_GUARD])
                if guard is None:
                    raise ValueError(f"there is no register {found[_GUARD]}")
                if found[_NOT]:
                    guard = Register(guard.name, True)
        except ValueError as problem:
            raise self._refused(position, str(problem), text) from None
        line = self.lines.line(position)
        return Instruction(opcode, modifiers, operands, guard, line, text, self.loc)

    def _refused(self, position: int, why: str, text: str) -> DecodeError:
        error = self.error(
            position, f"{why}\n    {text if len(text) <= 200 else text[:197] + '...'}"
        )
        error.loc = python_loc(self.loc)
        if _ANOTHER.search(self.text, position, self.position):
            error.hint = "a `;` may be missing"
        return error

    # ------------------------------------------------------------------ labels and scopes
    def _label(self, found: re.Match[str]) -> None:
        name, position = found[_LABEL], found.start(_LABEL)
        directive = _LISTS.match(self.text, self.position)
        if directive is not None:
            self.position = directive.end()
            if directive[1] == "branchtargets":
                self.lists[name] = self._branch_targets(directive[2], position)
            return
        if name in self.scope.labels:
            raise self.error(position, f"label {name} is there twice")
        made = name if self.scope is self.outermost else self._unique(name)
        self.scope.labels[name] = made
        self.function.body.append(Label(made, self.lines.line(position)))

    def _branch_targets(self, text: str, position: int) -> tuple[str, ...]:
        """``A, B<3>``: labels, also numbered ones."""
        labels: list[str] = []
        for piece in text.split(","):
            found = _REGISTER.fullmatch(piece)
            if found is None:
                raise self.error(position, f"expected a label, got {piece.strip()!r}")
            count = found[2]
            labels += [f"{found[1]}{k}" for k in range(int(count))] if count else [found[1]]
        return tuple(labels)

    def _unique(self, name: str) -> str:
        self.count += 1
        return f"{name}${self.count}"

    def _close(self) -> None:
        """End a scope: its branches go to its own labels, if it has them."""
        scope, body = self.scope, self.function.body
        outermost = scope is self.outermost
        if not scope.labels and not self.lists:
            return
        for number in range(scope.start, len(body)):
            statement = body[number]
            if not isinstance(statement, Instruction) or statement.opcode not in ("bra", "brx"):
                continue
            if statement.opcode == "brx" and not statement.labels and len(statement.operands) > 1:
                target = statement.operands[1]
                if isinstance(target, Symbol) and target.name in self.lists:
                    statement = replace(statement, labels=self.lists[target.name])
            labels = scope.labels
            if not outermost:
                operands = tuple([_renamed(operand, labels) for operand in statement.operands])
                targets = tuple(labels.get(name, name) for name in statement.labels)
                statement = replace(statement, operands=operands, labels=targets)
            body[number] = statement

    # ------------------------------------------------------------------ directives
    def _directive(self, found: re.Match[str]) -> None:
        name, position = found[_DIRECTIVE], found.start(_POSITION)
        if name == "loc":
            self.loc, self.position = self.lines.loc(self.position)
        elif name == "reg":
            self._registers(position)
        elif name in SPACES:
            self._variables(name, position)
        elif name == "pragma":
            end = _LIST.match(self.text, self.position)
            if end is None:
                raise self.error(position, "a .pragma without its `;`")
            self.position = end.end()
        elif name == "file":
            self.position = self.text.find("\n", self.position)
        else:
            raise self.error(position, f"the machine does not know the directive .{name}")

    def _registers(self, position: int) -> None:
        """``.reg .b32 %r<100>, a;``"""
        match = _REG.match(self.text, self.position)
        if match is None or match[2] not in TYPE_CODES:
            raise self.error(position, "expected .reg with a type and names")
        self.position = match.end()
        kind = match[2]
        lanes = match[1] or match[3]
        for piece in match[4].split(","):
            name = _REGISTER.fullmatch(piece)
            if name is None:
                raise self.error(
                    position, f"expected the name of a register, got {piece.strip()!r}"
                )
            names = [name[1]]
            if name[2]:
                if int(name[2]) > _MOST_REGISTERS:
                    raise self.error(position, f"{name[2]} registers are too many")
                names = [f"{name[1]}{number}" for number in range(int(name[2]))]
            for one in names:
                self._declare_register(one, kind, lanes, position)
        self.scope.declared()

    def _declare_register(self, name: str, kind: str, lanes: str | None, position: int) -> None:
        scope = self.scope
        if name in scope.registers or name in scope.vectors:
            raise self.error(position, f"register {name} is there twice")
        made = name
        if scope is not self.outermost and name in self.function.registers:
            made = self._unique(name)
        if lanes is None:
            scope.registers[name] = made
            self.function.registers[made] = kind
            return
        parts = tuple(f"{made}.{lane}" for lane in "xyzw"[: int(lanes[1])])
        scope.vectors[name] = parts
        self.function.registers.update(dict.fromkeys(parts, kind))

    def _variables(self, space: str, position: int) -> None:
        tokens = Tokens(self.text, self.position)
        declared = variables(tokens, space, False, self._variable_name)
        self.position = tokens.position
        for name, variable in declared:
            if name in self.scope.variables:
                raise self.error(position, f"variable {name} is there twice")
            self.scope.variables[name] = variable
            self.function.variables[variable.name] = variable
        self.scope.declared()

    def _variable_name(self, name: str) -> str:
        if name in self.function.variables or self.scope.variable(name) is not None:
            return self._unique(name)
        return name


def _renamed(operand: Operand, labels: Mapping[str, str]) -> Operand:
    if isinstance(operand, Symbol) and operand.name in labels:
        return Symbol(labels[operand.name])
    return operand
