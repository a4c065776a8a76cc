import triton
import triton.language as tl

arguments = {"x": "*fp32", "weight": "*fp32", "bias": "*fp32", "out": "*fp32", "means": "*fp32", "scales": "*fp32",
             "columns": "i32", "epsilon": "fp32"}
constants = {"BLOCK": 64}
warps = 2


@triton.jit
def layer_norm(x, weight, bias, out, means, scales, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        centered = tl.where(at < columns, tl.load(x + at, mask=at < columns, other=0.0) - mean, 0.0)
        squares += centered * centered
    scale = tl.rsqrt(tl.sum(squares, axis=0) / columns + epsilon)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        inside = at < columns
        normal = (tl.load(x + at, mask=inside) - mean) * scale
        result = normal * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(out + row * columns + at, result, mask=inside)
