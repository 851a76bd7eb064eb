"""``TILEDSL_BACKEND=ptx`` as a user meets it: arguments, errors, prints, seeds, Ctrl-C, threads."""

from __future__ import annotations

import ctypes.util
import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.kernels.oracle import fresh_seed
from tests.kernels.places import CPU_PLACES, place_named
from tiledsl.runtime.ptx_machine.report import MachineFault

Array = np.ndarray[Any, Any]


@td.kernel(grid=1, warps=4)
def add(x: td.Tensor, y: td.Tensor, s: td.float32):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = x[i, j] + s


@td.kernel(grid=1)
def numbers(y: td.Tensor, a: td.int32, b: td.bool_, c: td.float32, d: td.int64, e: td.uint8, f):
    y[0] = td.float64(a)
    y[1] = 1.0 if b else 0.0
    y[2] = td.float64(c)
    y[3] = td.float64(d)
    y[4] = td.float64(e)
    y[5] = td.float64(f)


@td.kernel(grid=1)
def as_many_rows(x: td.Tensor, y: td.Tensor):
    assert x.shape[0] == y.shape[0], "same rows"
    y[0, 0] = x[0, 0]


@td.kernel(grid=td.persistent)
def blocks(y: td.Tensor):
    y[td.block_id()] += 1


@td.kernel(grid=1)
def spin(y: td.Tensor, n: td.int64):
    i = td.int64(0)
    while i < n:
        y[0] += 1
        i += 1


@td.kernel(grid=1)
def talk(y: td.Tensor, at: td.int32):
    td.print("before", at)
    y[at] = 1.0


@td.kernel
def say():
    td.print(td.block_id())


VIEWS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: x[::2, ::3],
    "backwards": lambda x: x[::-1, ::-1],
    "empty": lambda x: x[:0],
    "broadcast": lambda x: np.broadcast_to(x[0], (5, x.shape[1])),
    "Fortran": np.asfortranarray,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, np.uint64, np.bool_, ml_dtypes.bfloat16, np.float16]
)
def test_arrays(place: Any, view: str, dtype: Any) -> None:
    x = VIEWS[view](np.arange(48).reshape(6, 8).astype(dtype))
    whole = np.full((2 * x.shape[0], x.shape[1]), np.nan, np.float32)
    add(x, whole[::-2], 1.5)
    np.testing.assert_array_equal(whole[::-2], x.astype(np.float32) + np.float32(1.5))
    assert np.isnan(whole[0::2]).all()  # the other rows


def test_in_place(place: Any) -> None:
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    add(x[:3], x[1:4], 1.0)  # sees what it has written
    np.testing.assert_array_equal(x[:4], np.arange(8) + np.arange(4)[:, None])


def test_numbers(place: Any) -> None:
    y = np.zeros(6)
    numbers(y, -3, True, 0.1, 1 << 40, 255, 2.5)
    assert y.tolist() == [-3, 1, float(np.float32(0.1)), 1 << 40, 255, 2.5]
    numbers(y, np.int16(7), np.bool_(False), np.float64(0.5), np.int8(-1), np.uint8(3), True)
    assert y.tolist() == [7, 0, 0.5, -1, 3, 1]


def told(call: Callable[[], Any]) -> str:
    with pytest.raises(td.TileError) as caught:
        call()
    return f"{type(caught.value).__name__}: {caught.value}"


def frozen() -> Array:
    y = np.zeros((6, 8), np.float32)
    y.flags.writeable = False
    return y


