import triton
import triton.language as tl
from triton.language.extra import libdevice

arguments = {"x": "*fp32", "exact": "*fp32", "near": "*fp32", "doubles": "*fp64", "integers": "*i32"}
constants = {"BLOCK": 64}
warps = 2


@triton.jit
def float_functions(x, exact, near, doubles, integers, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    size = tl.abs(v)
    tl.store(exact + at, tl.sqrt_rn(size))
    tl.store(exact + BLOCK + at, tl.div_rn(v, size + 3.0))
    tl.store(exact + 2 * BLOCK + at, tl.fma(v, v, 0.1))
    tl.store(exact + 3 * BLOCK + at, tl.floor(v) + tl.ceil(v))
    tl.store(exact + 4 * BLOCK + at, tl.maximum(v, 0.5))
    tl.store(exact + 5 * BLOCK + at, tl.clamp(v, -1.0, 2.0))
    tl.store(exact + 6 * BLOCK + at, libdevice.rint(v))
    tl.store(exact + 7 * BLOCK + at, libdevice.copysign(size, -v))
    tl.store(near + at, tl.exp2(v))
    tl.store(near + BLOCK + at, tl.log2(size + 1.0))
    tl.store(near + 2 * BLOCK + at, tl.sin(v))
    tl.store(near + 3 * BLOCK + at, tl.cos(v))
    tl.store(near + 4 * BLOCK + at, tl.erf(v))
    tl.store(near + 5 * BLOCK + at, tl.sigmoid(v))
    tl.store(near + 6 * BLOCK + at, libdevice.tanh(v))
    tl.store(near + 7 * BLOCK + at, libdevice.pow(size + 0.5, 1.5))
    tl.store(near + 8 * BLOCK + at, libdevice.atan2(v, 2.0))
    tl.store(near + 9 * BLOCK + at, tl.rsqrt(size + 0.25))
    d = v.to(tl.float64)
    tl.store(doubles + at, libdevice.exp(d))
    tl.store(doubles + BLOCK + at, libdevice.log1p(tl.abs(d)))
    tl.store(doubles + 2 * BLOCK + at, libdevice.cbrt(d))
    tl.store(doubles + 3 * BLOCK + at, tl.sqrt(tl.abs(d)))
    tl.store(integers + at, libdevice.float2int_rn(v * 1000.0))
    tl.store(integers + BLOCK + at, libdevice.popc(at * 77777))
    tl.store(integers + 2 * BLOCK + at, libdevice.clz(at * at))
    tl.store(integers + 3 * BLOCK + at, libdevice.float_as_int(v))
