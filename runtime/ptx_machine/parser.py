"""PTX text -> syntax.Module. Here: what a module declares; body.py reads bodies of functions."""

from __future__ import annotations

import re

from tiledsl.runtime.ptx_machine.body import Body
from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.lexer import Tokens, without_comments
from tiledsl.runtime.ptx_machine.lines import Lines
from tiledsl.runtime.ptx_machine.syntax import Function, Module, Parameter, Variable
from tiledsl.runtime.ptx_machine.variables import SPACES, parameters, variables

__all__ = ["parse"]

_LINKAGE = (".visible", ".extern", ".weak", ".common")
# Directives of a function, and how many numbers may follow.
_DIRECTIVES = {
    ".reqntid": 3, ".maxntid": 3, ".minnctapersm": 1, ".maxnctapersm": 1, ".maxnreg": 1,
    ".reqnctapercluster": 3, ".explicitcluster": 0, ".maxclusterrank": 1, ".noreturn": 0,
    ".blocksareclusters": 0, ".abi_preserve": 1, ".abi_preserve_control": 1, ".unique": 0,
}  # fmt: skip


def parse(text: str) -> Module:
    """Read a PTX module.

    Raises:
        DecodeError: what is wrong, with its PTX line.
    """
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.source = text
        self.text = without_comments(text)
        self.tokens = Tokens(self.text)
        self.lines = Lines(self.text)
        self.version, self.target = (0, 0), ""
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.aliases: dict[str, tuple[str, int]] = {}

    def module(self) -> Module:
        tokens = self.tokens
        linkage: list[str] = []
        while token := tokens.peek():
            if token in _LINKAGE:
                linkage.append(tokens.take())
                continue
            extern = ".extern" in linkage
            if token in (".entry", ".func"):
                self._function(tokens.take() == ".entry")
            elif token[1:] in SPACES and token[0] == ".":
                self._variables(tokens.take()[1:], extern)
            else:
                self._directive(token)
            linkage = []
        if not self.version[0]:
            raise DecodeError("this is no PTX: it has no .version")
        self._resolve_aliases()
        return Module(self.version, self.target, self.functions, self.variables, self.source)

    def _directive(self, token: str) -> None:
        tokens = self.tokens
        if token == ".version":
            tokens.take()
            found = tokens.take()
            if not re.fullmatch(r"\d+\.\d+", found):
                raise tokens.error(f"expected a version such as 8.0, got {found!r}")
            major, _, minor = found.partition(".")
            self.version = int(major), int(minor)
        elif token == ".target":
            tokens.take()
            self.target = tokens.name()
            while tokens.accept(","):
                tokens.name()
        elif token == ".address_size":
            tokens.take()
            if (bits := tokens.integer()) != 64:
                raise tokens.error(f"the machine has addresses of 64 bits, not {bits}")
        elif token in (".file", ".loc", "@@"):
            tokens.skip_line()
        elif token == ".section":
            self._section()
        elif token == ".pragma":
            tokens.take()
            while not tokens.accept(";"):
                tokens.take()
        elif token == ".alias":
            tokens.take()
            line, name = tokens.line, tokens.name()
            tokens.expect(",")
            self.aliases[name] = tokens.name(), line
            tokens.expect(";")
        elif token == ";":
            tokens.take()
        else:
            raise tokens.error(f"expected a declaration, got {token!r}")

    def _section(self) -> None:
        """Debug data, which no program reads: up to its closing brace."""
        tokens = self.tokens
        opened = self.text.find("{", tokens.position)
        closed = self.text.find("}", opened)
        if opened < 0 or closed < 0:
            raise tokens.error("a section without an end")
        tokens.seek(closed + 1)

    def _variables(self, space: str, extern: bool) -> None:
        tokens = self.tokens
        if space == "reg":
            raise tokens.error("registers are declared in functions")
        for name, variable in variables(tokens, space, extern, lambda name: name):
            known = self.variables.get(name)
            if known is None or known.extern:
                self.variables[name] = variable
            elif not extern:
                raise tokens.error(f"variable {name} is there twice")

    # ------------------------------------------------------------------ functions
    def _function(self, entry: bool) -> None:
        tokens = self.tokens
        results: tuple[Parameter, ...] = ()
        self._attributes()
        if not entry and tokens.accept("("):
            results = parameters(tokens)
        line, name = tokens.line, tokens.name()
        taken = parameters(tokens) if tokens.accept("(") else ()
        directives = self._function_directives()
        function = Function(name, entry, taken, results, directives=directives, line=line)
        known = self.functions.get(name)
        if tokens.peek() == "{":
            if known is not None and known.defined:
                raise tokens.error(f"function {name} is there twice")
            tokens.take()
            body = Body(function, self.text, tokens.position, self.lines, self.variables)
            tokens.seek(body.read())
            function.defined = True
            self.functions[name] = function
            return
        tokens.expect(";")
        self.functions.setdefault(name, function)

    def _attributes(self) -> None:
        while self.tokens.accept(".attribute"):
            self.tokens.expect("(")
            while not self.tokens.accept(")"):
                self.tokens.take()

    def _function_directives(self) -> dict[str, tuple[int, ...]]:
        tokens, found = self.tokens, {}
        while (token := tokens.peek()) not in ("{", ";"):
            if token == ".pragma":
                self._directive(token)
                continue
            if token == ".attribute":
                self._attributes()
                continue
            if token not in _DIRECTIVES:
                raise tokens.error(f"expected a directive of a function or its body, got {token!r}")
            tokens.take()
            numbers: list[int] = []
            if _DIRECTIVES[token]:
                numbers.append(tokens.integer())
                while len(numbers) < _DIRECTIVES[token] and tokens.accept(","):
                    numbers.append(tokens.integer())
            found[token[1:]] = tuple(numbers)
        return found

    def _resolve_aliases(self) -> None:
        for name, (target, line) in self.aliases.items():
            if target not in self.functions:
                raise DecodeError(f"PTX line {line}: there is no function {target}")
            self.functions[name] = self.functions[target]
