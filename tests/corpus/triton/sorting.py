import triton
import triton.language as tl

arguments = {"x": "*i32", "floats": "*fp32", "out": "*i32", "sorted_floats": "*fp32"}
constants = {"ROWS": 4, "COLUMNS": 32}


@triton.jit
def sorting(x, floats, out, sorted_floats, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    values = tl.load(x + at)
    size: tl.constexpr = ROWS * COLUMNS
    tl.store(out + at, tl.sort(values, dim=1))
    tl.store(out + size + at, tl.sort(values, dim=1, descending=True))
    tl.store(out + 2 * size + at, tl.flip(values, 1))
    tl.store(out + 3 * size + tl.arange(0, ROWS)[:, None] * 8 + tl.arange(0, 8)[None, :], tl.topk(values, 8))
    tl.store(sorted_floats + at, tl.sort(tl.load(floats + at), dim=1))
