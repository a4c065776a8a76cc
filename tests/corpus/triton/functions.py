"""Functions that are called, not inlined, one of them with shared memory, and assertions that hold."""

import triton
import triton.language as tl

arguments = {"x": "*i32", "out": "*i32", "sums": "*i32", "n": "i32"}
constants = {"BLOCK": 256}
options = {"debug": True}


@triton.jit(noinline=True)
def mixed(value, factor):
    return value * factor + (value >> 3)


@triton.jit(noinline=True)
def total(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0)
    return tl.sum(values, axis=0), tl.max(values, axis=0)


@triton.jit(noinline=True)
def fill(target, value, BLOCK: tl.constexpr):
    tl.store(target + tl.arange(0, BLOCK), value + tl.arange(0, BLOCK))


@triton.jit
def functions(x, out, sums, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    first = tl.load(x + program)
    tl.device_assert(program < 1 << 20, "The index is too large")
    factor = mixed(first, 7)
    fill(out + program * BLOCK, mixed(factor, program + 1), BLOCK)
    added, greatest = total(x + program * BLOCK, n, BLOCK)
    tl.store(sums + program * 2, added)
    tl.store(sums + program * 2 + 1, greatest)
