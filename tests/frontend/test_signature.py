"""What a kernel's signature says about its parameters."""

from __future__ import annotations

import collections.abc
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Optional, Protocol

import pytest

import tiledsl as td
from tests.frontend.programs import define
from tiledsl.errors import SyntaxNotSupported, TypeMismatch
from tiledsl.frontend.build import (
    ConstantSpec,
    Parameter,
    ScalarSpec,
    build_kernel,
    parse_signature,
)

if TYPE_CHECKING:
    from decimal import Decimal

EMPTY = inspect.Parameter.empty


def test_kinds() -> None:
    def kernel(
        a: td.Tensor,
        n: td.int64,
        x,
        y: Any = 3,
        *,
        eps: td.float32 = 1e-6,
        BM: td.Constant[int] = 128,
        shape: td.Constant[tuple[int, int]] = (1, 2),
        flag: td.Constant = None,
    ):
        pass

    assert parse_signature(kernel) == (
        Parameter("a", "tensor"),
        Parameter("n", "scalar", dtype=td.int64),
        Parameter("x", "inferred"),
        Parameter("y", "inferred", default=3),
        Parameter("eps", "scalar", dtype=td.float32, default=1e-6),
        Parameter("BM", "constant", constant_type=int, default=128),
        Parameter("shape", "constant", constant_type=tuple, default=(1, 2)),
        Parameter("flag", "constant", default=None),
    )
    assert parse_signature(kernel)[0].default is EMPTY


class Sized(Protocol):
    def __len__(self) -> int: ...


@pytest.mark.parametrize(
    ("annotation", "types"),
    [
        (td.Constant[int | None], (int, type(None))),
        (td.Constant[Optional[tuple[int, ...]]], (tuple, type(None))),  # noqa: UP045
        (td.Constant[Literal["row"]], (str,)),
        (td.Constant[Callable[..., int]], collections.abc.Callable),
        (td.Constant[int | Any], None),
        (td.Constant[Sized], None),
        (td.Constant[object], object),
    ],
    ids=str,
)
def test_types_of_constants(annotation: Any, types: Any) -> None:
    def kernel(a, *, flag): ...

    kernel.__annotations__["flag"] = annotation
    assert parse_signature(kernel)[1].constant_type == types


def test_annotations_that_are_objects() -> None:
    kernel = define(
        "def kernel(a: td.Tensor, n: td.int32, BM: td.Constant[int] = 4):\n    pass\n", td=td
    )
    assert [p.kind for p in parse_signature(kernel)] == ["tensor", "scalar", "constant"]


def test_local_names_in_annotations() -> None:
    number = td.uint8

    def kernel(a: td.Tensor, n: number):
        return number

    assert parse_signature(kernel)[1].dtype is td.uint8


@pytest.mark.parametrize(
    ("source", "kind", "message", "hint"),
    [
        (
            "def kernel(a: td.Tensor, n: int): pass",
            TypeMismatch,
            "kernel kernel: parameter n is annotated int, which is neither td.Tensor nor a dtype"
            " nor td.Constant[...]",
            "write n: td.int32 for a run-time value, or n: td.Constant[int]",
        ),
        (
            "def kernel(a: list): pass",
            TypeMismatch,
            "kernel kernel: parameter a is annotated list, which is neither td.Tensor nor a dtype"
            " nor td.Constant[...]",
            "write a: td.Tensor, a dtype such as td.int32, for a run-time value, or a:"
            " td.Constant[list]",
        ),
        (
            "def kernel(a: 'td.Tensr'): pass",
            TypeMismatch,
            "kernel kernel: the annotation 'td.Tensr' cannot be resolved: module 'tiledsl' has no"
            " attribute 'Tensr'",
            None,
        ),
        (
            "def kernel(a, *rest): pass",
            SyntaxNotSupported,
            "kernel kernel: parameter *rest",
            "name each parameter; a td.Constant may be a tuple",
        ),
        (
            "def kernel(a, **rest): pass",
            SyntaxNotSupported,
            "kernel kernel: parameter **rest",
            "name each parameter; a td.Constant may be a tuple",
        ),
    ],
)
def test_refused(source: str, kind: type[Exception], message: str, hint: str | None) -> None:
    with pytest.raises(kind) as caught:
        parse_signature(define(source + "\n", td=td))
    error: Any = caught.value
    assert error.message == message
    assert error.hint == hint
    assert error.loc.line == 1


def test_name_for_the_type_checker_only() -> None:
    def kernel(n: Decimal):
        pass

    with pytest.raises(TypeMismatch) as caught:
        parse_signature(kernel)
    assert caught.value.message == (
        "kernel kernel: the annotation 'Decimal' cannot be resolved: name 'Decimal' is not defined"
    )


def test_what_is_no_function() -> None:
    with pytest.raises(TypeMismatch) as caught:
        parse_signature(print)
    assert str(caught.value) == (
        "@td.kernel: expected a Python function, got builtin_function_or_method"
    )


def test_name_and_constants_of_the_kernel() -> None:
    def kernel(n, BM):
        pass

    made = build_kernel(
        kernel,
        {"n": ScalarSpec(td.int32), "BM": ConstantSpec(64)},
        name="größe 2",
        persistent=True,
        warps=8,
        target="sm_90a",
    )
    assert made.name == "gr__e_2"
    assert made.constants == {"BM": "64"}
    assert (made.persistent, made.warps, made.target) == (True, 8, "sm_90a")
    assert [p.name for p in made.params] == ["n"]
    assert made.loc.line == kernel.__code__.co_firstlineno


@pytest.mark.parametrize("thing", [3, functools.partial(print), print, int])
def test_only_functions_can_be_decorated(thing: Any) -> None:
    with pytest.raises(
        TypeMismatch, match=f"expected a Python function, got {type(thing).__name__}"
    ):
        td.kernel(thing)


def test_function_takes_something_callable() -> None:
    with pytest.raises(TypeMismatch, match=r"@td\.function: expected a Python function, got int"):
        td.function(3)  # type: ignore[arg-type]
