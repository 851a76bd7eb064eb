"""Expressions without a meaning in a kernel, each with the whole report."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report
from tiledsl.frontend.build import TensorSpec

OUT = TensorSpec(td.int32, 1)
INT = td.int32
FLOAT = td.float32
TABLE = [1, 2, 3]
ZEROS = np.zeros(3)
SURROGATE = chr(0xD800)

cases: list[Any] = []
refused = Refused(cases)


@td.function
def clamp(x, low=-3, *, high=5):
    return low if x < low else high if x > high else x


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class Vec:
    x: Any
    y: Any = 1


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


@refused(n=INT)
def enum_member_of_a_run_time_branch(n):
    """TypeMismatch: 'mode' is the compile-time Mode.FAST on one path and the compile-time Mode.SLOW
    on the other
    at: mode
    note: the compile-time Mode.FAST from here
    at: mode
    note: the compile-time Mode.SLOW from here
    at: mode
    hint: make them one type, or use two variables"""
    mode = Mode.SLOW
    if n > 0:
        mode = Mode.FAST
    x = mode.value


@refused(x=FLOAT)
def integer_beyond_every_float(x):
    """InvalidValue: an integer of 1329 bits does not fit float32
    at: x + 10**400"""
    y = x + 10**400


@refused(n=INT)
def integer_with_too_many_digits_to_show(n):
    """TypeMismatch: `+` does not exist for a run-time int32 and the compile-time int <int>
    at: n + 10**5000
    hint: convert one of them, such as td.int64(x) or td.float32(x)"""
    y = n + 10**5000


@refused(n=INT)
def more_memory_than_there_is(n):
    """InvalidValue: `*`: out of memory
    at: "text" * 2**60"""
    y = "text" * 2**60


@refused(n=INT)
def print_of_text_without_encoding(n):
    """InvalidValue: td.print: the text has no UTF-8 form: 'utf-8' codec can't encode character
    '\\ud800' in position 0: surrogates not allowed
    at: td.print(SURROGATE, n)"""
    td.print(SURROGATE, n)


@refused(n=INT)
def run_time_index(n):
    """TypeMismatch: a list of length 3 is indexed with a run-time int32: the index must be known
    at compile time
    at: TABLE[n]
    hint: unroll the loop with td.static_range, or select with a conditional"""
    x = TABLE[n]


@refused(n=INT)
def index_out_of_range(n):
    """InvalidValue: index 3 of a list of length 3: list index out of range
    at: TABLE[3]"""
    x = TABLE[3]


@refused(n=INT)
def missing_key(n):
    """InvalidValue: no key 'c' in a dict of length 2
    at: {"a": n, "b": 1}["c"]
    hint: it has: 'a', 'b'"""
    x = {"a": n, "b": 1}["c"]


@refused(n=INT)
def global_list_changed(n):
    """TypeMismatch: append: the kernel did not make this list and cannot change it
    at: TABLE.append(4)
    hint: copy it first, such as list(x) or dict(x)"""
    TABLE.append(4)


@refused(n=INT)
def global_item_assigned(n):
    """TypeMismatch: items of a list of length 3 that the kernel did not make cannot be assigned
    at: TABLE[0]
    hint: copy it first, such as list(x) or dict(x)"""
    TABLE[0] = n


@refused(out=OUT)
def slice_of_a_tensor(out):
    """TypeMismatch: an int32 tensor of rank 1 is sliced: expected one integer for each dimension
    at: out[1:3]
    hint: td.tma_load copies a tile of a tensor to shared memory"""
    x = out[1:3]


@refused(out=OUT)
def too_many_indices(out):
    """TypeMismatch: expected 1 index for an int32 tensor of rank 1, got 2
    at: out[1, 2]"""
    x = out[1, 2]


@refused(out=OUT, x=FLOAT)
def float_index(out, x):
    """TypeMismatch: expected an int32, got a run-time float32
    at: out[x]
    hint: convert it: td.int32(...) truncates towards zero"""
    y = out[x]


@refused(out=OUT, x=FLOAT)
def float_stored_to_integers(out, x):
    """TypeMismatch: expected an int32, got a run-time float32
    at: out[0]
    hint: convert it: td.int32(...) truncates towards zero"""
    out[0] = x


@refused(out=OUT)
def tensor_as_a_number(out):
    """TypeMismatch: `+` does not exist for an int32 tensor of rank 1 and the compile-time int 1
    at: out + 1"""
    x = out + 1


@refused(out=OUT)
def truth_of_a_tensor(out):
    """TypeMismatch: an int32 tensor of rank 1 is neither true nor false
    at: out"""
    if out:
        pass


@refused(out=OUT)
def len_of_a_tensor(out):
    """TypeMismatch: len of an int32 tensor of rank 1
    at: len(out)
    hint: x.shape[0] is the first extent"""
    x = len(out)


@refused(n=INT)
def attribute_of_a_scalar(n):
    """TypeMismatch: a run-time int32 has no attribute 'dtpye'
    at: n.dtpye
    hint: did you mean dtype?"""
    x = n.dtpye


@refused(n=INT)
def attribute_of_a_module(n):
    """TypeMismatch: the module math has no attribute 'sqroot'
    at: math.sqroot
    hint: did you mean sqrt or isqrt?"""
    x = math.sqroot(2)


@refused(n=INT)
def number_and_text(n):
    """TypeMismatch: `+` does not exist for a run-time int32 and the compile-time str '1'
    at: n + "1"
    """
    x = n + "1"


@refused(a=td.int64, b=td.uint64)
def no_common_dtype(a, b):
    """TypeMismatch: `+` does not exist for a run-time int64 and a run-time uint64
    at: a + b
    hint: convert one of them, such as td.int64(x) or td.float32(x)"""
    x = a + b


@refused(n=INT)
def division_by_zero(n):
    """InvalidValue: `//`: division by zero
    at: n // 0"""
    x = n // 0


