from numba import cuda, float64, int32, int64, uint32

signature = (int32[::1], float64[::1], int64[::1], int32[:, ::1])


def warp_exchange(x, doubles, wide, out):
    i = cuda.grid(1)
    value = x[i]
    full = 0xFFFFFFFF
    out[i, 0] = cuda.shfl_sync(full, value, 3)
    out[i, 1] = cuda.shfl_up_sync(full, value, 2)
    out[i, 2] = cuda.shfl_down_sync(full, value, 5)
    out[i, 3] = cuda.shfl_xor_sync(full, value, 9)
    out[i, 4] = cuda.ballot_sync(full, value > 0)
    out[i, 5] = cuda.all_sync(full, value > -2000000000) + 2 * cuda.any_sync(full, value > 2000000000)
    out[i, 6] = cuda.match_any_sync(full, value & 3)
    out[i, 7] = cuda.popc(uint32(value)) + 100 * cuda.clz(value) + 10000 * cuda.ffs(value)
    out[i, 8] = cuda.brev(uint32(value)) ^ cuda.laneid
    cuda.syncwarp()
    count = cuda.syncthreads_count(int32(value > 0))
    out[i, 9] = cuda.selp(value > 0, count, cuda.syncthreads_or(value & 2))
    doubles[i] = cuda.shfl_xor_sync(full, doubles[i], 1) + doubles[i]
    wide[i] = cuda.shfl_down_sync(full, wide[i], 1)
