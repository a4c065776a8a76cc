import numpy as np
from numba import complex64, complex128, cuda, from_dtype

point = np.dtype([("x", np.int32), ("y", np.float64), ("z", np.int16, (3,))], align=True)
weights = np.array([1, 2, 4, 8], dtype=np.int64)

signature = (complex64[::1], complex128[::1], from_dtype(point)[::1])


@cuda.jit(device=True)
def swapped(pair, scale):
    first, second = pair
    return second * scale, first


def complex_numbers(singles, doubles, points):
    i = cuda.grid(1)
    if i >= singles.size:
        return
    table = cuda.const.array_like(weights)
    z = singles[i]
    singles[i] = z * z + z.conjugate() * complex64(2j)
    doubles[i] = complex(z.imag, z.real) * 1j - doubles[i]
    first, second = swapped((points[i].x, i), 3)
    points[i].x = first - second
    points[i].y = points[i].y * table[i % 4]
    for k in range(3):
        points[i].z[k] += k * table[k]
