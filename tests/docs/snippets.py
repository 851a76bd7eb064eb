"""Python snippets in Markdown documents: found, run, and their shown output compared.

A document is one program: its ```` ```python ```` blocks run in order, in one namespace, each
from a file of its own (``guide_1.py``, ...), so that kernels have a source and errors a line. Words
behind ``python`` say more:

* ``raises=StageError``: the block must raise that error;
* ``gpu``: needs a GPU and PyTorch; elsewhere it is only checked for syntax.

A ```` ```sh run ```` block is a command ``python -m tiledsl ...``, run in between; ``status=1``
says how it must end.

A ```` ```text output ```` block that follows shows what the block prints, or the message of its
error, exactly; a line ``...`` stands for any number of lines. ``make golden`` writes it anew.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)


@dataclass(slots=True)
class Snippet:
    """One block of code, where it stands, and the output that is shown behind it."""

    number: int
    code: str
    words: list[str]
    line: int  # of the document, of the first line of code
    output: str | None = None
    output_span: tuple[int, int] = (0, 0)  # characters of the document
    language: str = "python"

    @property
    def raises(self) -> str | None:
        found = [word.removeprefix("raises=") for word in self.words if word.startswith("raises=")]
        return found[0] if found else None

    @property
    def status(self) -> int:
        """How a command must end."""
        found = [word.removeprefix("status=") for word in self.words if word.startswith("status=")]
        return int(found[0]) if found else 0

    @property
    def needs_gpu(self) -> bool:
        return "gpu" in self.words


@dataclass(slots=True)
class Outcome:
    """What one snippet printed, or the message of the error that it had to raise."""

    snippet: Snippet
    text: str
    problem: str = ""


@dataclass(slots=True)
class Document:
    path: Path
    text: str
    snippets: list[Snippet] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Document:
        """The document with its snippets."""
        document = cls(path, path.read_text(encoding="utf-8"))
        for match in _FENCE.finditer(document.text):
            language, *words = match["info"].split() or [""]
            if language == "python" or (language == "sh" and "run" in words):
                line = document.text.count("\n", 0, match.start("body")) + 1
                number = len(document.snippets) + 1
                document.snippets.append(
                    Snippet(number, match["body"], words, line, language=language)
                )
            elif (language, words) == ("text", ["output"]):
                if not document.snippets or document.snippets[-1].output is not None:
                    raise AssertionError(f"{path.name}: an output that follows no snippet")
                document.snippets[-1].output = match["body"]
                document.snippets[-1].output_span = match.span("body")
        return document

    def run(self, folder: Path, namespace: dict[str, Any], gpu: bool) -> list[Outcome]:
        """Run the snippets in order; stops at the first that fails.

        Args:
            folder: the working directory, into which the snippets are written.
            namespace: names that the document may take for granted; the snippets add theirs.
            gpu: whether there is a GPU for snippets that need one.
        """
        outcomes = []
        for snippet in self.snippets:
            if snippet.language == "sh":
                outcome = _run_command(snippet)
                outcomes.append(outcome)
                if outcome.problem:
                    outcome.problem = f"{self.path.name}:{snippet.line}: {outcome.problem}"
                    return outcomes
                continue
            name = f"{self.path.stem.lower()}_{snippet.number}.py"
            (folder / name).write_text(snippet.code, encoding="utf-8")
            code = compile(snippet.code, name, "exec", dont_inherit=True)
            if snippet.needs_gpu and not gpu:
                continue
            outcome = _run(snippet, code, namespace)
            if outcome.problem:
                where = f"{self.path.name}:{snippet.line}"
                outcome.problem = f"{where}: {outcome.problem}\n--- printed ---\n{outcome.text}"
                return [*outcomes, outcome]
            outcomes.append(outcome)
        return outcomes

    def with_outputs(self, outcomes: list[Outcome]) -> str:
        """The document's text with the outputs that the snippets really have."""
        text = self.text
        for outcome in reversed(outcomes):
            if outcome.snippet.output is not None and not same(
                outcome.snippet.output, outcome.text
            ):
                start, end = outcome.snippet.output_span
                text = text[:start] + outcome.text.rstrip("\n") + "\n" + text[end:]
        return text


def _run(snippet: Snippet, code: Any, namespace: dict[str, Any]) -> Outcome:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
    except Exception as error:
        kind = type(error).__name__
        if snippet.raises in {base.__name__ for base in type(error).__mro__}:
            return Outcome(snippet, f"{snippet.raises}: {error}\n")
        return Outcome(snippet, printed.getvalue(), f"raised {kind}: {error}")
    if snippet.raises:
        return Outcome(snippet, printed.getvalue(), f"did not raise {snippet.raises}")
    return Outcome(snippet, printed.getvalue())


def _run_command(snippet: Snippet) -> Outcome:
    """Run a command of our own in this process: it would start the interpreter anew each time."""
    from tiledsl.cli import main

    words = shlex.split(snippet.code.replace("\\\n", " "), comments=True)
    if words[:3] != ["python", "-m", "tiledsl"]:
        raise AssertionError(f"expected a command 'python -m tiledsl ...', got {snippet.code!r}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            status = main(words[3:])
        except SystemExit as error:  # argparse's
            status = int(error.code or 0)
    text = printed.getvalue()
    if status != snippet.status:
        return Outcome(snippet, text, f"ended with status {status}, not {snippet.status}:\n{text}")
    return Outcome(snippet, text)


def same(shown: str, real: str) -> bool:
    """Is the shown output the real one? A line ``...`` stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"[ \t]*\n"
        for line in shown.rstrip("\n").split("\n")
    )
    return re.fullmatch(pattern, real.rstrip("\n") + "\n") is not None
