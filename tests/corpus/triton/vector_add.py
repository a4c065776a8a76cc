import triton
import triton.language as tl

arguments = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
constants = {"BLOCK": 512}


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
