"""The trace of one kernel: its statements, run once, leave tile-level IR."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tiledsl.codegen.ir.core import Block, Value
from tiledsl.codegen.ir.kernel import Kernel, Param
from tiledsl.codegen.ir.types import Scalar, TensorType
from tiledsl.codegen.ir.verifier import verify
from tiledsl.errors import InvalidValue
from tiledsl.frontend import intrinsics as _intrinsics  # noqa: F401  (registers itself)
from tiledsl.frontend.build import ConstantSpec, ParamSpec, TensorSpec
from tiledsl.frontend.context import Context
from tiledsl.frontend.scope import Frame
from tiledsl.frontend.source import source_of
from tiledsl.frontend.statements import run_block

_RECURSION = 20_000  # of Python: tracing one level of the user's nesting takes a dozen of ours


def trace_kernel(
    function: types.FunctionType,
    params: Mapping[str, ParamSpec],
    *,
    name: str,
    persistent: bool,
    warps: int | None,
    target: str,
    cluster: tuple[int, ...] | None = None,
) -> Kernel:
    """See ``build.build_kernel``."""
    source = source_of(function)
    body = Block()
    cx = Context(body, target=target, warps=warps, cluster=cluster, persistent=persistent)
    cx.loc = source.loc(source.node)
    frame = Frame(cx, source, kind="kernel", function=function)
    found: list[Param] = []
    constants: dict[str, str] = {}
    for parameter in inspect.signature(function, follow_wrapped=False).parameters:
        spec = params[parameter]
        if isinstance(spec, ConstantSpec):
            constants[parameter] = repr(spec.value)
            frame.assign(parameter, spec.value)
            continue
        if isinstance(spec, TensorSpec):
            type: TensorType | Scalar = TensorType(spec.dtype, spec.rank)
        else:
            type = Scalar(spec.dtype)
        value = Value(type, source.loc(source.locals[parameter]), parameter)
        found.append(Param(parameter, value))
        frame.assign(parameter, value)
    cx.frames.append(frame)
    with _deep_recursion():
        run_block(frame, source.statements)
    kernel = Kernel(
        name=_ptx_name(name),
        params=found,
        body=body,
        persistent=persistent,
        warps=warps,
        target=target,
        cluster=cluster or (1,),
        loc=source.loc(source.node),
        constants=constants,
        captured=tuple(cx.captured.values()),
    )
    verify(kernel, "frontend")
    return kernel


@contextmanager
def _deep_recursion() -> Iterator[None]:
    saved = sys.getrecursionlimit()
    sys.setrecursionlimit(max(saved, _RECURSION))
    try:
        yield
    except RecursionError:
        raise InvalidValue("the kernel is nested too deeply to be traced") from None
    finally:
        sys.setrecursionlimit(saved)


# A constant of PTX, and what the lowering calls its functions and dynamic shared memory.
_TAKEN = frozenset({"WARP_SZ", "vprintf", "tiledsl_shared", "tiledsl_fmod_f32", "tiledsl_fmod_f64"})


def _ptx_name(name: str) -> str:
    """A legal PTX identifier, of ASCII letters, digits and underscores, that means nothing else."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    legal = text[:1].isalpha() and text not in _TAKEN
    return text if legal else f"k{text}"
