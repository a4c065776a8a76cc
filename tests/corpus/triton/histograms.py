import triton
import triton.language as tl

arguments = {"x": "*i32", "counts": "*i32", "partial": "*i32", "n": "i32"}
constants = {"BLOCK": 512, "BINS": 64}


@triton.jit
def histograms(x, counts, partial, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, mask=inside, other=0)
    tl.atomic_add(counts + values, 1, mask=inside)
    found = tl.histogram(values, BINS, mask=inside)
    tl.store(partial + tl.program_id(0) * BINS + tl.arange(0, BINS), found)
