"""Golden files: expected texts under ``tests/golden/``, to be read and diffed by people.

The path follows from the test: ``tests/passes/test_expand.py::test_ring[4]`` has
``tests/golden/passes/test_expand/test_ring[4].txt``. ``make golden`` writes them anew.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
GOLDEN = TESTS / "golden"


def golden_path(test_file: Path, test_name: str, suffix: str) -> Path:
    """Where the golden text of a test lies.

    ``test_name`` is pytest's, parameters included; what a file system may refuse becomes ``_``.
    """
    folder = GOLDEN / test_file.resolve().relative_to(TESTS).with_suffix("")
    return folder / (re.sub(r"[^\w.\[\]=+-]", "_", test_name) + suffix)


@dataclass
class Golden:
    """Compares a text with the golden file of one test, or writes it.

    A test calls it with the text; ``suffix`` gives several texts of one test a file each::

        def test_gemm(golden):
            golden(compiled.ir, ".ir")
            golden(compiled.ptx, ".ptx")
    """

    test_file: Path
    test_name: str
    update: bool
    written: list[Path] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def __call__(self, text: str, suffix: str = ".txt") -> None:
        __tracebackhide__ = True
        if suffix in self.used:
            raise AssertionError(
                f"golden(..., {suffix!r}) called twice in {self.test_name}: expected another "
                "suffix for each text"
            )
        self.used.add(suffix)
        path = golden_path(self.test_file, self.test_name, suffix)
        text = text.rstrip("\n") + "\n"
        expected = path.read_text(encoding="utf-8") if path.exists() else None
        if text == expected:
            return
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            self.written.append(path)
            return
        raise AssertionError(_difference(path, expected, text))


def _difference(path: Path, expected: str | None, text: str) -> str:
    shown = path.relative_to(TESTS.parent)
    hint = "hint: if the new text is right, run `make golden` and review the diff"
    if expected is None:
        return f"no golden file {shown}\n{hint}\n--- text ---\n{text}"
    diff = difflib.unified_diff(
        expected.splitlines(), text.splitlines(), f"{shown} (expected)", "got", lineterm="", n=4
    )
    return "\n".join([f"the text differs from {shown}", *diff, hint])