@refused(n=INT)
def division_by_zero_at_compile_time(n):
    """InvalidValue: `%`: integer modulo by zero
    at: 1 % 0"""
    x = 1 % 0


@refused()
def warning_that_is_an_error():
    """InvalidValue: `//`: divide by zero encountered in floor_divide
    at: 2 // ZEROS"""
    x = 2 // ZEROS


@refused(n=INT)
def shift_too_far(n):
    """InvalidValue: `<<` of a run-time int32: expected a count from 0 to 31, got 32
    at: n << 32"""
    x = n << 32


@refused(n=INT, x=FLOAT)
def bits_of_a_float(n, x):
    """TypeMismatch: `&` does not exist for a run-time float32 and the compile-time int 1
    at: x & 1"""
    y = x & 1


@refused(n=INT, x=FLOAT)
def power_of_run_time(n, x):
    """TypeMismatch: `**` of a run-time float32 and a run-time int32: expected a compile-time
    integer exponent of at most 64
    at: x**n"""
    y = x**n


@refused(n=INT)
def unpack_too_few(n):
    """InvalidValue: expected 3 values to unpack, got 2
    at: a, b, c"""
    a, b, c = n, 1


@refused(n=INT)
def unpack_a_number(n):
    """TypeMismatch: expected a sequence of 2 values to unpack, got a run-time int32
    at: a, b"""
    a, b = n  # noqa: RUF059


@refused(n=INT)
def loop_over_a_number(n):
    """TypeMismatch: expected a sequence to loop over, got a run-time int32
    at: n"""
    for i in n:
        pass


@refused(x=FLOAT)
def range_of_a_float(x):
    """TypeMismatch: range: expected integers, got a run-time float32
    at: range(x)"""
    for i in range(x):
        pass


