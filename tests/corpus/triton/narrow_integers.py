import triton
import triton.language as tl

arguments = {"x": "*i8", "y": "*u8", "z": "*i16", "bytes": "*i8", "unsigned": "*u8", "shorts": "*i16", "words": "*i32",
             "flags": "*i1", "long": "*i64"}
constants = {"BLOCK": 256}


@triton.jit
def narrow_integers(x, y, z, bytes, unsigned, shorts, words, flags, long, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(y + at)
    c = tl.load(z + at)
    size = tl.num_programs(0) * BLOCK
    tl.store(bytes + at, a * 3 + c.to(tl.int8))
    tl.store(bytes + size + at, a >> 2)
    tl.store(bytes + 2 * size + at, tl.maximum(a, c.to(tl.int8)))
    tl.store(unsigned + at, b * 5 - 7)
    tl.store(unsigned + size + at, b >> 3 | b << 5)
    tl.store(unsigned + 2 * size + at, tl.where(b != 0, b, 1))
    tl.store(shorts + at, c // 7)
    tl.store(shorts + size + at, c % 7)
    tl.store(shorts + 2 * size + at, a.to(tl.int16) * b.to(tl.int16))
    tl.store(words + at, a.to(tl.int32) // (b.to(tl.int32) + 1))
    tl.store(words + size + at, tl.umulhi(c.to(tl.uint32, bitcast=False), 2654435769).to(tl.int32, bitcast=True))
    tl.store(words + 2 * size + at, (a > 0) & (b > 100) | (c < 0))
    tl.store(flags + at, a < c)
    tl.store(long + at, c.to(tl.int64) * c * c * c % 1000003)
    tl.store(long + size + at, (c.to(tl.int64) << 40) >> 37 ^ b)
