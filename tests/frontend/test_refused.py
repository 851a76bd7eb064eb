"""Python that a kernel cannot contain, each with the whole report."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import tiledsl as td
from tests.language.traced import Refused, one_line, report
from tiledsl.frontend.build import TensorSpec

OUT = TensorSpec(td.int32, 1)
INT = td.int32
FLOAT = td.float32
TABLE = [1, 2, 3]

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


# statements
@refused(n=INT)
def global_statement(n):
    """SyntaxNotSupported: global is not supported in a kernel
    at: global TABLE
    hint: return the value, or pass it as an argument"""
    global TABLE
    TABLE = n

@refused(n=INT)
def nonlocal_statement(n):
    """SyntaxNotSupported: nonlocal is not supported in a kernel
    at: nonlocal x
    hint: return the value and assign it where the function is called"""
    x = n
    def f():
        nonlocal x
        x = 2
    f()

@refused(n=INT)
def import_statement(n):
    """SyntaxNotSupported: import is not supported in a kernel
    at: import os
    hint: import at the top of the module"""
    import os

@refused(n=INT)
def import_from_statement(n):
    """SyntaxNotSupported: import is not supported in a kernel
    at: from os import path
    hint: import at the top of the module"""
    from os import path

@refused(n=INT)
def class_statement(n):
    """SyntaxNotSupported: class is not supported in a kernel
    at: class A:
    hint: define the class outside of the kernel"""
    class A:
        pass

@refused(n=INT)
def try_statement(n):
    """SyntaxNotSupported: try is not supported in a kernel
    at: try:
    hint: a GPU has no exceptions: test the condition with if"""
    try:
        x = n
    except ValueError:
        pass

@refused(n=INT)
def match_statement(n):
    """SyntaxNotSupported: match is not supported in a kernel
    at: match n:
    hint: write if / elif"""
    match n:
        case 1:
            pass

@refused(n=INT)
def del_statement(n):
    """SyntaxNotSupported: del is not supported in a kernel
    at: del x
    hint: leave the variable alone, or assign None"""
    x = n
    del x

@refused(out=OUT)
def yield_expression(out):
    """SyntaxNotSupported: yield is not supported in a kernel
    at: yield 1
    hint: build a tuple or list instead"""
    def f():
        yield 1
    f()

@refused(out=OUT)
def await_expression(out):
    """SyntaxNotSupported: async def is not supported in a kernel
    at: async def f():
    hint: write def"""
    async def f():
        await out

@refused(n=INT)
def else_of_for(n):
    """SyntaxNotSupported: else of a for loop is not supported in a kernel
    at: x = 1
    hint: set a variable before `break` and test it after the loop"""
    for i in range(n):
        pass
    else:
        x = 1

@refused(n=INT)
def else_of_while(n):
    """SyntaxNotSupported: else of a while loop is not supported in a kernel
    at: x = 1
    hint: set a variable before `break` and test it after the loop"""
    while n > 0:
        n -= 1
    else:
        x = 1

@refused(n=INT)
def assert_in_a_loop(n):
    """SyntaxNotSupported: an assert on run-time values is checked before the launch: expected it
    at the top of the kernel, outside of roles, loops and branches
    at: assert n > i, "n must be greater"
    hint: assert on shapes before the first td.role, or td.print what is wrong under an if"""
    for i in range(n):
        assert n > i, "n must be greater"

@refused(n=INT)
def assert_that_fails(n):
    """InvalidValue: assertion failed: expected 2 items, got 3
    at: assert len(TABLE) == 2, f"expected 2 items, got {len(TABLE)}""""
    assert len(TABLE) == 2, f"expected 2 items, got {len(TABLE)}"

@refused(n=INT)
def raise_under_run_time_condition(n):
    """SyntaxNotSupported: raise under a run-time condition is not supported in a kernel
    at: raise ValueError("negative")
    note: the condition is here
    at: n < 0
    hint: a GPU has no exceptions: return early, or td.print what is wrong"""
    if n < 0:
        raise ValueError("negative")

@refused(n=INT)
def raise_at_compile_time(n):
    """InvalidValue: ValueError: three items
    at: raise ValueError("three items")"""
    if len(TABLE) == 3:
        raise ValueError("three items")

@refused(n=INT)
def return_of_a_value(n):
    """SyntaxNotSupported: a kernel returns nothing, got a run-time int32
    at: return n
    hint: store the result in a tensor: out[i] = x, or td.tma_store"""
    return n

# names
@refused(n=INT)
def unknown_name(n):
    """NameNotFound: name 'number_of_row' is not defined
    at: number_of_row
    hint: did you mean number_of_rows?"""
    number_of_rows = n
    x = number_of_row + 1

@refused(n=INT)
def read_before_assignment(n):
    """NameNotFound: 'y' is read before it is assigned
    at: y
    note: it is assigned here
    at: y"""
    x = y + 1
    y = n

@refused(n=INT, out=OUT)
def assigned_on_one_path(n, out):
    """NameNotFound: 'x' may have no value here: it is assigned on one path only
    at: x
    note: it is assigned here
    at: x
    note: only if this condition is true
    at: n > 0
    hint: assign 'x' before the branch, or on both paths"""
    if n > 0:
        x = 1
    out[0] = x

@refused(n=INT, out=OUT)
def assigned_in_a_loop(n, out):
    """NameNotFound: 'x' may have no value here: it is assigned in a loop only
    at: x
    note: it is assigned here
    at: x
    note: in this loop, which may run zero times
    at: i
    hint: assign 'x' before the loop"""
    for i in range(n):
        x = i
    out[0] = x

@refused(n=INT, out=OUT)
def loop_variable_after_the_loop(n, out):
    """NameNotFound: 'i' may have no value here: it is assigned in a loop only
    at: i
    note: it is assigned here
    at: i
    note: in this loop, which may run zero times
    at: i
    hint: assign 'i' before the loop"""
    for i in range(n):
        pass
    out[0] = i

@refused(n=INT, out=OUT)
def two_types_on_two_paths(n, out):
    """TypeMismatch: 'x' is the compile-time str 'text' on one path and a run-time int32 on the
    other
    at: x
    note: the compile-time str 'text' from here
    at: x
    note: a run-time int32 from here
    at: x
    hint: make them one type, or use two variables"""
    if n > 0:
        x = "text"
    else:
        x = n
    out[0] = x

@refused(n=INT, x=FLOAT, out=OUT)
def two_dtypes_on_two_paths(n, x, out):
    """TypeMismatch: 'y' is a run-time float32 on one path and a run-time int32 on the other
    at: y
    note: a run-time float32 from here
    at: y
    note: a run-time int32 from here
    at: y
    hint: make them one type, or use two variables"""
    if n > 0:
        y = x
    else:
        y = n
    out[0] = y

@refused(n=INT, out=OUT)
def loop_changes_the_dtype(n, out):
    """TypeMismatch: 'x' is a run-time int32 before the loop and a run-time float32 after an
    iteration
    at: x += 1.5
    note: a run-time int32 from here
    at: x
    note: a run-time float32 from here
    at: x
    hint: make them one type, or use two variables"""
    x = n
    for i in range(n):
        x += 1.5
    out[0] = x

@refused(n=INT, out=OUT)
def string_changes_in_a_loop(n, out):
    """TypeMismatch: 'mode' is the compile-time str 'a' before the loop and the compile-time str
    'ab' after an iteration
    at: mode
    note: the compile-time str 'a' from here
    at: mode
    note: the compile-time str 'ab' from here
    at: mode
    hint: make them one type, or use two variables"""
    mode = "a"
    for i in range(n):
        out[i] = len(mode)
        mode = mode + "b"

@refused(n=INT, out=OUT)
def list_grows_in_a_loop(n, out):
    """TypeMismatch: the list 'xs' is a list of length 0 before the loop and a list of length 1
    after an iteration
    at: i
    hint: a list or dict can grow where the code is unrolled, such as td.static_range"""
    xs = []
    for i in range(n):
        xs.append(i)
    out[0] = xs[0]

@refused(out=OUT)
def variable_of_a_role(out):
    """NameNotFound: 'x' was assigned in role 'one': what a role assigns is its own
    at: x
    note: the role assigns it here
    at: x
    hint: compute it before the roles; roles hand data to each other through pipelines"""
    with td.role("one", warps=1):
        x = 1
    with td.role("two", warps=1):
        out[0] = x

@refused(n=INT, out=OUT)
def role_in_a_branch(n, out):
    """SyntaxNotSupported: a role must stand at the top of the kernel, in no run-time loop,
    branch or function
    at: td.role("one", warps=1)
    hint: write the loop or the condition inside of the role"""
    if n > 0:
        with td.role("one", warps=1):
            out[0] = 1

@refused(n=INT, out=OUT)
def role_in_a_role(n, out):
    """SyntaxNotSupported: a role inside of role 'one'
    at: td.role("two", warps=1)
    note: the outer role begins here
    at: td.role("one", warps=1)
    hint: write the roles one behind the other"""
    with td.role("one", warps=1):
        with td.role("two", warps=1):
            out[0] = 1

@refused(n=INT, out=OUT)
def store_after_a_role(n, out):
    """SyntaxNotSupported: tensor.store after a role: code outside of roles must come before the
    first role
    at: out[1]
    hint: move it before the roles, or into the role that needs it"""
    with td.role("one", warps=1):
        out[0] = 1
    out[1] = 2

@refused(n=INT)
def with_of_a_number(n):
    """TypeMismatch: a run-time int32 cannot be used in a with statement
    at: n
    hint: with takes roles, views of pipelines and their stages"""
    with n as x:
        pass

# calls
@refused(n=INT)
def print_builtin(n):
    """TypeMismatch: print is not supported in a kernel
    at: print(n)
    hint: write td.print(...), which prints from the GPU"""
    print(n)

@refused(n=INT)
def math_of_run_time(n):
    """TypeMismatch: sqrt is run by Python while the kernel is compiled: expected compile-time
    arguments, got a run-time int32
    at: math.sqrt(n)
    hint: call sqrt outside of the kernel, or write it as a td.function"""
    x = math.sqrt(n)

@refused(n=INT)
def missing_argument(n):
    """TypeMismatch: clamp: missing a required argument: 'x'
    at: clamp()
    hint: its signature is clamp(x, low=-3, *, high=5)"""
    x = clamp()

@refused(n=INT)
def unexpected_keyword(n):
    """TypeMismatch: clamp: got an unexpected keyword argument 'hihg'
    at: clamp(n, hihg=3)
    hint: its signature is clamp(x, low=-3, *, high=5)"""
    x = clamp(n, hihg=3)

@refused(n=INT)
def endless_recursion(n):
    """SyntaxNotSupported: f: calls are nested deeper than 48
    at: f(x + 1)
    hint: end a recursion by a condition that is known at compile time, or write a loop"""
    def f(x):
        return f(x + 1)
    f(n)

@refused(n=INT)
def recursion_on_run_time(n):
    """SyntaxNotSupported: fac: calls are nested deeper than 48
    at: fac(x - 1)
    hint: end a recursion by a condition that is known at compile time, or write a loop"""
    def fac(x):
        return 1 if x == 0 else x * fac(x - 1)
    fac(n)

@refused(n=INT)
def call_of_a_number(n):
    """TypeMismatch: a run-time int32 cannot be called
    at: n(3)"""
    n(3)

@refused(n=INT)
def dataclass_without_field(n):
    """TypeMismatch: Vec: missing a required argument: 'x'
    at: Vec()"""
    v = Vec()

@refused(n=INT)
def frozen_dataclass(n):
    """TypeMismatch: cannot assign attribute 'x' of a Vec object: its dataclass is frozen
    at: v.x"""
    v = Vec(n)
    v.x = 3

@refused(n=INT)
def error_inside_of_a_function(n):
    """TypeMismatch: `+` does not exist for a run-time int32 and the compile-time str 'text'
    at: x + "text""""
    def f(x):
        return x + "text"
    y = f(n)

@refused(n=INT)
def native_that_raises(n):
    """InvalidValue: sqrt: ValueError: math domain error
    at: math.sqrt(-1)"""
    x = math.sqrt(-1)

# values
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
    at: n + "1""""
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
    at: x ** n"""
    y = x ** n

@refused(n=INT)
def unpack_too_few(n):
    """InvalidValue: expected 3 values to unpack, got 2
    at: a, b, c"""
    a, b, c = n, 1

@refused(n=INT)
def unpack_a_number(n):
    """TypeMismatch: expected a sequence of 2 values to unpack, got a run-time int32
    at: a, b"""
    a, b = n

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
    xs = [i for i in range(n)]

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
    hint: write an f-string: f"... {x}""""
    x = "%d" % n

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
def ünïcode_column(n):
    """TypeMismatch: `+` does not exist for the compile-time str 'ü' and a run-time int32
    at: é + n"""
    é = "ü"; x = é + n

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
    at: td.static_range(100_000)
    hint: loop over range(...), which runs at run time"""
    for i in td.static_range(100_000):
        pass

@refused(n=INT)
def star_argument(n):
    """TypeMismatch: expected a sequence to be unpacked, got a run-time int32
    at: *n"""
    x = *n, 1

@refused(n=INT)
def negative_power_of_zero(n):
    """InvalidValue: `**`: 0.0 cannot be raised to a negative power
    at: 0 ** -1"""
    x = 0 ** -1

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
    x = "{}".format(n)

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
