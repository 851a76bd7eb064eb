"""What did the compiler derive of a kernel? A table and a picture, for ``kernel.explain``."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property

from tiledsl.codegen.explain.facts import Collector, Facts
from tiledsl.codegen.explain.picture import picture
from tiledsl.codegen.explain.table import table

__all__ = ["Collector", "Explanation", "Facts"]


@dataclass(frozen=True)
class Explanation:
    """The derived facts of one variant of a kernel.

    ``print`` shows them as a table; a notebook shows a picture of roles, rings and stages above
    it. The compiler made all of it from the program: nothing has to be stated by hand.

    Attributes:
        facts: the same as data.
    """

    facts: Facts

    @cached_property
    def text(self) -> str:
        """The table."""
        return table(self.facts)

    @cached_property
    def svg(self) -> str:
        """The picture, a document of its own: write it to a file that ends in ``.svg``."""
        return picture(self.facts)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div>{self.svg}<pre style="line-height:1.25">{html.escape(self.text)}</pre></div>'
