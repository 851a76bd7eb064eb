"""The hardware's rules for tensor maps, checked on the host. Needs no CUDA.

Extents, strides and boxes are in the tensor's own order here, innermost last.
"""

from __future__ import annotations

from typing import NoReturn

from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.plan import Im2col, TensorMapSpec
from tiledsl.errors import LaunchError
from tiledsl.runtime.arrays import ArrayArg

ALIGNMENT = 16  # bytes, of the address and of every stride but the innermost
MAX_BOX = 256
MAX_PIXELS = 1024  # of an im2col load
MAX_ELEMENT_STRIDE = 8
MAX_STRIDE = 1 << 40  # bytes, exclusive
MAX_EXTENT = 1 << 32
MAX_RANK = 5
SWIZZLES = (0, 32, 64, 128)
# Bounds of window corners are stored in so many bits each, by the rank of the tensor.
_CORNER_BITS = {3: 16, 4: 8, 5: 5}

_RULE = "(rule of the tensor memory accelerator)"
_CHANGE_TILE = "change the shape of the tile"


def check_tensormap(name: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    """Check every rule of the hardware for a tensor map of ``array``.

    Args:
        name: the argument, for messages.
        array: the argument.
        spec: the map that the kernel wants.

    Raises:
        LaunchError: naming the rule, the argument, what was expected and what came.
    """
    _check_kind(name, array, spec)
    what = _described(name, spec)
    _check_inner(what, spec)
    _check_element_strides(name, what, array, spec)
    if spec.im2col is None:
        _check_box(what, spec)
    else:
        _check_pixels(what, spec)
        _check_corner_bits(what, spec.im2col, array.rank)
    if spec.use == "store" and array.readonly:
        raise LaunchError(
            f"argument {name}: expected a writable array, for the kernel stores to it, got a"
            f" read-only {type(array.owner).__name__}",
            hint=f"pass a writable copy of {name}",
        )
    if array.is_empty:
        return  # a stand-in is encoded, whatever the address and strides are
    if array.pointer % ALIGNMENT:
        raise LaunchError(
            f"argument {name}: expected an address that is a multiple of {ALIGNMENT} bytes"
            f" {_RULE}, got {array.pointer:#x}, which is {array.pointer % ALIGNMENT} bytes past"
            " one",
            hint=f"a slice can start anywhere: pass a copy ({name}.clone() or {name}.copy())",
        )
    for axis, extent in enumerate(array.shape):
        if extent > MAX_EXTENT:
            raise LaunchError(
                f"argument {name}: expected extents up to {MAX_EXTENT} {_RULE}, got {extent} in"
                f" dimension {axis}"
            )
    _check_strides(name, array)
    _check_row_ends(name, array, spec)
    if spec.im2col is not None:
        _check_corners(what, array, spec.im2col)


def spanned(count: int, step: int) -> int:
    """Elements from the first to the last of ``count`` that are ``step`` apart."""
    return (count - 1) * step + 1


def _described(name: str, spec: TensorMapSpec) -> str:
    box = "x".join(str(extent) for extent in spec.box)
    use = spec.use if spec.im2col is None else "im2col load"
    return f"argument {name}: the {use} of {box} {spec.dtype} elements"


def _check_kind(name: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    signed = (array.dtype, spec.dtype) == (dtypes.int64, dtypes.uint64)  # combined: the same bits
    if array.dtype != spec.dtype and not signed:
        raise LaunchError(
            f"argument {name}: expected dtype {spec.dtype}, for which the kernel was compiled, got"
            f" {array.dtype}"
        )
    if not 1 <= array.rank <= MAX_RANK:
        raise LaunchError(
            f"argument {name}: expected rank 1 to {MAX_RANK} {_RULE}, got rank {array.rank}"
        )
    if spec.im2col is None:
        wanted = len(spec.box)
    elif array.rank not in _CORNER_BITS:
        raise LaunchError(
            f"argument {name}: expected rank 3 to {MAX_RANK} for an im2col load {_RULE}, got rank"
            f" {array.rank}",
            hint=f"the dimensions of {name} are (image, 1 to 3 spatial ones, channel)",
        )
    else:
        wanted = len(spec.im2col.lower) + 2
    if wanted != array.rank:
        raise LaunchError(
            f"argument {name}: expected rank {wanted}, for which the kernel was compiled,"
            f" got rank {array.rank}"
        )


def _check_box(what: str, spec: TensorMapSpec) -> None:
    steps = spec.element_strides or (1,) * len(spec.box)
    for axis, (extent, step) in enumerate(zip(spec.box, steps, strict=True)):
        if not 1 <= extent <= MAX_BOX:
            raise LaunchError(
                f"{what}: expected box extents from 1 to {MAX_BOX} {_RULE}, got {extent} in"
                f" dimension {axis}",
                hint=_CHANGE_TILE,
            )
        if spanned(extent, step) > MAX_BOX:
            raise LaunchError(
                f"{what}: expected a box that spans at most {MAX_BOX} elements {_RULE}, got"
                f" {extent} elements that are {step} apart, which span {spanned(extent, step)}, in"
                f" dimension {axis}",
                hint="make the tile smaller there, or load it in parts",
            )


def _check_inner(what: str, spec: TensorMapSpec) -> None:
    """The rows of the box as they lie in shared memory."""
    if spec.swizzle not in SWIZZLES:
        raise LaunchError(f"{what}: expected a swizzle of 0, 32, 64 or 128, got {spec.swizzle}")
    inner = spec.box[-1] * spec.dtype.itemsize
    if not 1 <= spec.box[-1] <= MAX_BOX:
        return  # _check_box says so, with the dimension
    if inner % ALIGNMENT:
        raise LaunchError(
            f"{what}: expected a box whose rows are a multiple of {ALIGNMENT} bytes {_RULE}, got"
            f" {inner} bytes",
            hint=_CHANGE_TILE,
        )
    if spec.swizzle and inner > spec.swizzle:
        raise LaunchError(
            f"{what}: expected box rows of at most the swizzle span, {spec.swizzle} bytes {_RULE},"
            f" got {inner} bytes",
            hint=_CHANGE_TILE,
        )
    if spec.swizzle and inner < spec.swizzle:
        raise LaunchError(
            f"{what}: expected box rows of the swizzle span, {spec.swizzle} bytes, got {inner}"
            f" bytes, which TMA would place {spec.swizzle} bytes apart {_RULE}",
            hint=_CHANGE_TILE,
        )


def _check_row_ends(name: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    """Stores write whole pieces of 16 bytes (seen on an H200), also behind the end of a row."""
    row = array.shape[-1] * spec.dtype.itemsize
    if spec.use != "store" or row % ALIGNMENT == 0:
        return
    more = -row % ALIGNMENT
    raise LaunchError(
        f"argument {name}: expected rows of a multiple of {ALIGNMENT} bytes, for the kernel stores"
        f" to it by TMA, got {array.shape[-1]} elements of {spec.dtype}: a store would also change"
        f" the {more} bytes behind each row {_RULE}",
        hint=f"pass an array with {more // spec.dtype.itemsize} more columns, or store with"
        " td.store, which writes single elements",
    )


def _check_element_strides(name: str, what: str, array: ArrayArg, spec: TensorMapSpec) -> None:
    if not spec.element_strides:
        return
    if len(spec.element_strides) != array.rank:
        raise LaunchError(
            f"{what}: expected {array.rank} element strides, one a dimension, got"
            f" {spec.element_strides}"
        )
    for axis, step in enumerate(spec.element_strides):
        if not 1 <= step <= MAX_ELEMENT_STRIDE:
            raise LaunchError(
                f"{what}: expected element strides from 1 to {MAX_ELEMENT_STRIDE} {_RULE}, got"
                f" {step} in dimension {axis}",
                hint=f"pass a view that skips elements, such as {name}[::{step}]"
                if step > MAX_ELEMENT_STRIDE
                else None,
            )
    if spec.element_strides[-1] != 1:
        raise LaunchError(
            f"{what}: expected an element stride of 1 in the innermost dimension {_RULE}, got"
            f" {spec.element_strides[-1]}",
            hint="load the elements in between as well, and skip them when you read the tile",
        )


def _check_pixels(what: str, spec: TensorMapSpec) -> None:
    """The box of an im2col load: pixels and channels."""
    if len(spec.box) != 2:
        raise LaunchError(f"{what}: expected pixels and channels, got {len(spec.box)} extents")
    for count, limit, of in zip(
        spec.box, (MAX_PIXELS, MAX_BOX), ("pixels", "channels"), strict=True
    ):
        if not 1 <= count <= limit:
            raise LaunchError(
                f"{what}: expected 1 to {limit} {of} {_RULE}, got {count}", hint=_CHANGE_TILE
            )


def _check_corner_bits(what: str, im2col: Im2col, rank: int) -> None:
    if len(im2col.upper) != len(im2col.lower):
        raise LaunchError(
            f"{what}: expected as many upper as lower bounds, got {im2col.upper} and {im2col.lower}"
        )
    limit = 1 << (_CORNER_BITS[rank] - 1)
    for which, bounds in (("lower", im2col.lower), ("upper", im2col.upper)):
        for axis, bound in enumerate(bounds, start=1):
            if not -limit <= bound < limit:
                raise LaunchError(
                    f"{what}: expected {which} bounds of the window corners from {-limit} to"
                    f" {limit - 1} in a tensor of rank {rank} {_RULE}, got {bound} in dimension"
                    f" {axis}",
                    hint="pad the tensor in memory, or use a smaller filter or dilation",
                )


def _check_corners(what: str, array: ArrayArg, im2col: Im2col) -> None:
    """There must be at least one window."""
    for axis, (lower, upper) in enumerate(zip(im2col.lower, im2col.upper, strict=True), start=1):
        last = array.shape[axis] - 1 + upper
        if last < lower:
            raise LaunchError(
                f"{what}: expected at least one window corner in dimension {axis} {_RULE}, got"
                f" corners from {lower} to {last} in an extent of {array.shape[axis]}",
                hint="the filter is larger than the padded tensor: there is nothing to compute",
            )


def _check_strides(name: str, array: ArrayArg) -> None:
    """Strides of dimensions with more than one element; others are never stepped along."""
    stepped = [(axis, array.strides[axis]) for axis, extent in enumerate(array.shape) if extent > 1]
    for axis, stride in stepped:
        if stride <= 0:
            kind = "zero" if stride == 0 else "negative"
            raise LaunchError(
                f"argument {name}: expected positive strides {_RULE}, got a {kind} stride"
                f" ({stride} elements) in dimension {axis}",
                hint=f"a broadcast or flipped view must be copied: {name}.contiguous() or"
                f" {name}.copy()",
            )
    # The innermost first: of a transposed array all strides are wrong, but this says why.
    for axis, stride in reversed(stepped):
        if axis == array.rank - 1:
            if stride != 1:
                _refuse_inner(name, array, stride)
            continue
        nbytes = stride * array.dtype.itemsize
        if nbytes % ALIGNMENT:
            _refuse_pitch(name, array, axis, nbytes)
        if nbytes >= MAX_STRIDE:
            raise LaunchError(
                f"argument {name}: expected strides below 2**40 bytes {_RULE}, got {nbytes} bytes"
                f" in dimension {axis}"
            )


def _refuse_inner(name: str, array: ArrayArg, stride: int) -> NoReturn:
    transposed = next((axis for axis, step in enumerate(array.strides) if step == 1), None)
    hint = f"pass a contiguous copy of {name}"
    if transposed is not None:
        hint = (
            f"{name} looks transposed (dimension {transposed} is the contiguous one): pass it the"
            f" other way round and index it so in the kernel, or {hint}"
        )
    raise LaunchError(
        f"argument {name}: expected an innermost stride of 1 element {_RULE}, got {stride},"
        f" strides {array.strides}",
        hint=hint,
    )


def _refuse_pitch(name: str, array: ArrayArg, axis: int, nbytes: int) -> NoReturn:
    step = ALIGNMENT // array.dtype.itemsize
    columns = array.shape[-1]
    padded = -(-columns // step) * step
    if padded == columns:  # a slice of something wider
        hint = f"pass a contiguous copy of {name}, whose rows are {columns} elements"
    else:
        hint = (
            f"pad the rows of {name}: allocate {padded} columns and slice [..., :{columns}], which"
            f" keeps the rows {padded * array.dtype.itemsize} bytes apart"
        )
    raise LaunchError(
        f"argument {name}: expected a stride that is a multiple of {ALIGNMENT} bytes in dimension"
        f" {axis} {_RULE}, got {nbytes} bytes ({array.strides[axis]} {array.dtype} elements)",
        hint=hint,
    )
