"""Runs the threads of a block on the CPU, inline PTX included: loads, stores and copies move bytes.

Each inline asm becomes a call of Python, which interprets its text: the instructions that tiledsl
emits for memory, with registers, predicates and labels. Shared memory is a byte array; global
memory is that of the arrays that the kernel is given, and anything else is a fault. The threads
run one after the other. Where a kernel has ``ldmatrix``, each warp runs twice: the first pass
collects the addresses that all lanes give to it, the second has the effects.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding

from tests.codegen.host_jit import HostKernel, host_text
from tiledsl.codegen.ir.kernel import Kernel

_ASM = re.compile(
    r'call ([^"\n]*?) asm (?:sideeffect )? ?"([^"]*)", ?"([^"]*)" ?\(([^\n]*?)\)(?= |,|$)'
)
_PLAY = ctypes.CFUNCTYPE(
    None, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64)
)
RANK = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"
U64 = (1 << 64) - 1


class Fault(AssertionError):
    """Memory that is not the kernel's, or an address that is not aligned."""


@dataclass
class Block:
    """What happened in a block.

    Attributes:
        shared: the bytes of dynamic shared memory.
        completed: bytes completed on the barrier at each address.
        issued: instructions that only a GPU can run, with their operands, in order.
        widths: how many copies there were of each width, by instruction.
    """

    shared: bytearray
    completed: dict[int, int] = field(default_factory=dict)
    issued: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=dict)

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        count = int(np.prod(shape))
        raw = bytes(self.shared[offset : offset + count * np.dtype(dtype).itemsize])
        return np.frombuffer(raw, dtype).reshape(shape)


