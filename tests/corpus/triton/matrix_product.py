"""A matrix product without tensor cores: sums of products over tensors of three dimensions."""

import triton
import triton.language as tl

arguments = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
constants = {"ROWS": 16, "COLUMNS": 16, "DEPTH": 16}


@triton.jit
def matrix_product(a, b, c, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for begin in tl.range(0, K, DEPTH, num_stages=3):
        k = begin + tl.arange(0, DEPTH)
        left = tl.load(a + row[:, None] * K + k[None, :], mask=(row[:, None] < M) & (k[None, :] < K), other=0.0)
        right = tl.load(b + k[:, None] * N + column[None, :], mask=(k[:, None] < K) & (column[None, :] < N), other=0.0)
        sums += tl.sum(left[:, :, None] * right[None, :, :], axis=1)
    tl.store(c + row[:, None] * N + column[None, :], sums, mask=(row[:, None] < M) & (column[None, :] < N))
