import triton
import triton.language as tl

arguments = {"x": "*i32", "sums": "*i32", "floats": "*fp32", "unsigned": "*u32", "wide": "*i64", "old": "*i32",
             "halves": "*fp16", "signs": "*fp32", "n": "i32"}
constants = {"BLOCK": 256}


@triton.jit
def atomics(x, sums, floats, unsigned, wide, old, halves, signs, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + at, mask=inside, other=0)
    slot = at % 16
    tl.atomic_add(sums + slot, values, mask=inside)
    tl.atomic_max(sums + 16 + slot, values, mask=inside)
    tl.atomic_min(sums + 32 + slot, values, mask=inside, sem="relaxed")
    tl.atomic_and(sums + 48 + slot, values, mask=inside)
    tl.atomic_or(sums + 64 + slot, values, mask=inside, scope="cta")
    tl.atomic_xor(sums + 80 + slot, values, mask=inside, sem="release")
    tl.atomic_max(unsigned + slot, values.to(tl.uint32, bitcast=True), mask=inside)
    tl.atomic_min(unsigned + 16 + slot, values.to(tl.uint32, bitcast=True), mask=inside, scope="sys")
    tl.atomic_add(floats + slot, (values & 255).to(tl.float32) * 0.25, mask=inside)
    tl.atomic_add(wide + slot, values.to(tl.int64) * 65537, mask=inside)
    tl.atomic_max(wide + 16 + slot, values.to(tl.int64) << 20, mask=inside)
    tl.atomic_add(halves + slot, (values & 1).to(tl.float16), mask=inside)
    real = (values >> 8).to(tl.float32)
    tl.atomic_max(signs + slot, real, mask=inside)
    tl.atomic_min(signs + 16 + slot, real, mask=inside)
    # Each element has a word of its own, so that what it was is known.
    tl.store(old + at, tl.atomic_cas(old + BLOCK * 4 + at, at & 1, values), mask=inside)
    tl.store(old + BLOCK * 8 + at, tl.atomic_xchg(old + BLOCK * 12 + at, values, mask=inside), mask=inside)
