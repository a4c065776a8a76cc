from numba import cuda, float32, float64, int32

signature = (float32[:], float32, float32[::1], float64[:, :], int32[:])


def scaled_sum(out, factor, x, matrix, counts):
    i = cuda.grid(1)
    stride = cuda.gridsize(1)
    while i < out.size:
        total = 0.0
        for row in range(matrix.shape[0]):
            # A negative index counts from the end.
            total += matrix[row, i % matrix.shape[1]] * matrix[-1 - row, 0]
        out[i] = factor * x[i] + total
        counts[i] = (i - 7) // 3 * 100 + (i - 7) % 3
        i += stride
