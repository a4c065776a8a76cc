"""A persistent program that walks over tiles, with loads that are copied ahead into shared memory."""

import triton
import triton.language as tl

arguments = {"x": "*fp16", "table": "*fp16", "out": "*fp32", "rows": "i32"}
constants = {"TILE": 16, "COLUMNS": 64}


@triton.jit
def pipelined_rows(x, table, out, rows, TILE: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, TILE), tl.num_programs(0), num_stages=3, flatten=True):
        row = tile * TILE + tl.arange(0, TILE)
        sums = tl.zeros([TILE], dtype=tl.float32)
        for part in tl.range(0, 4, num_stages=4):
            at = (part * rows + row[:, None]) * COLUMNS + column[None, :]
            left = tl.load(x + at, mask=row[:, None] < rows, other=0.0)
            right = tl.load(table + part * COLUMNS + column)
            sums += tl.sum(left.to(tl.float32) * right[None, :].to(tl.float32), axis=1)
        tl.store(out + row, sums, mask=row < rows)
