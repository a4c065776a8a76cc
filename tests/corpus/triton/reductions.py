import triton
import triton.language as tl

arguments = {"x": "*i32", "floats": "*fp32", "rows": "*i32", "columns": "*i32", "whole": "*i32", "extremes": "*fp32",
             "wide": "*i64"}
constants = {"ROWS": 8, "COLUMNS": 32}


@triton.jit
def combine(a, b):
    return a + b + a * b * 3


@triton.jit
def smaller_magnitude(value, index, other, other_index):
    keep = (tl.abs(value) < tl.abs(other)) | ((tl.abs(value) == tl.abs(other)) & (index < other_index))
    return tl.where(keep, value, other), tl.where(keep, index, other_index)


@triton.jit
def reductions(x, floats, rows, columns, whole, extremes, wide, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    values = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(rows + row, tl.sum(values, axis=1))
    tl.store(rows + ROWS + row, tl.max(values, axis=1))
    tl.store(rows + 2 * ROWS + row, tl.min(values, axis=1))
    tl.store(rows + 3 * ROWS + row, tl.xor_sum(values, axis=1))
    tl.store(rows + 4 * ROWS + row, tl.argmax(values % 16, axis=1))
    tl.store(rows + 5 * ROWS + row, tl.argmin(values % 16, axis=1))
    tl.store(columns + column, tl.sum(values, axis=0))
    tl.store(columns + COLUMNS + column, tl.max(values, axis=0))
    tl.store(columns + 2 * COLUMNS + column, tl.argmax(values % 16, axis=0))
    tl.store(columns + 3 * COLUMNS + column, tl.reduce(values & 3, 0, combine))
    tl.store(whole, tl.sum(tl.ravel(values), axis=0))
    tl.store(whole + 1, tl.reduce_or(tl.ravel(values & 255), axis=0))
    best, place = tl.reduce((values, row[:, None] * COLUMNS + column[None, :]), None, smaller_magnitude)
    tl.store(whole + 2, best)
    tl.store(whole + 3, place)
    real = tl.load(floats + row[:, None] * COLUMNS + column[None, :])
    tl.store(extremes, tl.max(real))
    tl.store(extremes + 1, tl.min(real))
    greatest, where = tl.max(real, axis=1, return_indices=True)
    tl.store(extremes + 2 + row, greatest)
    tl.store(rows + 6 * ROWS + row, where)
    tl.store(wide + row, tl.sum(values.to(tl.int64) * values.to(tl.int64), axis=1))
