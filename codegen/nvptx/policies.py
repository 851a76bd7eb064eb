"""L2 cache policies: what an eviction hint becomes in PTX."""

from __future__ import annotations

from typing import Any

from tiledsl.codegen.ir.ops.tile import CACHE_HINTS
from tiledsl.codegen.nvptx.context import Lowering
from tiledsl.codegen.nvptx.llvm_ext import I64
from tiledsl.errors import InternalError


def cache_policy(low: Lowering, cache: str | None) -> tuple[str, list[tuple[str, Any]]]:
    """The suffix of a copy's opcode, and its last operand, for an eviction hint.

    The policy is made once, in the entry block: it stays in two registers from there on.
    """
    if cache is None:
        return "", []
    if cache not in CACHE_HINTS:
        raise InternalError(f"unknown cache hint {cache!r}")
    if cache not in low.policies:
        with low.builder.goto_entry_block():
            low.policies[cache] = low.asm(
                f"createpolicy.fractional.L2::{cache}.b64 $0, 1.0;",
                outputs="=l",
                result=I64,
                pure=True,
            )
    return ".L2::cache_hint", [("l", low.policies[cache])]