@refused(n=INT)
def range_step_of_unknown_sign(n):
    """InvalidValue: range: a run-time step must be known to be positive
    at: range(0, 10, n)
    hint: write range(start, stop, max(step, 1)), or count down with a compile-time step"""
    for i in range(0, 10, n):
        pass


@refused(n=INT)
def range_step_of_zero(n):
    """InvalidValue: range: the step must not be zero
    at: range(0, n, 0)"""
    for i in range(0, n, 0):
        pass


@refused(n=INT)
def comprehension_over_run_time(n):
    """TypeMismatch: expected a compile-time sequence for a comprehension, got a run-time range
    at: [i for i in range(n)]
    hint: loop over it with a for statement"""
    xs = [i for i in range(n)]  # noqa: C416


@refused(n=INT)
def comprehension_with_run_time_condition(n):
    """SyntaxNotSupported: the condition of a comprehension must be known at compile time
    at: x > n"""
    xs = [x for x in (1, 2, n) if x > n]


@refused(n=INT)
def is_of_run_time_values(n):
    """TypeMismatch: `is` between run-time values
    at: n is (n + 1)
    hint: compare with =="""
    x = n is (n + 1)


@refused(n=INT)
def str_of_run_time(n):
    """TypeMismatch: str of a run-time int32
    at: str(n)
    hint: td.print(x) prints it, or td.print(f"... {x}")"""
    x = str(n)


@refused(n=INT)
def percent_formatting(n):
    """TypeMismatch: `%` formatting of a run-time value
    at: "%d" % n
    hint: write an f-string: f"... {x}"
    """
    x = "%d" % n  # noqa: UP031


@refused(n=INT)
def set_of_run_time(n):
    """TypeMismatch: a set of run-time values
    at: {n, 1}
    hint: use a tuple or list"""
    x = {n, 1}


@refused(n=INT)
def dict_key_of_run_time(n):
    """TypeMismatch: a dict key must be known at compile time, got a run-time int32
    at: {n: 1}"""
    x = {n: 1}


@refused(n=INT)
def starred_call_of_a_number(n):
    """TypeMismatch: expected a sequence to be unpacked, got a run-time int32
    at: *n"""
    x = clamp(*n)


@refused(n=INT, q=td.float8_e4m3fn)
def fp8_arithmetic(n, q):
    """TypeMismatch: `*` does not exist for a run-time float8_e4m3fn and the compile-time int 2
    at: q * 2
    hint: convert to float32 first: x.to(td.float32)"""
    x = q * 2


@refused(n=INT)
def caret_behind_wide_characters(n):
    """TypeMismatch: `+` does not exist for the compile-time str 'é' and a run-time int32
    at: "é" + n"""
    x = ("äöü", "é" + n)


@refused(n=INT)
def value_used_outside_of_its_block(n):
    """TypeMismatch: item 0 of the list 'fs' is the function <lambda> on one path and None on the
    other
    at: n > 0
    hint: make them one type, or use two variables"""
    fs = [None]
    if n > 0:
        y = n * 2
        fs[0] = lambda: y
    z = fs[0]


@refused(n=INT)
def return_beside_break_in_an_unrolled_loop(n):
    """SyntaxNotSupported: `return` in an unrolled loop that `break` or `continue` leaves at run
    time
    at: return i
    hint: set a variable and return behind the loop, or loop over range(...)"""

    def f(x):
        for i in (1, 2, 3):
            if x == i:
                break
            if x > i:
                return i
        return 0

    y = f(n)


@refused(n=INT)
def function_that_never_returns(n):
    """SyntaxNotSupported: f never returns: it ends in a loop without break or return
    at: f(n)
    hint: write an endless loop in the kernel itself"""

    def f(x):
        while True:
            x += 1

    f(n)


@refused(n=INT)
def unrolled_for_ever(n):
    """InvalidValue: more than 4096 compile-time items to loop over
    at: td.static_range(10**12)
    hint: loop over range(...), which runs at run time"""
    for i in td.static_range(10**12):
        pass


