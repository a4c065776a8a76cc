from numba import cuda, float32, int32

signature = (int32[:, ::1], int32[:, ::1], float32[::1], float32[::1])


def shared_transpose(out, x, sums, values):
    tile = cuda.shared.array((16, 17), int32)
    row, column = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    if row < x.shape[0] and column < x.shape[1]:
        tile[tx, ty] = x[row, column]
    cuda.syncthreads()
    row = cuda.blockIdx.y * 16 + tx
    column = cuda.blockIdx.x * 16 + ty
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[ty, tx]
    cuda.syncthreads()
    # Dynamic shared memory, in a tree.
    dynamic = cuda.shared.array(0, float32)
    thread = tx * 16 + ty
    dynamic[thread] = values[thread]
    step = 128
    while step > 0:
        cuda.syncthreads()
        if thread < step:
            dynamic[thread] += dynamic[thread + step]
        step //= 2
    if thread == 0:
        sums[cuda.blockIdx.x + cuda.blockIdx.y * cuda.gridDim.x] = dynamic[0]
