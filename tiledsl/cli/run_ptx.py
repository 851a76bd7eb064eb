"""``python -m tiledsl run-ptx FILE``: any PTX on the PTX machine."""

from __future__ import annotations

import argparse
import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tiledsl import ptx
from tiledsl.cli import values
from tiledsl.cli.usage import UsageError
from tiledsl.cli.values import Values

__all__ = ["add_parser"]

Array = np.ndarray[Any, Any]
_POLICIES = ("eager", "late", "random", "pct")
_EXAMPLE = """\
--array and --arg:
  a=randn:128x64:bf16     filled array: randn, uniform, randint(LOW,HIGH), bits, zeros, ones, nan,
                          full(X), arange; types s8 ... u64, f16, bf16, f32, f64, e4m3, e5m2
  a=in.npy, npy:in.npy:bf16   array from a file, whose type may be named
  a                       (--arg) the array that has this name
  tma(a, box=64x64, swizzle=128, strides=1x1, interleave=none, fill=zeros)
                          (--arg) tensor map; in the array's order, innermost last; im2col:
                          box=PIXELSxCHANNELS, lower=-1x-1, upper=1x1
  struct(a, i32:5, null)  (--arg) struct by value; 128, 1.5, true, f16:1.5: numbers

example:
  python -m tiledsl run-ptx gemm.ptx --grid 4 --block 384 --shared 200000 \\
      --array a=randn:256x64:bf16 --arg 'tma(a, box=128x64, swizzle=128)' \\
      --arg c=nan:256x256:f32 --save c=c.npy --expect c=ref.npy --tolerance 1e-2
"""


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "run-ptx",
        help="run PTX on the CPU, exactly and with checks",
        description="Runs an entry of a PTX file on the CPU and reports what it does wrong.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", help="PTX file; -: standard input")
    add("--list", action="store_true", help="list entries and their parameters, and run nothing")
    add("--entry", help="which entry (default: the only one)")
    add("--grid", default="1", metavar="XxYxZ", help="blocks (default: 1)")
    add("--block", metavar="XxYxZ", help="threads of a block (default: as .reqntid says)")
    add("--cluster", metavar="XxYxZ", help="blocks of a cluster (default: as the PTX says, or 1)")
    add("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    add("--array", action="append", default=[], metavar="NAME=ARRAY", help="an array to use below")
    add("--arg", action="append", default=[], metavar="[NAME=]VALUE",
        help="the next parameter's argument")  # fmt: skip
    add("--save", action="append", default=[], metavar="NAME=FILE.npy[:TYPE]",
        help="write an array at the end; bf16 and fp8 as raw bytes unless :TYPE")  # fmt: skip
    add("--expect", action="append", default=[], metavar="NAME=FILE.npy",
        help="compare an array when the program has run")  # fmt: skip
    add("--tolerance", type=float, default=0.0, metavar="T",
        help="|got - expected| <= T + T * |expected| (default: 0, equal)")  # fmt: skip
    add("--policy", default="late", choices=(*_POLICIES, "all"),
        help="when asynchronous work happens and which warp runs (default: late)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="of the first schedule")
    add("--schedules", type=int, default=1, metavar="N", help="run with N seeds")
    add("--data-seed", type=int, default=0, metavar="N", help="of random arrays")
    add("--no-checks", action="store_true", help="no races, fences, accesses in flight")
    add("--together", action="store_true", help="all blocks at once: they wait on each other")
    add("--budget", type=int, default=2_000_000_000, metavar="N",
        help="warp instructions after which a run is given up")  # fmt: skip
    add("--registers", type=int, default=0, metavar="N",
        help="of a thread at launch, which setmaxnreg changes")  # fmt: skip
    add("--profile", action="store_true", help="instructions, bytes, bank conflicts, waits")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    text = _read(given.file)
    if given.list:
        for name, parameters in ptx.entries(text).items():
            print(f"{name}({', '.join(map(ptx.described, parameters))})")
        return 0
    if given.schedules < 1:
        raise UsageError(f"--schedules: expected a number from 1, got {given.schedules}")
    if not given.tolerance >= 0:
        raise UsageError(f"--tolerance: expected a number from 0, got {given.tolerance}")
    made = Values(given.data_seed) if given.data_seed >= 0 else _negative("--data-seed")
    for word in given.array:
        made.add_array(word)
    for word in given.arg:
        made.add_argument(word)
    _check_labels(text, given.entry, made)
    saves = [_save(word, made) for word in given.save]
    expected = dict(_expectation(word, made) for word in given.expect)
    options = _options(given)
    policies = _POLICIES if given.policy == "all" else (given.policy,)
    first: dict[str, Array] | None = None
    status = 0
    for policy in policies:
        for seed in range(given.seed, given.seed + given.schedules):
            # Arrays that alias, in the arguments and by name, alias in the copy as well.
            arrays, args = copy.deepcopy((made.arrays, made.args))
            result = ptx.run(text, args, policy=policy, seed=seed, **options)
            problems = _compare(arrays, expected, given.tolerance)
            if first is None:
                first = arrays
                _report(result)
            else:
                problems += _differences(first, arrays, set(expected))
            print(f"{policy}, seed {seed}: {'; '.join(problems) or 'ok'}")
            status = 1 if problems else status
    assert first is not None
    for name, path, dtype in saves:
        array = first[name] if dtype is None else first[name].astype(dtype)
        try:
            np.save(path, array, allow_pickle=False)
        except OSError as error:
            raise UsageError(f"--save {name}={path}: {error}") from None
    return status


def _check_labels(text: str, entry: str | None, made: Values) -> None:
    """An argument that is named as another parameter is in the wrong place."""
    entries = ptx.entries(text)
    name = entry or next(iter(entries), "")
    if name not in entries or (entry is None and len(entries) > 1):
        return  # ptx.run says so
    names = [parameter.name for parameter in entries[name]]
    for at, label in enumerate(made.labels):
        if label in names and names.index(label) != at:
            raise UsageError(
                f"--arg {label}=...: expected arguments in the order of the parameters"
                f" ({', '.join(names)}), got it as number {at + 1}"
            )


def _negative(option: str) -> Any:
    raise UsageError(f"{option}: expected a number from 0")


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path!r} as PTX: {error}") from None


def _options(given: argparse.Namespace) -> dict[str, Any]:
    found = {
        "entry": given.entry,
        "grid": values.numbers(given.grid, "--grid"),
        "dynamic_shared": given.shared,
        "checks": not given.no_checks,
        "together": given.together,
        "budget": given.budget,
        "registers": given.registers,
        "profile": given.profile,
    }
    for name in ("block", "cluster"):
        text = getattr(given, name)
        if text is not None:
            found[name] = values.numbers(text, f"--{name}")
    return found


def _save(text: str, made: Values) -> tuple[str, str, Any]:
    """Name, path and type of an array that is asked for."""
    where = f"--save {text}"
    name, _, path = text.partition("=")
    _known(name, made, where)
    stem, colon, kind = path.rpartition(":")
    dtype = None
    if colon and kind in values.DTYPES:
        path, dtype = stem, values.DTYPES[kind]
    if not path.endswith(".npy"):
        raise UsageError(f"{where}: expected NAME=FILE.npy, got {path!r}")
    values.check_folder(path, where)
    return name, path, dtype


def _expectation(text: str, made: Values) -> tuple[str, Array]:
    where = f"--expect {text}"
    name, _, path = text.partition("=")
    array = _known(name, made, where)
    raw = values.load_array(path, where, array.dtype if _is_raw(path) else None)
    if raw.shape != array.shape:
        raise UsageError(f"{where}: expected shape {array.shape}, as {name} has, got {raw.shape}")
    return name, raw


def _is_raw(path: str) -> bool:
    """Whether a file does not say its type, as those of bf16 and fp8."""
    try:
        return bool(np.load(path, mmap_mode="r", allow_pickle=False).dtype.kind == "V")
    except (OSError, ValueError, EOFError, AttributeError):
        return False  # load_array says what is wrong


def _known(name: str, made: Values, where: str) -> Array:
    if name not in made.arrays:
        known = ", ".join(made.arrays) or "none"
        raise UsageError(f"{where}: there is no array {name!r}; there are: {known}")
    return made.arrays[name]


def _report(result: ptx.Result) -> None:
    print(f"kernel {result.program.name}: {result.instructions:,} instructions of warps")
    for line in result.prints:
        print(line, end="" if line.endswith("\n") else "\n")
    if result.profile is not None:
        print(result.profile)


def _compare(arrays: dict[str, Array], expected: dict[str, Array], tolerance: float) -> list[str]:
    """What is wrong with the arrays of which something is expected."""
    problems = []
    for name, want in expected.items():
        got = arrays[name]
        if got.dtype.kind in "iub" and want.dtype.kind in "iub" and not tolerance:
            wrong, error = got != want, None
        else:
            # ml_dtypes have no isnan of their own for all types; float64 has every value.
            a, b = got.astype(np.float64), want.astype(np.float64)
            with np.errstate(invalid="ignore"):
                error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
                wrong = ~(error <= tolerance + tolerance * np.abs(b))
        if count := int(np.count_nonzero(wrong)):
            at = tuple(int(x) for x in np.argwhere(wrong)[0])
            text = (
                f"{name}: {count:,} of {got.size:,} elements are wrong, first {at}: expected"
                f" {want[at]}, got {got[at]}"
            )
            if error is not None:
                finite = error[wrong & np.isfinite(error)]
                text += f", largest error {finite.max():.3g}" if finite.size else ""
            problems.append(text)
    return problems


def _differences(
    first: dict[str, Array], arrays: dict[str, Array], expected: set[str]
) -> list[str]:
    """Arrays that another schedule leaves with other bytes, but for those that are compared."""
    problems = []
    for name, array in arrays.items():
        if name in expected or first[name].tobytes() == array.tobytes():
            continue
        mine, other = (
            np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, -1)
            for x in (array, first[name])
        )
        count = int(np.count_nonzero((mine != other).any(axis=1)))
        problems.append(
            f"{name}: {count:,} of {array.size:,} elements differ from the first schedule's"
        )
    return problems
