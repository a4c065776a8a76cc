import triton
import triton.language as tl

arguments = {"x": "*fp32", "half": "*fp16", "brain": "*bf16", "e5m2": "*u8", "e4m3": "*u8", "back": "*fp32",
             "integers": "*i32", "doubles": "*fp64", "wide": "*i64"}
constants = {"BLOCK": 512}


@triton.jit
def float_conversions(x, half, brain, e5m2, e4m3, back, integers, doubles, wide, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(half + at, values.to(tl.float16))
    tl.store(brain + at, values.to(tl.bfloat16))
    five = values.to(tl.float8e5)
    four = values.to(tl.float8e4nv)
    tl.store(e5m2 + at, five.to(tl.uint8, bitcast=True))
    tl.store(e4m3 + at, four.to(tl.uint8, bitcast=True))
    tl.store(back + at, five.to(tl.float32))
    tl.store(back + BLOCK + at, four.to(tl.float32))
    tl.store(back + 2 * BLOCK + at, values.to(tl.float16).to(tl.float32))
    tl.store(back + 3 * BLOCK + at, values.to(tl.bfloat16).to(tl.float32))
    tl.store(back + 4 * BLOCK + at, values.to(tl.float16, fp_downcast_rounding="rtz").to(tl.float32))
    limited = tl.clamp(values, -1000000.0, 1000000.0)
    tl.store(integers + at, limited.to(tl.int32))
    tl.store(integers + BLOCK + at, tl.clamp(values, -100.0, 100.0).to(tl.int8).to(tl.int32))
    tl.store(doubles + at, values.to(tl.float64) * values.to(tl.float64))
    tl.store(wide + at, (limited.to(tl.float64) * 1048576.0).to(tl.int64))
