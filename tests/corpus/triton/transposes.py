import triton
import triton.language as tl

arguments = {"x": "*i32", "out": "*i32", "narrow": "*i8", "halves": "*fp16", "swapped": "*fp16"}
constants = {"ROWS": 32, "COLUMNS": 64}


@triton.jit
def transposes(x, out, narrow, halves, swapped, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    size: tl.constexpr = ROWS * COLUMNS
    row = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    values = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    turned = column[:, None] * ROWS + row[None, :]
    tl.store(out + turned, tl.trans(values))
    flat = tl.arange(0, size)
    tl.store(out + size + flat, tl.ravel(tl.trans(values) + turned))
    cube = tl.reshape(values, [8, 16, 16])
    a = tl.arange(0, 16)[:, None, None]
    b = tl.arange(0, 8)[None, :, None]
    c = tl.arange(0, 16)[None, None, :]
    tl.store(out + 2 * size + (a * 8 + b) * 16 + c, tl.permute(cube, [2, 0, 1]))
    even, odd = tl.split(tl.reshape(values, [ROWS, COLUMNS // 2, 2]))
    tl.store(out + 3 * size + flat, tl.ravel(tl.interleave(odd, even)))
    tl.store(narrow + turned, tl.trans(values.to(tl.int8)))
    pairs = tl.load(halves + row[:, None] * COLUMNS + column[None, :])
    tl.store(swapped + turned, tl.trans(pairs) + tl.trans(pairs))