X, Y = np.zeros((6, 8), np.float32), np.zeros(6)
REFUSED: dict[str, Callable[[], Any]] = {
    "read-only": lambda: add(X, frozen(), 1.0),
    "rank": lambda: add(X, np.zeros(()), 1.0),
    "dtype": lambda: add(X.astype(np.complex64), X, 1.0),
    "byte order": lambda: add(X.astype(">f4"), X, 1.0),
    "list": lambda: add([[1.0]], X, 1.0),
    "overflow": lambda: numbers(Y, 1 << 31, True, 0.0, 0, 0, 0),
    "fraction": lambda: numbers(Y, 1.5, True, 0.0, 0, 0, 0),
    "negative": lambda: numbers(Y, 1, True, 0.0, 0, -1, 0),
    "text": lambda: numbers(Y, "1", True, 0.0, 0, 0, 0),
    "assertion": lambda: as_many_rows(X, X[1:]),
    "grid": lambda: blocks[-1](Y),
    "large grid": lambda: blocks[1, 70000](Y),
    "argument": lambda: blocks(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_the_emulator(name: str) -> None:
    """The same error with the same words, before anything has run."""
    texts = []
    for where in CPU_PLACES:
        with pytest.MonkeyPatch.context() as patch:
            place_named(where).enter(patch)
            texts.append(told(REFUSED[name]))
    assert texts[1:] == texts[:1] * 2


def test_grids(place: Any) -> None:
    for grid, expected in ((None, 4), (7, 7), ((3,), 3), (0, 0)):
        y = np.zeros(9, np.int32)
        blocks.launch(y, grid=grid)
        assert y.tolist() == [1] * expected + [0] * (9 - expected)


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(6)
    for options, text in (
        ({"policy": "x"}, "policy: expected one of ('eager', 'late', 'random', 'pct'), got 'x'"),
        ({"seed": -1}, "seed: expected a number of at least 0, got -1"),
        ({"seed": "a"}, "seed: expected a number of at least 0, got 'a'"),
        ({"sede": 1}, "options: expected some of policy, seed, checks, "),
        ({"grid": (1, 1, 1)}, "options: expected some of policy, seed, checks, "),
    ):
        assert text in told(functools.partial(blocks.run_ptx, y, options=options))
    monkeypatch.setenv("TILEDSL_BACKEND", "ptx")
    for name, value in (("SEED", "-1"), ("SEED", "x"), ("POLICY", "x")):
        with monkeypatch.context() as patch:
            patch.setenv(f"TILEDSL_PTX_{name}", value)
            assert f"TILEDSL_PTX_{name}: expected" in told(lambda: blocks(y))
    assert not y.any()
    for name in ("SEED", "POLICY"):  # as if it were not set
        monkeypatch.setenv(f"TILEDSL_PTX_{name}", "")
    blocks(y)
    assert y.sum() == 4
    monkeypatch.setenv("TILEDSL_BACKEND", "gpu")
    assert "TILEDSL_BACKEND: expected 'emulator' or 'ptx', got 'gpu'" in told(lambda: blocks(y))


def test_prints_appear_before_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEDSL_BACKEND", "ptx")
    with pytest.raises(MachineFault, match="out of bounds"):
        talk(np.zeros(3, np.float32), 3)
    assert capsys.readouterr().out == "before 3\n"


@pytest.mark.parametrize("policy", ["late", "random", "pct"])
def test_a_seed_repeats_a_run(policy: str) -> None:
    """Instruction by instruction, whatever memory held before."""
    from tests.kernels.gemm import gemm

    rng = np.random.default_rng(fresh_seed())
    a, b = (rng.standard_normal((n, 136)).astype(ml_dtypes.bfloat16) for n in (130, 72))
    seeds = [int(seed) for seed in rng.integers(1 << 30, size=3)]
    counts = []
    for seed in seeds * 2:
        c = np.full((130, 72), np.nan, np.float32)
        options = {"policy": policy, "seed": seed}
        result = gemm.run_ptx(a, b, c, BM=64, BN=64, warps=4, options=options)
        counts.append((result.instructions, result.warps.tolist(), c.tobytes()))
        np.full(1 << 22, 0xA5, np.uint8)  # so that memory that is used again looks different
    assert counts[:3] == counts[3:]


@pytest.mark.parametrize("policy", ["random", "pct"])
def test_another_seed_is_another_schedule(policy: str) -> None:
    """Blocks in another order, for one."""
    options = [{"policy": policy, "seed": seed} for seed in (0, 1, 2, 3, 3)]
    orders = [tuple(say.run_ptx(grid=8, options=each).prints) for each in options]
    assert all(sorted(order) == [f"{k}\n" for k in range(8)] for order in orders)
    assert len(set(orders)) > 1 and orders[-1] == orders[-2]


def test_ctrl_c_ends_a_run() -> None:
    """Within a second, also in the middle of a block that would run for minutes."""
    y = np.zeros(1)
    spin.run_ptx(y, 10)
    main = threading.main_thread().ident or 0
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            spin.run_ptx(y, 1 << 40)
    finally:
        timer.cancel()  # if the run ended otherwise: the signal would end the tests
    assert time.monotonic() - begin < 20
    y[0] = 0
    spin.run_ptx(y, 10)  # and the next launch is as good as ever
    assert y[0] == 10


def test_a_long_computation_is_no_deadlock() -> None:
    """No store and no event in some ten million instructions of a loop that asks for nothing."""
    y = np.zeros(1)
    result = spin.run_ptx(y, 1 << 22)
    assert y[0] == 1 << 22 and result.instructions > 11_000_000


def test_threads() -> None:
    """Launches of several threads at once have nothing in common."""
    y = np.zeros((4, 1))
    wrong: list[BaseException] = []

    def run(k: int) -> None:
        try:
            for _ in range(5):
                spin.run_ptx(y[k], 1000 + k, options={"policy": "pct", "seed": k})
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert y[:, 0].tolist() == [5000 + 5 * k for k in range(4)]


class OnDevice:
    """What a framework's array in GPU memory looks like."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {
            "shape": (6,), "typestr": "<f8", "data": (1 << 40, False), "version": 3,
        }  # fmt: skip


def test_arrays_on_a_gpu_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are launched there, or refused where there is none; the machine never touches them."""
    monkeypatch.setenv("TILEDSL_BACKEND", "ptx")
    if ctypes.util.find_library("cuda") is None:
        assert "no usable NVIDIA GPU" in told(lambda: blocks(OnDevice()))
    assert told(lambda: blocks.run_ptx(OnDevice()))


def test_warnings_of_a_process(tmp_path: Any) -> None:
    """A script with ``-W error``: nothing of the machine, Numba or NumPy warns."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent("""
            import numpy as np, tiledsl as td
            @td.kernel(grid=1)
            def f(y: td.Tensor):
                y[0] = y[0] / 0.0
            y = np.ones(1, np.float32)
            f(y)
            print(y[0])
        """)
    )

    done = subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "TILEDSL_BACKEND": "ptx"}, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("inf\n", 0), done.stderr
