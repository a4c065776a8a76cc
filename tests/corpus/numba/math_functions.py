import math

from numba import cuda, float32, float64

signature = (float64[::1], float64[:, ::1], float32[:, ::1])


def math_functions(x, doubles, singles):
    i = cuda.grid(1)
    v = x[i]
    doubles[i, 0] = math.sqrt(abs(v))
    doubles[i, 1] = math.floor(v) + math.ceil(v * 0.5)
    doubles[i, 2] = math.fabs(v) // 0.75
    doubles[i, 3] = math.copysign(1.5, v)
    doubles[i, 4] = round(v)
    doubles[i, 5] = math.exp(v)
    doubles[i, 6] = math.sin(v)
    doubles[i, 7] = math.atan2(v, 0.5)
    doubles[i, 8] = math.log1p(abs(v))
    doubles[i, 9] = math.hypot(v, 2.0)
    doubles[i, 10] = math.erf(v)
    doubles[i, 11] = (abs(v) + 1.0) ** 2.5
    f = float32(v)
    singles[i, 0] = math.sqrt(abs(f))
    singles[i, 1] = f / float32(3.0)
    singles[i, 2] = math.tanh(f)
    singles[i, 3] = math.cos(f)
    singles[i, 4] = cuda.fma(f, f, float32(1.0))
    singles[i, 5] = math.pow(abs(f), float32(0.5))