class HostMachine:
    """A kernel on the CPU. ``arrays`` may be NumPy views with any strides."""

    def __init__(self, kernel: Kernel) -> None:
        assert kernel.plan is not None
        self.plan = kernel.plan
        self.texts: list[tuple[list[tuple[str, str, str]], int, int]] = []
        self.callback = _PLAY(self._play)
        binding.add_symbol("host_play", ctypes.cast(self.callback, ctypes.c_void_p).value)
        self.kernel = HostKernel(kernel, self._text)
        self.matrices = any("ldmatrix" in opcode for p, *_ in self.texts for _, opcode, _ in p)
        self.fault: BaseException | None = None

    # ------------------------------------------------------------------------------- LLVM

    def _text(self, kernel: Kernel) -> str:
        text = host_text(kernel)
        text = re.sub(r"ptrtoint \[0 x i8\][^\n]*? to i32", "add i32 0, 0", text)
        if RANK in text:
            text = re.sub(rf'declare i32 @"?{re.escape(RANK)}"?\(\)', "", text)
            text = re.sub(rf'@"?{re.escape(RANK)}"?\(', "@host.rank(", text)
            text += (
                "\n@ctarank.x = global i32 0\ndefine i32 @host.rank() {\n"
                "  %v = load i32, ptr @ctarank.x\n  ret i32 %v\n}\n"
            )
        functions: list[str] = []

        def call(match: re.Match[str]) -> str:
            result, asm, constraints, given = match.groups()
            kinds = [a.split()[0] for a in _split(given)]
            number = len(self.texts)
            outputs = sum(c.startswith("=") for c in constraints.split(","))
            self.texts.append((_parse(asm), outputs, len(kinds)))
            functions.append(_function(number, result.strip(), kinds))
            return f"call {result} @host.asm.{number}({given})"

        text = _ASM.sub(call, text)
        assert " asm " not in text, re.findall(r".* asm .*", text)[:2]
        return _optimised("\n".join([text, *functions, "declare void @host_play(i32, ptr, ptr)"]))

    # ------------------------------------------------------------------------------ running

    def run(self, arrays: Sequence[Any], rank: int = 0, shared: bytes | None = None) -> Block:
        """Run all threads of one block; ``shared`` is what shared memory holds at first."""
        self.ranges = [_range(a) for a in arrays if isinstance(a, np.ndarray)]
        size = self.plan.shared_bytes
        poison = np.random.default_rng().integers(0, 256, size, dtype=np.uint8).tobytes()
        self.block = Block(bytearray(shared if shared is not None else poison))
        self.kernel._set("ctarank.x", rank)
        for warp in range(self.plan.threads // 32):
            self.addresses: dict[tuple[int, int], int] = {}
            self.stores: dict[int, dict[int, tuple[int, list[int], bool]]] = {}
            for dry in (True, False) if self.matrices else (False,):
                self.dry = dry
                for self.lane in range(32):
                    self.number = 0
                    self.kernel(arrays, thread=32 * warp + self.lane)
                    if self.fault is not None:
                        fault, self.fault = self.fault, None
                        raise fault
            self._store_matrices()
        return self.block

    def _play(self, number: int, given: Any, out: Any) -> None:
        if self.fault is not None:
            return
        program, outputs, count = self.texts[number]
        registers = {f"${outputs + n}": given[n] & U64 for n in range(count)}
        try:
            _Interpreter(self, registers).run(program)
        except BaseException as error:  # it cannot pass through the machine code
            self.fault = error
        for n in range(outputs):
            value = registers.get(f"${n}", 0) & U64
            out[n] = value - (1 << 64) if value >> 63 else value

    # ------------------------------------------------------------------------------- memory

    def read(self, space: str, address: int, nbytes: int) -> bytes:
        self._check(space, address, nbytes)
        if space == "shared":
            return bytes(self.block.shared[address : address + nbytes])
        return ctypes.string_at(address, nbytes)

    def write(self, space: str, address: int, data: bytes) -> None:
        self._check(space, address, len(data))
        if self.dry:
            return
        if space == "shared":
            self.block.shared[address : address + len(data)] = data
        else:
            ctypes.memmove(address, data, len(data))

    def _check(self, space: str, address: int, nbytes: int) -> None:
        if address % (1 << (nbytes.bit_length() - 1) if nbytes < 16 else 16):
            raise Fault(f"{nbytes} bytes at {space} address {address:#x}")
        if space == "shared":
            inside = 0 <= address and address + nbytes <= len(self.block.shared)
        else:
            inside = any(low <= address and address + nbytes <= high for low, high in self.ranges)
        if not inside:
            raise Fault(f"{nbytes} bytes at {space} address {address:#x}, outside of all memory")

    def load_matrices(self, address: int, count: int, trans: bool) -> list[int]:
        """``ldmatrix``: this lane's word of each matrix."""
        number, self.number = self.number, self.number + 1
        if self.dry:
            self.addresses[number, self.lane] = address
            return [0] * count
        found = []
        for matrix in range(count):
            rows = [
                np.frombuffer(self.read("shared", self.addresses[number, 8 * matrix + n], 16), "u2")
                for n in range(8)
            ]
            values = np.stack(rows)
            values = values.T if trans else values
            pair = values[self.lane // 4, 2 * (self.lane % 4) :][:2]
            found.append(int(pair[0]) | int(pair[1]) << 16)
        return found

    def store_matrices(self, address: int, words: list[int], trans: bool) -> None:
        number, self.number = self.number, self.number + 1
        if not self.dry:
            self.stores.setdefault(number, {})[self.lane] = (address, words, trans)

    def _store_matrices(self) -> None:
        for lanes in self.stores.values():
            assert len(lanes) == 32
            _, words, trans = lanes[0]
            for matrix in range(len(words)):
                values = np.zeros((8, 8), np.uint16)
                for lane in range(32):
                    word = lanes[lane][1][matrix]
                    values[lane // 4, 2 * (lane % 4) :][:2] = word & 0xFFFF, word >> 16
                values = values.T if trans else values
                for n in range(8):
                    data = np.ascontiguousarray(values[n]).tobytes()
                    self.write("shared", lanes[8 * matrix + n][0], data)


def _optimised(text: str) -> str:
    """As the kernel is optimised for the GPU: no 16-bit floats are left that only pass through.

    The host would convert them to float32 and back, which changes NaNs.
    """
    binding.initialize_native_target()
    machine = binding.Target.from_default_triple().create_target_machine()
    module = binding.parse_assembly(text)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(module)


def _range(array: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


def _split(arguments: str) -> list[str]:
    return [a.strip() for a in arguments.split(", ")] if arguments.strip() else []


def _function(number: int, result: str, kinds: list[str]) -> str:
    given = ", ".join(f"{kind} %a{n}" for n, kind in enumerate(kinds))
    lines = [f"  %in = alloca [{max(1, len(kinds))} x i64]", "  %out = alloca [8 x i64]"]
    for n, kind in enumerate(kinds):
        source = f"%a{n}"
        if kind in ("float", "double"):
            whole = {"float": "i32", "double": "i64"}[kind]
            lines.append(f"  %b{n} = bitcast {kind} {source} to {whole}")
            kind, source = whole, f"%b{n}"
        if kind == "ptr":
            lines.append(f"  %w{n} = ptrtoint ptr {source} to i64")
        elif kind == "i64":
            lines.append(f"  %w{n} = add i64 {source}, 0")
        else:
            lines.append(f"  %w{n} = zext {kind} {source} to i64")
        lines.append(f"  %p{n} = getelementptr i64, ptr %in, i32 {n}")
        lines.append(f"  store i64 %w{n}, ptr %p{n}")
    lines.append(f"  call void @host_play(i32 {number}, ptr %in, ptr %out)")
    results = _split(result.strip("{} ")) if result.startswith("{") else [result]
    values = []
    for n, kind in enumerate(results if result != "void" else []):
        whole = {"float": "i32", "double": "i64"}.get(kind, kind)
        lines.append(f"  %q{n} = getelementptr i64, ptr %out, i32 {n}")
        lines.append(f"  %l{n} = load {whole}, ptr %q{n}")
        lines.append(f"  %r{n} = bitcast {whole} %l{n} to {kind}")
        values.append((kind, f"%r{n}"))
    if result == "void":
        lines.append("  ret void")
    elif not result.startswith("{"):
        lines.append(f"  ret {result} {values[0][1]}")
    else:
        last = "undef"
        for n, (kind, value) in enumerate(values):
            lines.append(f"  %s{n} = insertvalue {result} {last}, {kind} {value}, {n}")
            last = f"%s{n}"
        lines.append(f"  ret {result} {last}")
    body = "\n".join(lines)
    return f"define {result} @host.asm.{number}({given}) {{\n{body}\n}}"


# ----------------------------------------------------------------------------------- PTX


def _parse(text: str) -> list[tuple[str, str, str]]:
    """(label or predicate, opcode, operands) of each instruction."""
    text = text.replace("{ ", "", 1) if text.startswith("{ ") else text
    text = text.rstrip(" }")
    text = text + "}" if text.count("{") > text.count("}") else text
    program = []
    for piece in text.split(";"):
        piece = piece.strip()
        while found := re.match(r"([\w${}:]+?): ?", piece):
            if not re.match(r"[A-Z]", piece):
                break
            program.append((found[1].split("$")[0], "label", ""))
            piece = piece[found.end() :]
        guard = ""
        if found := re.match(r"@(!?[\w$]+) ", piece):
            guard, piece = found[1], piece[found.end() :]
        if piece and not piece.startswith("."):
            opcode, _, operands = piece.partition(" ")
            program.append((guard, opcode, operands.strip()))
    return program


_WIDTH = re.compile(r"\.(?:[buf])(8|16|32|64)$")


_PARTS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")


@cache
def _parts(text: str) -> list[str]:
    return [part.strip() for part in _PARTS.findall(text)]


@cache
def _names(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{} ").split(",")]


@cache
def _bits(opcode: str) -> int:
    width = _WIDTH.search(opcode)
    assert width is not None, opcode
    return int(width[1])


class _Interpreter:
    def __init__(self, machine: HostMachine, registers: dict[str, int]) -> None:
        self.machine = machine
        self.registers = registers

    def value(self, operand: str) -> int:
        found = self.registers.get(operand)
        return int(operand) if found is None else found

    def address(self, operand: str) -> int:
        base, _, more = operand.strip("[] ").partition("+")
        return self.value(base) + int(more or 0)

    def run(self, program: list[tuple[str, str, str]]) -> None:
        place, steps = 0, 0
        labels = {name: n for n, (name, opcode, _) in enumerate(program) if opcode == "label"}
        while place < len(program):
            steps += 1
            assert steps < 100_000, "a loop that does not end"
            guard, opcode, operands = program[place]
            place += 1
            if opcode == "label":
                continue
            if guard and bool(self.value(guard.lstrip("!")) & 1) == guard.startswith("!"):
                continue
            if opcode == "bra":
                place = labels[operands.split("$")[0]]
            else:
                self.step(opcode, operands)

    def step(self, opcode: str, text: str) -> None:
        family = opcode.split(".", maxsplit=1)[0]
        method = getattr(self, "_" + family, None)
        if opcode.startswith(("cp.async.bulk.tensor", "cp.reduce", "createpolicy")) or not method:
            if not self.machine.dry:
                given = tuple(self.registers[k] for k in sorted(self.registers, key=_number))
                self.machine.block.issued.append((f"{opcode} {text}", given))
            return
        method(opcode, _parts(text))

    def _mov(self, opcode: str, parts: list[str]) -> None:
        self.registers[parts[0]] = self.value(parts[1])

    def _setp(self, opcode: str, parts: list[str]) -> None:
        a, b = self.value(parts[1]) & 0xFFFFFFFF, self.value(parts[2]) & 0xFFFFFFFF
        kind = opcode.split(".")[1]
        holds = {"eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b}[kind]
        if ".and." in opcode:
            holds = holds and bool(self.value(parts[3]))
        self.registers[parts[0]] = int(holds)

    def _arithmetic(self, parts: list[str], function: Any, bits: int = 32) -> None:
        values = [self.value(part) for part in parts[1:]]
        self.registers[parts[0]] = function(*values) & ((1 << bits) - 1)

    def _add(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a, b: a + b)

    def _sub(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a, b: a - b)

    def _and(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a, b: a & b)

    def _shr(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a, b: a >> b)

    def _cvt(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a: a, 64)

    def _mad(self, opcode: str, parts: list[str]) -> None:
        self._arithmetic(parts, lambda a, b, c: a * b + c, 64)

    def _count(self, what: str) -> None:
        if not self.machine.dry:
            widths = self.machine.block.widths
            widths[what] = widths.get(what, 0) + 1

    def _ld(self, opcode: str, parts: list[str]) -> None:
        space = opcode.split(".")[1]
        names, nbytes = _names(parts[0]), _bits(opcode) // 8
        self._count(opcode)
        data = self.machine.read(space, self.address(parts[1]), nbytes * len(names))
        for n, name in enumerate(names):
            self.registers[name] = int.from_bytes(data[n * nbytes : (n + 1) * nbytes], "little")

    def _st(self, opcode: str, parts: list[str]) -> None:
        space = opcode.split(".")[1]
        names, bits = _names(parts[1]), _bits(opcode)
        self._count(opcode)
        values = [self.value(name) & ((1 << bits) - 1) for name in names]
        data = b"".join(value.to_bytes(bits // 8, "little") for value in values)
        self.machine.write(space, self.address(parts[0]), data)

    def _cp(self, opcode: str, parts: list[str]) -> None:
        to, source = self.address(parts[0]), self.address(parts[1])
        if opcode.startswith("cp.async.bulk.shared"):
            nbytes, barrier = self.value(parts[2]), self.address(parts[3])
            assert nbytes % 16 == source % 16 == to % 16 == 0 and nbytes
            self._copy(to, source, nbytes, nbytes)
            self._complete(barrier, nbytes)
            self._count("bulk")
            return
        width, taken = int(parts[2]), self.value(parts[3])
        assert 0 <= taken <= width and source % width == 0, (opcode, hex(source), taken)
        self._copy(to, source, width, taken)
        self._count(opcode.replace(".shared.global", f".{width}"))

    def _copy(self, to: int, source: int, nbytes: int, taken: int) -> None:
        data = bytearray()
        for n in range(taken):
            data += self.machine.read("global", source + n, 1)
        data += bytes(nbytes - taken)
        step = min(16, nbytes)
        for n in range(0, nbytes, step):
            self.machine.write("shared", to + n, bytes(data[n : n + step]))

    def _complete(self, barrier: int, nbytes: int) -> None:
        if not self.machine.dry:
            completed = self.machine.block.completed
            completed[barrier] = completed.get(barrier, 0) + nbytes

    def _mbarrier(self, opcode: str, parts: list[str]) -> None:
        if opcode.startswith("mbarrier.complete_tx"):
            self._complete(self.address(parts[0]), self.value(parts[1]))

    def _ldmatrix(self, opcode: str, parts: list[str]) -> None:
        names = _names(parts[0])
        address = self.address(parts[1])
        for name, word in zip(
            names,
            self.machine.load_matrices(address, len(names), ".trans" in opcode),
            strict=True,
        ):
            self.registers[name] = word

    def _stmatrix(self, opcode: str, parts: list[str]) -> None:
        names = _names(parts[1])
        words = [self.value(n) & 0xFFFFFFFF for n in names]
        self.machine.store_matrices(self.address(parts[0]), words, ".trans" in opcode)

    def _fence(self, opcode: str, parts: list[str]) -> None:
        self._count(opcode)

    def _bar(self, opcode: str, parts: list[str]) -> None:
        self._count(opcode)

    def _prefetch(self, opcode: str, parts: list[str]) -> None:
        pass


def _number(name: str) -> tuple[bool, int]:
    return not name.startswith("$"), int(name[1:]) if name[1:].isdigit() else 0
