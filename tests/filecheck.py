"""LLVM's FileCheck, in-process: assert what a text contains, in which order.

The directives stand in a string, or as comments in the kernel whose text is checked::

    @td.kernel
    def copy(x: td.Tensor):
        # CHECK: mbarrier.try_wait.parity
        # CHECK: .loc {{[0-9]+}} [[# @LINE + 1]]
        with producer.acquire() as stage:
            ...

    filecheck_function(copy.compile(...).ptx, copy)

``[[# @LINE + 1]]`` is the line of the Python file, one below the directive. With several texts of
one kernel give each its own prefix: ``# IR: ...`` and ``# PTX: ...``.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

# FileCheck's own `COM` and `RUN` would silence every directive behind such letters in the code.
_COMMENT_PREFIX = "NOCHECK:"


def filecheck(
    text: str,
    directives: str,
    *,
    prefix: str = "CHECK",
    variables: dict[str, str | int] | None = None,
    directives_file: str = "<directives>",
) -> None:
    """Assert that ``text`` satisfies the ``CHECK``, ``CHECK-NEXT``, ... lines in ``directives``.

    Args:
        text: what is checked: IR, LLVM IR, PTX, SASS or a message.
        directives: any text; only lines with ``prefix:`` or ``prefix-KIND:`` count.
        prefix: the directives' prefix.
        variables: values for ``[[NAME]]``, and numbers for ``[[#NAME]]``.
        directives_file: how failures name the place of a directive.

    Raises:
        AssertionError: with FileCheck's message and the whole text. Also when there is no
            directive at all, so that a misspelt prefix cannot pass.
    """
    __tracebackhide__ = True
    options = Options(
        match_filename=directives_file,
        input_file="<text>",
        check_prefixes=[prefix],
        comment_prefixes=[_COMMENT_PREFIX],
        variables=dict(variables or {}),
    )
    parser = Parser(options, io.StringIO(directives), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("<text>", FInput.canonicalize_line_ends(text)), parser)
    matcher.stderr = io.StringIO()
    if matcher.run() != 0:
        raise AssertionError(f"{matcher.stderr.getvalue()}\n--- text ---\n{text}")


def filecheck_function(
    text: str,
    function: Callable[..., Any],
    *,
    prefix: str = "CHECK",
    variables: dict[str, str | int] | None = None,
) -> None:
    """:func:`filecheck` with the directives in the source of ``function``.

    A decorated function is looked through (``__wrapped__``), so a kernel can be passed as it is.
    """
    __tracebackhide__ = True
    function = inspect.unwrap(function)
    lines, first = inspect.getsourcelines(function)
    # Empty lines in front make every line number the one of the Python file.
    directives = "\n" * (first - 1) + "".join(lines)
    filecheck(
        text,
        directives,
        prefix=prefix,
        variables=variables,
        directives_file=inspect.getsourcefile(function) or "<source>",
    )
