import triton
import triton.language as tl

arguments = {"x": "*i32", "indices": "*i32", "rows": "*i32", "columns": "*i32", "scattered": "*i32"}
constants = {"ROWS": 32, "COLUMNS": 32}


@triton.jit
def gathers(x, indices, rows, columns, scattered, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    at = row * COLUMNS + column
    values = tl.load(x + at)
    index = tl.load(indices + at)
    tl.store(rows + at, tl.gather(values, index, 1))
    tl.store(columns + at, tl.gather(values, index, 0))
    target = tl.load(indices + ROWS * COLUMNS + at)
    tl.store(scattered + target, tl.load(x + (at ^ 5)), mask=(target & 1) == 0)
