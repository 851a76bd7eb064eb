"""Functions, closures, lambdas, classes and comprehensions mean what they mean in Python."""

from __future__ import annotations

import enum
import functools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.frontend.evaluate import run
from tiledsl.frontend.function import function

SLOTS = 24
OFFSET = 3


@function
def square(x):
    return x * x


@function
def clamp(x, low=-3, *, high=5):
    if x < low:
        return low
    if x > high:
        return high
    return x


@function
def first_divisor(n):
    for i in range(2, 40):
        if n % i == 0:
            return i
    return n


@function
def sign_and_size(x):
    if x < 0:
        return -1, -x
    elif x == 0:
        return 0, 0
    return 1, x


@function
def late_return(x, y):
    if x > 0:
        if y > 0:
            return x + y
        x = x - 1
    x = x * 2
    return x


def undecorated(x):
    return x + OFFSET


@function
def power(x, n):
    if n == 0:
        return 1
    return x * power(x, n - 1)


@function
def apply(f, *args, **kwargs):
    return f(*args, **kwargs)


def _times(k):
    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * k

        return wrapper

    return decorate


@_times(7)
def wrapped_from_outside(x: int, *, y: int = 2) -> int:
    return x - y


class Permission(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any

    def dot(self, other):
        return self.x * other.x + self.y * other.y


@dataclass
class Counter:
    n: Any
    history: list[Any] = field(default_factory=list)

    def add(self, x):
        self.n += x
        return self

    @property
    def double(self):
        return self.n * 2


@dataclass(frozen=True)
class Vec:
    x: Any
    y: Any = 1

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    def __rmul__(self, k):
        return self * k


class Plain:
    def __init__(self, x, scale=2):
        self.x = x * scale

    def __call__(self, y):
        return self.x + y

    def __getitem__(self, i):
        return self.x - i


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


def calls(out, a, b):
    out[0] = square(a)
    out[1] = clamp(a)
    out[2] = clamp(b, high=b if b > 2 else 2)
    out[3] = first_divisor(abs(a) + 2)
    out[4], out[5] = sign_and_size(b)
    out[6] = late_return(a, b)
    out[7] = undecorated(a)
    out[8] = power(a, 3)
    out[9] = apply(clamp, b, low=0)


def calls_in_loops(out, a, b):
    total = 0
    for i in range(4):
        total += clamp(a + i) * first_divisor(b * b + i + 2)
        if clamp(i) > 2:
            break
    out[0] = total


def closures(out, a, b):
    k = 2

    def scaled(x, by=a):
        return x * k + by

    out[0] = scaled(b)
    k = 5
    out[1] = scaled(b, 1)
    add = lambda x, y=b: x + y  # noqa: E731
    out[2] = add(a)
    out[3] = (lambda *v: sum(v))(a, b, 1)  # noqa: PLC3002

    def outer(x):
        def inner(y):
            return y + x + k

        return inner

    out[4] = outer(a)(b)


def decorated(out, a, b):
    @function
    def twice(x):
        return 2 * x

    def plus_one(f):
        def wrapped(*args):
            return f(*args) + 1

        return wrapped

    @plus_one
    def thrice(x):
        return 3 * x

    out[0] = twice(a) + thrice(b)
    out[1] = wrapped_from_outside(a)


def partials(out, a, b):
    f = functools.partial(clamp, low=a)
    out[0] = f(b, high=9)


def containers(out, a, b):
    xs = [a, b, 3]
    xs.append(a + b)
    xs[1] += 10
    first, *rest, last = xs
    out[0], out[1] = first, last
    out[2] = sum(rest)
    out[3] = len(xs) + max(xs) - min(a, b, 0)
    out[4] = sum(x * x for x in xs)
    out[5] = [i * x for i, x in enumerate(xs) if i % 2][1]
    table = {name: x for name, x in zip("ab", (a, b), strict=True)}  # noqa: C416
    table["c"] = 7
    out[6] = table["b"] + table["c"] + len(table)
    out[7] = xs[-1] + (a, b)[0]
    out[8] = any([a > 0, b > 0]) + all((a > 0, b > 0))
    out[9] = sorted([3, 1, 2])[0]
    ys = [*xs[1:3], *(b, a)]
    out[10] = ys[3] + ys[0]
    out[11] = [[a, 1], [b, 2]][1][0]


def list_in_branch(out, a, b):
    xs = [0, 0]
    alias = xs
    if a > b:
        xs[0] = a
    else:
        xs[1] = 5
    out[0], out[1] = alias


def list_in_loop(out, a, b):
    xs = [a, b, 0]
    for i in range(6):
        for j in (0, 1):
            xs[j] = (xs[j] + i * j) % 50
        if i > 3:
            xs[2] += 1
    out[0], out[1], out[2] = xs


def lists_swapped(out, a, b):
    cur, nxt = [a, b], [0, 1]
    for i in range(5):
        nxt = [cur[1], (cur[0] + i) % 9]
        cur, nxt = nxt, cur
    out[0], out[1] = cur
    out[2], out[3] = nxt


def tuples_named(out, a, b):
    p = Point(a, b)
    q = Point(y=1, x=2)
    for i in range(3):
        p = Point(p.y, p.x + i)
    if a > b:
        q = p
    out[0] = p.dot(q)
    out[1] = q.x
    x, y = p
    out[2] = x + y
    out[3] = p._replace(x=5).x if False else p[1]


def dataclasses_mutable(out, a, b):
    c = Counter(a)
    for i in range(4):
        c.add(i)
        if i > b:
            c.n += 100
    if a > 3:
        c.n = -c.n
    out[0] = c.n
    out[1] = c.double
    out[2] = len(c.history)


def operators_of_user(out, a, b):
    v = Vec(a) + Vec(b, 4)
    w = 3 * v * 2
    for i in range(3):
        w = w + Vec(i, i)
    out[0], out[1] = w.x, w.y


def classes(out, a, b):
    p = Plain(a)
    out[0] = p(b)
    out[1] = p[4]
    q = Plain(b, scale=1) if a > b else Plain(a, 3)
    out[2] = q.x


def enums(out, a, b):
    mode = Mode.FAST
    if mode is Mode.FAST and mode == Mode(2):
        out[0] = mode.value
    table = {Mode.SLOW: a, Mode.FAST: b}
    out[1] = table[mode]
    out[2] = len(Mode.FAST.name)
    both = Permission.READ | Permission.WRITE
    out[3] = 1 if Permission.READ in both else 2
    out[4] = 1 if both & Permission.WRITE else 2
    out[5] = len((Path("x") / "y").parts) + Fraction(1, 2).denominator
    out[6] = sum(n * int(x) for n, x in zip((a, b), np.array([3, 4]), strict=True))
    out[7] = statistics.median([1, 5, 3]) + int(np.prod((2, 3)))


def math_at_compile_time(out, a, b):
    out[0] = math.gcd(12, 18) + int(math.sqrt(81)) + round(2.6)
    out[1] = int(math.pi * 100)
    out[2] = divmod(17, 5)[1] + 2**10 + abs(-3)
    out[3] = int("12") + len("%d-%s" % (1, "x")) + len(f"{3:04d}|{'q'!r}")  # noqa: UP031
    out[4] = isinstance(a, int) + isinstance(2.5, (int, float))


def builtins_of_run_time(out, a, b):
    out[0] = min(a, b) + max(a, 3)
    out[1] = abs(a - b)
    out[2], out[3] = divmod(a, 7)
    out[4] = int(a / 2)
    out[5] = bool(a) + bool(b)
    out[6] = a in (1, 2, 3)
    out[7] = b not in [a, 5]
    out[8] = a in range(-4, 9, 3)
    out[9] = a**3 + 2 * a**0
    out[10] = (a, b) == (b, a)
    out[11] = min([a, b, 4])


def unrolled_roles_of_state(out, a, b):
    best = None
    for x in (a, b, a + b):
        best = x if best is None else max(best, x)
    out[0] = best


def functions_in_table(out, a, b):
    ops = {"add": lambda x, y: x + y, "mul": lambda x, y: x * y}
    for i, name in enumerate(sorted(ops)):
        out[i] = ops[name](a, b)
    out[5] = sum(map(square, (a, b)))


def shifts_and_bits(out, a, b):
    out[0] = a & b
    out[1] = a | 12
    out[2] = a ^ b
    out[3] = a << 2
    out[4] = a >> 1
    out[5] = ~a
    out[6] = -a + +b
    out[7] = (a > 0) & (b > 0)
    out[8] = (a > 0) ^ True
    out[9] = 1 << (abs(b) % 5)


def mutable_default_and_alias(out, a, b):
    state = {"n": a}

    def bump(s, by):
        s["n"] = s["n"] + by
        return s

    for i in range(3):
        bump(state, i)
        if i == b:
            bump(state, 10)
    out[0] = bump(state, 1)["n"]


def early_return_changes_object(out, a, b):
    log = [0, 0]

    def visit(x):
        for i in range(5):
            log[0] += 1
            if i == x:
                return i * 10
        log[1] = 7
        return -1

    out[0] = visit(a) + visit(b)
    out[1], out[2] = log


def keys_of_a_dict_come_first(out, a, b):
    count = [0]

    def following():
        count[0] += 1
        return count[0]

    for key, value in {following(): following() + a, following(): following()}.items():
        out[key] = value


KERNELS: list[Callable[..., Any]] = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__code__", None) is not None
    and value.__code__.co_varnames[:1] == ("out",)
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_as_in_python(kernel: Callable[..., Any]) -> None:
    random = np.random.default_rng()
    pairs = [(0, 0), (3, 3), (-1, 5), (5, -1), (4, 9), *random.integers(-12, 20, (12, 2)).tolist()]
    for a, b in pairs:
        expected = np.zeros(SLOTS, np.int32)
        kernel(expected, a, b)
        got = np.zeros(SLOTS, np.int32)
        run(kernel, out=got, a=a, b=b)
        np.testing.assert_array_equal(got, expected, err_msg=f"{kernel.__name__}({a}, {b})")
