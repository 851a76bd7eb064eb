"""``x[i]``, read and written, and ``i in x``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiledsl.codegen.ir.core import Value
from tiledsl.codegen.ir.ops.arith import Binary
from tiledsl.codegen.ir.ops.tile import TensorDim, TensorLoad, TensorStore
from tiledsl.codegen.ir.types import TensorType
from tiledsl.frontend import overloads
from tiledsl.frontend.aggregates import contains_value
from tiledsl.frontend.objects import TracedObject
from tiledsl.frontend.registry import method_of

if TYPE_CHECKING:
    from tiledsl.frontend.context import Context


def load(cx: Context, base: Any, index: Any) -> Any:
    """The value of ``base[index]``."""
    if isinstance(base, Value):
        if isinstance(base.type, TensorType):
            return cx.emit(TensorLoad(base, _indices(cx, base, index)))
        found = method_of(base.type, "__getitem__")
        if found is None:
            raise cx.type_error(f"{cx.describe(base)} cannot be indexed")
        return found(cx, base, index)
    if isinstance(base, TracedObject):
        return base.item(cx, index)
    user = overloads.method(base, "__getitem__")
    if user is not None:
        return cx.call(user, base, index)
    _check_static(cx, base, index)
    try:
        result = base[index]
    except KeyError:
        known = ", ".join(map(repr, base)) if isinstance(base, dict) else ""
        raise cx.value_error(
            f"no key {index!r} in {cx.describe(base)}", hint=f"it has: {known}" if known else None
        ) from None
    except (IndexError, ValueError) as error:
        raise cx.value_error(f"index {index!r} of {cx.describe(base)}: {error}") from None
    except TypeError:
        raise cx.type_error(
            f"{cx.describe(base)} cannot be indexed with {cx.describe(index)}",
            hint=f"write {base.__name__}(...)" if isinstance(base, type) else None,
        ) from None
    return cx.made(result) if isinstance(result, list) and result is not base else result


def store(cx: Context, base: Any, index: Any, value: Any) -> None:
    """``base[index] = value``."""
    if isinstance(base, Value):
        if isinstance(base.type, TensorType):
            indices = _indices(cx, base, index)
            cx.add(TensorStore(cx.scalar(value, base.type.dtype), base, indices))
            return
        found = method_of(base.type, "__setitem__")
        if found is None:
            raise cx.type_error(f"items of {cx.describe(base)} cannot be assigned")
        found(cx, base, index, value)
        return
    user = _user_method(base, "__setitem__")
    if user is not None:
        cx.call(user, base, index, value)
        return
    if not isinstance(base, list | dict):
        raise cx.type_error(f"items of {cx.describe(base)} cannot be assigned")
    if not cx.is_made_here(base):
        raise cx.type_error(
            f"items of {cx.describe(base)} that the kernel did not make cannot be assigned",
            hint="copy it first, such as list(x) or dict(x)",
        )
    cx.origins.check_change(cx, base)
    _check_static(cx, base, index)
    try:
        base[index] = value
    except (IndexError, TypeError, ValueError) as error:
        raise cx.value_error(f"index {index!r} of {cx.describe(base)}: {error}") from None


def contains(cx: Context, container: Any, item: Any) -> Any:
    """``item in container``: for run-time items, whether it equals one of them."""
    user = None if isinstance(container, TracedObject) else _user_method(container, "__contains__")
    if user is not None:
        return cx.call(user, container, item)
    if isinstance(container, Value | TracedObject):
        raise cx.type_error(f"`in` does not exist for {cx.describe(container)}")
    if not contains_value(item) and not contains_value(container):
        try:
            return item in container
        except TypeError as error:
            raise cx.type_error(f"`in`: {error}") from None
    if isinstance(container, range):
        return _in_range(cx, container, item)
    if not isinstance(container, tuple | list | set | frozenset | dict):
        raise cx.type_error(
            f"`in` does not exist for {cx.describe(item)} and {cx.describe(container)}"
        )
    result: Any = False
    for element in container:
        equal = cx.compare("eq", item, element)
        if equal is True:
            return True
        if equal is not False:
            result = equal if result is False else cx.emit(Binary("or", result, equal))
    return result


def _in_range(cx: Context, container: range, item: Any) -> Any:
    if not container:
        return False
    low, high = sorted((container[0], container[-1]))
    inside = cx.emit(
        Binary(
            "and",
            cx.boolean(cx.compare("ge", item, low)),
            cx.boolean(cx.compare("le", item, high)),
        )
    )
    if abs(container.step) == 1:
        return inside
    offset = cx.binary("mod", cx.binary("sub", item, low), abs(container.step))
    return cx.emit(Binary("and", inside, cx.boolean(cx.compare("eq", offset, 0))))


def _user_method(base: Any, name: str) -> Any:
    if isinstance(base, TracedObject):
        found = getattr(type(base), name, None)
        return found if getattr(found, "__tiledsl_traced__", False) else None
    return overloads.method(base, name)


def _check_static(cx: Context, base: Any, index: Any) -> None:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    for part in parts:
        if contains_value(part):
            raise cx.type_error(
                f"{cx.describe(base)} is indexed with {cx.describe(part)}: the index must be known"
                " at compile time",
                hint="unroll the loop with td.static_range, or select with a conditional",
            )


def _indices(cx: Context, tensor: Value, index: Any) -> tuple[Value, ...]:
    """One int32 for each dimension of a tensor."""
    assert isinstance(tensor.type, TensorType)
    rank = tensor.type.rank
    given = tuple(index) if isinstance(index, tuple | list) else (index,)
    if any(isinstance(i, slice) or i is None or i is Ellipsis for i in given):
        raise cx.type_error(
            f"{cx.describe(tensor)} is sliced: expected one integer for each dimension",
            hint="td.tma_load copies a tile of a tensor to shared memory",
        )
    if len(given) != rank:
        wanted = "1 index" if rank == 1 else f"{rank} indices"
        raise cx.type_error(f"expected {wanted} for {cx.describe(tensor)}, got {len(given)}")
    found: list[Value] = []
    for axis, i in enumerate(given):
        if isinstance(i, int) and i < 0:
            # As in Python, counted from the end.
            i = cx.binary("add", cx.emit(TensorDim(tensor, axis)), i)
        found.append(cx.int32(i))
    return tuple(found)
