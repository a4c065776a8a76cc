import triton
import triton.language as tl

arguments = {"x": "*i32", "y": "*i32", "out": "*i32", "floats": "*fp32"}
constants = {"ROWS": 4, "COLUMNS": 64}


@triton.jit
def compose(factor, term, later_factor, later_term):
    return factor * later_factor, term * later_factor + later_term


@triton.jit
def scans(x, y, out, floats, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    size: tl.constexpr = ROWS * COLUMNS
    values = tl.load(x + at)
    factors = tl.load(y + at)
    tl.store(out + at, tl.cumsum(values, axis=1))
    tl.store(out + size + at, tl.cumsum(values, axis=0))
    tl.store(out + 2 * size + at, tl.cumprod(factors, axis=1))
    tl.store(out + 3 * size + at, tl.cumsum(values, axis=1, reverse=True))
    first, second = tl.associative_scan((factors, values), 1, compose)
    tl.store(out + 4 * size + at, first)
    tl.store(out + 5 * size + at, second)
    tl.store(floats + at, tl.cumsum((values & 1023).to(tl.float32) * 0.5, axis=1))
