import triton
import triton.language as tl

arguments = {"x": "*fp32", "out": "*fp32", "uniform": "*fp32", "words": "*i32", "n": "i32", "p": "fp32", "seed": "i32"}
constants = {"BLOCK": 256}


@triton.jit
def dropout(x, out, uniform, words, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    random = tl.rand(seed, at)
    kept = random > p
    tl.store(uniform + at, random, mask=inside)
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=inside) * 2.0, 0.0), mask=inside)
    first, second, third, fourth = tl.randint4x(seed, at)
    tl.store(words + at * 4, first.to(tl.int32, bitcast=True), mask=inside)
    tl.store(words + at * 4 + 1, second.to(tl.int32, bitcast=True), mask=inside)
    tl.store(words + at * 4 + 2, third.to(tl.int32, bitcast=True), mask=inside)
    tl.store(words + at * 4 + 3, fourth.to(tl.int32, bitcast=True), mask=inside)
