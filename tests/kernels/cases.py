"""The GEMM cases that the emulator and the GPU both go through, and how one is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

from tests.kernels import control_flow, gemm
from tests.kernels.oracle import (
    Arrays,
    Reference,
    accumulated,
    difference,
    inside,
    reference,
    round_to,
    untouched,
)

INPUTS = ("bfloat16", "float16")
OUTPUTS = ("bfloat16", "float16", "float32")
DTYPE_PAIRS = tuple(product(INPUTS, OUTPUTS))

# With edges around the tile sizes. N and K are multiples of 8, as the row pitch of c, a and b must
# be a multiple of 16 bytes; M is free.
ROWS = (1, 63, 64, 127, 128, 129, 256, 1000)
COLUMNS = (8, 64, 136, 255 * 8, 512)
DEPTHS = (8, 64, 72, 1000, 4096)
SHAPES = tuple(product(ROWS, COLUMNS, DEPTHS))

Config = dict[str, int]


def config(BM: int, BN: int, BK: int, stages: int, warps: int) -> Config:
    return {"BM": BM, "BN": BN, "BK": BK, "stages": stages, "warps": warps}


# Between them: one to three warpgroups with one to four blocks of 64 rows each, every swizzle of
# inputs and outputs, odd numbers of output chunks, one stage to six.
CONFIGS = (
    config(128, 256, 64, 4, 8),
    config(64, 64, 64, 3, 4),
    config(64, 8, 16, 2, 4),
    config(128, 128, 32, 6, 8),
    config(256, 128, 64, 3, 8),
    config(64, 256, 64, 1, 4),
    config(128, 136, 64, 2, 8),
    config(192, 160, 64, 2, 12),
    config(128, 64, 128, 2, 4),
    config(256, 32, 64, 5, 4),
    config(64, 24, 32, 4, 4),
    config(128, 256, 16, 5, 8),
)


def config_id(chosen: Config) -> str:
    return "{BM}x{BN}x{BK}-{stages}stages-{warps}warps".format(**chosen)


def run(
    arrays: Arrays, shape: tuple[int, int, int], dtypes: tuple[str, str], config: Config
) -> None:
    """One GEMM of a, b and c that fill their memory."""
    m, n, k = shape
    a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
    c = arrays.poisoned((m, n), dtypes[1])
    gemm.gemm(a, b, c, **config)
    wrong = difference(c, reference(a, b, dtypes[1], arrays.xp), arrays.xp)
    assert not wrong, f"{m}x{n}x{k} {dtypes[0]} -> {dtypes[1]}, {config_id(config)}: {wrong}"


def run_views(
    arrays: Arrays, shape: tuple[int, int, int], dtypes: tuple[str, str], config: Config
) -> None:
    """One GEMM of matrices that lie in larger ones full of NaN, which must stay out of it."""
    m, n, k = shape
    (a, _), (b, _) = inside(arrays, (m, k), dtypes[0]), inside(arrays, (n, k), dtypes[0])
    c, whole = inside(arrays, (m, n), dtypes[1])
    a[...], b[...] = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
    gemm.gemm(a, b, c, **config)
    wrong = difference(c, reference(a, b, dtypes[1], arrays.xp), arrays.xp)
    assert not wrong, wrong
    assert untouched(whole, (m, n), arrays.xp), "written outside of c"


# -------------------------------------------------------------- kernels in other forms

Case = Callable[[Arrays, tuple[str, str]], Iterator[str]]


def _checked(c: Any, expected: Reference, arrays: Arrays, what: str) -> str:
    wrong = difference(c, expected, arrays.xp)
    return f"{what}: {wrong}" if wrong else ""


def nn(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """b as (K, N), in several tile shapes."""
    for (m, n, k), chosen in (
        ((200, 264, 136), config(128, 256, 64, 4, 8)),
        ((65, 40, 72), config(64, 32, 32, 2, 4)),
        ((129, 200, 1000), config(128, 128, 64, 3, 4)),
        ((64, 16, 64), config(64, 16, 16, 2, 4)),
        ((256, 192, 200), config(128, 192, 128, 2, 8)),
    ):
        a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((k, n), dtypes[0])
        c = arrays.poisoned((m, n), dtypes[1])
        gemm.gemm_nn(a, b, c, **chosen)
        expected = reference(a, b.T, dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"{m}x{n}x{k} {config_id(chosen)}")


def tn(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """a as (K, M) and b as (K, N)."""
    for (m, n, k), chosen in (
        ((200, 264, 136), config(128, 128, 64, 4, 8)),
        ((72, 40, 71), config(64, 32, 32, 2, 4)),
        ((264, 200, 1001), config(256, 64, 64, 3, 8)),
        ((128, 256, 64), config(128, 256, 64, 4, 8)),
        ((328, 128, 65), config(192, 64, 16, 3, 12)),
    ):
        a, b = arrays.normal((k, m), dtypes[0]), arrays.normal((k, n), dtypes[0])
        c = arrays.poisoned((m, n), dtypes[1])
        gemm.gemm_tn(a, b, c, **chosen)
        expected = reference(a.T, b.T, dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"{m}x{n}x{k} {config_id(chosen)}")


def k_group(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """Two and three tiles of each operand in a stage."""
    for (m, n, k), group, stages in (
        ((200, 136, 264), 2, 3),
        ((128, 128, 64), 2, 2),
        ((129, 256, 1000), 3, 2),
        ((64, 64, 512), 2, 1),
    ):
        a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
        c = arrays.poisoned((m, n), dtypes[1])
        gemm.gemm_k_group(a, b, c, BK=32, stages=stages, k_group=group)
        expected = reference(a, b, dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"{m}x{n}x{k} {group} a stage, {stages} stages")


def batched(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """Rank 3: a tile must not reach into its neighbour in the batch."""
    for batches, m, n, k in ((3, 70, 136, 72), (1, 128, 128, 64), (5, 129, 8, 200), (0, 8, 8, 8)):
        a = arrays.normal((batches, m, k), dtypes[0])
        b = arrays.normal((batches, n, k), dtypes[0])
        c = arrays.poisoned((batches, m, n), dtypes[1])
        gemm.gemm_batched(a, b, c, BM=64, warps=4)
        expected = reference(a, b, dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"{batches} x {m}x{n}x{k}")


def some_blocks(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """Loops that the loader leaves with ``break`` and ``continue``, among them empty ones."""
    m, n, k, block = 100, 136, 520, 64
    a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
    for first, skip, limit in (
        (0, -1, 99),
        (0, 3, 99),
        (2, 5, 7),
        (3, 0, 4),
        (0, 8, 9),
        (4, 4, 5),
        (5, -1, 2),
        (0, -1, 0),
    ):
        c = arrays.poisoned((m, n), dtypes[1])
        control_flow.gemm_some_blocks(a, b, c, first, skip, limit)
        taken = [i for i in range(k) if i // block != skip and first <= i // block < limit]
        expected = reference(a[:, taken], b[:, taken], dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"from {first}, not {skip}, below {limit}")


def early_return(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """Roles that return early; tiles behind that point stay as they were."""
    m, n, k, tile = 300, 72, 136, 64
    a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
    for last_row in (0, 63, 64, 200, 1000, -1):
        c = arrays.poisoned((m, n), dtypes[1])
        control_flow.gemm_early_return(a, b, c, last_row)
        written = min(m, (last_row // tile + 1) * tile)
        expected = reference(a[:written], b, dtypes[1], arrays.xp)
        yield _checked(c[:written], expected, arrays, f"up to row {last_row}")
        if not bool((c[written:] != c[written:]).all()):
            yield f"up to row {last_row}: written behind it"
    c = arrays.poisoned((m, n), dtypes[1])
    control_flow.gemm_early_return(a[:, :0], b[:, :0], c, m)
    if not bool((c != c).all()):
        yield "K = 0: written in spite of the return"


def one_program(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """No roles: one program on both sides of its pipeline."""
    for (m, n, k), stages, ahead in (
        ((200, 136, 264), 4, 2),
        ((128, 128, 64), 2, 1),
        ((129, 256, 1000), 4, 3),
        ((64, 64, 200), 3, 0),
        ((64, 64, 200), 1, 0),
        ((64, 64, 0), 3, 2),
    ):
        a, b = arrays.normal((m, k), dtypes[0]), arrays.normal((n, k), dtypes[0])
        c = arrays.poisoned((m, n), dtypes[1])
        control_flow.gemm_one_program(a, b, c, stages=stages, ahead=ahead)
        expected = reference(a, b, dtypes[1], arrays.xp)
        yield _checked(c, expected, arrays, f"{m}x{n}x{k} {stages} stages, {ahead} ahead")


def copies(arrays: Arrays, dtypes: tuple[str, str]) -> Iterator[str]:
    """Shared tiles stored as they lie, bit by bit, in several dtypes and tile shapes."""
    for (m, n), (rows, columns), stages in (
        ((300, 520), (64, 128), 3),
        ((64, 64), (64, 64), 1),
        ((257, 40), (128, 16), 2),
        ((9, 1000), (8, 256), 4),
        ((513, 72), (512, 8), 2),
    ):
        x, y = arrays.normal((m, n), dtypes[0]), arrays.normal((m, n), dtypes[1])
        copies = [arrays.poisoned((m, n), dtype) for dtype in dtypes]
        control_flow.copy_pair(x, y, *copies, rows=rows, columns=columns, stages=stages)
        if not all(bool((had == got).all()) for had, got in zip((x, y), copies, strict=True)):
            yield f"{m}x{n} in tiles of {rows}x{columns}: the copy differs"


FORMS: dict[str, Case] = {
    case.__name__: case
    for case in (nn, tn, k_group, batched, some_blocks, early_return, one_program, copies)
}


def run_form(name: str, arrays: Arrays, dtypes: tuple[str, str]) -> None:
    """All cases of one form; fails with every case that is wrong."""
    wrong = [text for text in FORMS[name](arrays, dtypes) if text]
    assert not wrong, "\n".join(wrong)


def every_shape(arrays: Arrays, dtype: str, chosen: Config) -> tuple[int, list[str]]:
    """Each shape with each output dtype: the number of GEMMs, and what was wrong."""
    xp, count, wrong = arrays.xp, 0, []
    for m, n, k in [*SHAPES, *((m, n, 0) for m, n, _ in SHAPES[:: len(DEPTHS)])]:
        a, b = arrays.normal((m, k), dtype), arrays.normal((n, k), dtype)
        exact, error = accumulated(a, b, xp)
        for out_dtype in OUTPUTS:
            c = arrays.poisoned((m, n), out_dtype)
            gemm.gemm(a, b, c, **chosen)
            count += 1
            if text := difference(c, round_to(exact, error, out_dtype, xp), xp):
                wrong.append(f"{m}x{n}x{k} {dtype} -> {out_dtype}: {text}")
    return count, wrong


def affordable(shape: tuple[int, int, int], turn: int, most_steps: int) -> Config:
    """The configuration whose turn it is, or the next that takes few enough steps of the mma loop.

    A step takes the emulator about half a millisecond, whatever the size of its tiles.
    """

    def steps(chosen: Config) -> int:
        extents = (chosen["BM"], chosen["BN"], chosen["BK"])
        return prod(-(-x // tile) for x, tile in zip(shape, extents, strict=True))

    in_turn = [CONFIGS[(turn + number) % len(CONFIGS)] for number in range(len(CONFIGS))]
    few = [chosen for chosen in in_turn if steps(chosen) <= most_steps]
    return few[0] if few else min(in_turn, key=steps)
