"""Numbers of the operations of the family "control"."""

from __future__ import annotations

BRA = 0  # go to row TARGET; lanes whose guard does not hold go on
BRX = 1  # go to row vectors[VEC + A]
EXIT = 2  # the lanes end
TRAP = 3  # the program stops the grid
NOP = 4
BREAKPOINT = 5  # nothing happens
CLOCK = 6  # D0 = a clock: X0 is its place in special.CLOCKS
PRINT = 7  # vprintf: D0 = result, A = address of the format, B = of the arguments
ASSERT = 8  # __assertfail: VEC = message, file, line, function, size of a character

# What M.prints holds of a call of vprintf: warp, lane, address of the format, how many bytes of
# arguments follow, and these (no more than vprintf takes: 32 values).
PRINT_WARP, PRINT_LANE, PRINT_FORMAT, PRINT_BYTES, PRINT_ARGUMENTS = range(5)
PRINT_WORDS = PRINT_ARGUMENTS + 32
