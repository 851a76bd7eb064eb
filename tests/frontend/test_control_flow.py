"""Control flow means what it means in Python: each kernel is also run as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.evaluate import run

SLOTS = 24


def if_elif_else(out, a, b):
    if a < b:
        x = 1
    elif a == b:
        x = 2
    else:
        x = 3
        out[1] = a
    out[0] = x


def nested_if(out, a, b):
    x = a
    if a > 0:
        if b > 0:
            x = x + b
        x += 1
        if b > 5:
            x = -x
            y = 5
        else:
            y = 6
        out[1] = y
    out[0] = x


def swap_in_branch(out, a, b):
    x, y = a, b
    if a < b:
        x, y = y, x
    out[0] = x
    out[1] = y


def for_sum(out, a, b):
    total = 0
    for i in range(b):
        total += i * a
    out[0] = total


def for_bounds(out, a, b):
    n = 0
    for i in range(a, b):
        out[abs(i) % 8] += i
        n += 1
    out[8] = n


def for_step_down(out, a, b):
    last = 99
    for i in range(b, a, -3):
        last = i
        out[2] += i
    out[0] = last


def for_constant_range(out, a, b):
    for i in range(5):
        x = i * a
    out[0] = x
    out[1] = i


def for_empty(out, a, b):
    x = 7
    for i in range(a, a):
        x = i
    out[0] = x


def for_break(out, a, b):
    found = -1
    for i in range(20):
        if i * i > b:
            found = i
            break
        out[1] += 1
    out[0] = found


def for_continue(out, a, b):
    for i in range(10):
        if (i + a) % 3 == 0:
            continue
        out[0] += i
        if i == b:
            continue
        out[1] += 1


def break_and_continue(out, a, b):
    total = 0
    for i in range(30):
        if i % 2 == 0:
            continue
        elif i > a + b:
            break
        else:
            total += i
        out[1] += 1
    out[0] = total


def nested_loops(out, a, b):
    count = 0
    for i in range(6):
        for j in range(i):
            if i * j > a:
                break
            count += 1
        else_ = count
        if count > b:
            break
        out[2] = else_
    out[0] = count


def loop_variable_assigned(out, a, b):
    n = 0
    for i in range(4):
        i = i * 10
        n += i
    out[0] = n
    out[1] = i


def while_collatz(out, a, b):
    n = abs(a) + 1
    steps = 0
    while n != 1 and steps < 200:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    out[0] = steps


def while_true(out, a, b):
    x = 0
    while True:
        x += 3
        y = x * 2
        if y > b:
            break
    out[0] = x
    out[1] = y


def while_walrus(out, a, b):
    n = b
    while (h := n // 2) > 0:
        n = h
        out[1] += h
    out[0] = n


def while_two_exits(out, a, b):
    x = a
    while x < b:
        x += 1
        if x == 3:
            out[2] = 1
            break
        if x % 2:
            continue
        out[1] += x
    out[0] = x


def while_never(out, a, b):
    x = 1
    while False:
        x = 2
    out[0] = x


def early_return(out, a, b):
    if a < 0:
        out[0] = -1
        return
    out[1] = 1
    for i in range(10):
        if i == b:
            return
        out[2] += i
    out[3] = 1


def return_in_while(out, a, b):
    while True:
        out[0] += 1
        if out[0] > b:
            return


def ternary(out, a, b):
    out[0] = a if a < b else b
    out[1] = (a // b if b != 0 else -1) + 1
    out[2] = 5 if a > b else 6 if a == b else 7


def short_circuit(out, a, b):
    if b != 0 and a // b > 1:
        out[0] = 1
    if b == 0 or a % b == 0:
        out[1] = 1
    if not (a > 0 or b > 0):
        out[2] = 1
    out[3] = a and b
    out[4] = a or b
    out[5] = (a and 7) or b


def chained(out, a, b):
    if 0 < a <= b < 10:
        out[0] = 1
    if a == b == 3:
        out[1] = 1
    out[2] = 1 if -2 < a != b else 0


def chained_once(out, a, b):
    n = a
    if 0 < (n := n + 1) < b:
        out[0] = n
    out[1] = n


def walrus_in_branch(out, a, b):
    x = 1
    if a > 0 and (x := b) > 3:
        out[0] = x
    out[1] = x


def compile_time_branch(out, a, b):
    mode = "fast"
    if mode == "fast":
        x = a
    else:
        x = undefined_name  # noqa: F821
    out[0] = x


def unrolled(out, a, b):
    for i, (name, x) in enumerate((("p", a), ("q", b), ("r", 3))):
        if name == "q":
            continue
        out[i] = x
    for key, x in {"s": 1, "t": a}.items():
        if key == "t":
            out[10] = x
            break
        out[11] = x


def unrolled_with_branches(out, a, b):
    total = 0
    for x in (a, b, 3):
        if x > 2:
            total += x
        else:
            total -= 1
    out[0] = total


def reassigned_to_float(out, a, b):
    x = 0
    for i in range(b):
        x = x + 0.5
    out[0] = int(x)


def bool_flag(out, a, b):
    found = False
    for i in range(b):
        if i == a:
            found = True
    if found:
        out[0] = 1
    out[1] = found


def temporaries_differ(out, a, b):
    if a > 0:
        t = "text"
        out[0] = len(t)
    else:
        t = a
        out[1] = t
    for i in range(3):
        t = i
        out[2] += t


def swap_loop(out, a, b):
    x, y = a, b
    for _ in range(7):
        x, y = y, (x + y) % 1000
    out[0] = x
    out[1] = y


def gcd(out, a, b):
    x, y = abs(a), abs(b)
    while y:
        x, y = y, x % y
    out[0] = x


def carried_tuple(out, a, b):
    pair = (a, 0)
    for i in range(5):
        pair = (pair[1], pair[0] + i)
    out[0], out[1] = pair


def both_branches_jump(out, a, b):
    for i in range(9):
        if i > a:
            if i > b:
                break
            else:
                continue
        out[0] += 1
    for i in range(9):
        if i > b:
            continue
        else:
            out[1] += i
            break
    out[2] = 1


def breaks_in_both(out, a, b):
    x = 0
    for i in range(9):
        x += 1
        if a > b:
            x += 10
            break
        else:
            x += 20
            break
    out[0] = x


def handed_on(out, a, b):
    p, q = a, b
    for i in range(abs(b)):
        p = q
        q = q + 0
        out[2] += i
    out[0], out[1] = p, q


def unrolled_continue(out, a, b):
    s = a
    for x in (1, b, 3):
        s -= x
        if s > b:
            continue
        s += 5
        if s == 0:
            out[1] += 1
        else:
            out[2] += s
    out[0] = s


def unrolled_break(out, a, b):
    s = a
    flag = 1
    for i, x in enumerate((b, 3, b, 9, a)):
        if s + flag > 7:
            flag = 5
            s = s - 1
            out[3] += flag
            break
        s += x
        flag = i + s
    out[0] = s


def unrolled_break_and_continue(out, a, b):
    s = 0
    for x in (a, b, a + b, 4):
        if x < 0:
            continue
        if x > 9:
            s += 100
            break
        elif x == 4:
            for i in range(x):
                if i == b:
                    break
                s += i
            continue
        s += x
    out[0] = s


def unrolled_return(out, a, b):
    for x in (a, b, 5):
        out[0] += 1
        if x > 3:
            out[1] = x
            return
        if x < -3:
            break
    out[2] = 1


def jumps_through_two_loops(out, a, b):
    for i in range(4):
        for x in (a, b):
            if x == i:
                break
            out[0] += 1
        while True:
            if out[0] > i * 3:
                break
            out[0] += 2
            if out[0] == b:
                return
        out[1] += i


KERNELS: list[Callable[..., Any]] = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__code__", None) is not None
    and value.__code__.co_varnames[:1] == ("out",)
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_as_in_python(kernel: Callable[..., Any]) -> None:
    random = np.random.default_rng()
    pairs = [(0, 0), (3, 3), (-1, 5), (5, -1), (4, 9), *random.integers(-12, 20, (20, 2)).tolist()]
    for a, b in pairs:
        expected = np.zeros(SLOTS, np.int32)
        kernel(expected, a, b)
        got = np.zeros(SLOTS, np.int32)
        run(kernel, out=got, a=a, b=b)
        np.testing.assert_array_equal(got, expected, err_msg=f"{kernel.__name__}({a}, {b})")
