"""Debug information: every PTX instruction leads back to a Python line through ``.loc``.

``DebugDirectivesOnly`` gives line directives and nothing else: with line tables LLVM would print
``.target ..., debug``, which makes ptxas generate other code. LLVM 22 knows the call sites of
inlined functions from this, but does not print them as ``inlined_at``.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir

from tiledsl._version import __version__
from tiledsl.errors import UNKNOWN_LOC, Loc


class DebugInfo:
    """The metadata of one module: subprograms and locations."""

    def __init__(self, module: Any, kernel_name: str, loc: Loc) -> None:
        self.module = module
        self._files: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._locations: dict[Loc, Any] = {}
        self._recent: tuple[Loc, Any] = (UNKNOWN_LOC, None)
        self.kernel_file = loc.file
        self.unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": self._file(loc.file),
                "producer": f"tiledsl {__version__}",
                "isOptimized": True,
                "runtimeVersion": 0,
                "emissionKind": ir.DIToken("DebugDirectivesOnly"),
            },
            is_distinct=True,
        )
        self.kernel = self._function(loc.file, kernel_name, loc.line)
        module.add_named_metadata("llvm.dbg.cu", self.unit)
        i32 = ir.IntType(32)
        # Behaviours 2 and 7: a conflicting module gives a warning; the larger version wins.
        module.add_named_metadata("llvm.module.flags", [i32(2), "Debug Info Version", i32(3)])

    def location(self, loc: Loc) -> Any:
        """The ``!dbg`` of an operation at ``loc``."""
        if self._recent[0] is loc and self._recent[1] is not None:
            return self._recent[1]
        found = self._location(loc)
        self._recent = (loc, found)
        return found

    def _location(self, loc: Loc) -> Any:
        if loc in self._locations:
            return self._locations[loc]
        operands: dict[str, Any] = {"line": loc.line, "column": loc.col + 1 if loc.line else 0}
        if loc.call_site is not None:
            operands["scope"] = self._function(loc.file, loc.function or "<inlined>", loc.line)
            operands["inlinedAt"] = self._location(loc.call_site)
        elif loc.line and loc.file != self.kernel_file:
            operands["scope"] = self._other_file(loc.file)
        else:
            operands["scope"] = self.kernel
        node = self.module.add_debug_info("DILocation", operands)
        self._locations[loc] = node
        return node

    def _file(self, path: str) -> Any:
        if path not in self._files:
            # ptxas cannot read a file name with a quotation mark in it, however it is escaped; a
            # name that is not UTF-8 has surrogates, which LLVM IR cannot hold.
            legal = path.replace('"', "'").encode(errors="replace").decode()
            folder, name = os.path.split(legal)
            self._files[path] = self.module.add_debug_info(
                "DIFile", {"filename": name or "<unknown>", "directory": folder}
            )
        return self._files[path]

    def _function(self, path: str, name: str, line: int) -> Any:
        key = (path, name)
        if key not in self._functions:
            file = self._file(path)
            kind = self.module.add_debug_info(
                "DISubroutineType", {"types": self.module.add_metadata([None])}
            )
            self._functions[key] = self.module.add_debug_info(
                "DISubprogram",
                {
                    "name": name,
                    "scope": file,
                    "file": file,
                    "line": line,
                    "type": kind,
                    "unit": self.unit,
                    "spFlags": ir.DIToken("DISPFlagDefinition | DISPFlagOptimized"),
                },
                is_distinct=True,
            )
        return self._functions[key]

    def _other_file(self, path: str) -> Any:
        """The kernel's scope, but in another file (code that an ``exec`` or a template made)."""
        return self.module.add_debug_info(
            "DILexicalBlockFile",
            {"scope": self.kernel, "file": self._file(path), "discriminator": 0},
        )
