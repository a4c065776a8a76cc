import triton
import triton.language as tl

arguments = {"x": "*fp32", "out": "*fp32", "columns": "i32"}
constants = {"BLOCK": 256}


@triton.jit
def fused_softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * columns + column, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + column, powers / tl.sum(powers, 0), mask=inside)