@refused(n=INT)
def star_argument(n):
    """TypeMismatch: expected a sequence to be unpacked, got a run-time int32
    at: *n"""
    x = *n, 1


@refused(n=INT)
def negative_power_of_zero(n):
    """InvalidValue: `**`: 0.0 cannot be raised to a negative power
    at: 0**-1"""
    x = 0**-1


@refused(n=td.int8)
def constant_that_does_not_fit(n):
    """InvalidValue: 200 does not fit int8: expected -128 to 127
    at: x: td.int8 = 200"""
    x: td.int8 = 200


@refused(n=INT)
def annotated_with_a_float(n):
    """TypeMismatch: expected an int32, got the compile-time float 1.5
    at: x: td.int32 = 1.5
    hint: convert it: td.int32(...) truncates towards zero"""
    x: td.int32 = 1.5


@refused(n=INT, out=OUT)
def result_of_two_types(n, out):
    """TypeMismatch: the result is a tuple of length 2 on one path and a run-time int32 on the
    other
    at: x > 0
    hint: make them one type, or use two variables"""

    def f(x):
        if x > 0:
            return 1, 2
        return x

    out[0] = f(n)


@refused(n=INT)
def one_of_two_schedulers(n):
    """TypeMismatch: the result is a tile scheduler on one path and another tile scheduler on the
    other
    at: rows if n > 3 else columns
    hint: use it in each branch: which tile scheduler it is must be known at compile time"""
    rows, columns = td.TileScheduler(n, 1), td.TileScheduler(1, 3)
    for _ in rows if n > 3 else columns:
        pass


@refused(n=INT, out=OUT)
def nothing_returned_on_one_path(n, out):
    """TypeMismatch: the result is a run-time int32 on one path and None on the other
    at: f(n)
    hint: make them one type, or use two variables"""

    def f(x):
        for i in range(x):
            if i == 3:
                return i

    out[0] = f(n)


@refused(n=INT, out=OUT)
def variable_of_a_branch_in_a_loop(n, out):
    """NameNotFound: 'x' may have no value here: it is assigned on one path only
    at: x
    note: it is assigned here
    at: x
    note: only if this condition is true
    at: i > 3
    hint: assign 'x' before the branch, or on both paths"""
    for i in range(n):
        if i > 3:
            x = i
        out[i] = x


@refused(n=INT)
def namedtuple_with_too_much(n):
    """TypeMismatch: Point: Point.__new__() takes 3 positional arguments but 4 were given
    at: Point(n, 1, 2)"""
    p = Point(n, 1, 2)


@refused(n=INT)
def enum_without_member(n):
    """TypeMismatch: the class Mode has no attribute 'MEDIUM'
    at: Mode.MEDIUM"""
    x = Mode.MEDIUM


@refused(n=INT)
def method_of_a_string_with_run_time(n):
    """TypeMismatch: format is run by Python while the kernel is compiled: expected compile-time
    arguments, got a run-time int32
    at: "{}".format(n)
    hint: call format outside of the kernel, or write it as a td.function"""
    x = "{}".format(n)  # noqa: UP032


@refused(n=INT)
def open_a_file(n):
    """SyntaxNotSupported: open is not supported in a kernel
    at: open("x")"""
    f = open("x")


@refused(n=INT)
def assign_to_a_function(n):
    """TypeMismatch: cannot assign attribute 'x' of the function clamp
    at: clamp.x
    hint: a kernel can only change objects that it made itself"""
    clamp.x = n


@refused(out=OUT)
def assign_to_a_tensor_attribute(out):
    """TypeMismatch: cannot assign attribute 'shape' of an int32 tensor of rank 1
    at: out.shape
    hint: a kernel can only change objects that it made itself"""
    out.shape = 3


@pytest.mark.parametrize(("function", "params"), cases)
def test_refused(function: Callable[..., Any], params: dict[str, Any]) -> None:
    assert report(function, params) == one_line(function.__doc__ or "")
