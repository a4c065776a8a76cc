from numba import cuda, float32, float64, int32, int64, uint32, uint64

signature = (int32[::1], int32[::1], float32[::1], float64[::1], uint64[::1], int64[::1], uint32[:, ::1])


def atomic_updates(x, words, floats, doubles, wide, order, table):
    i = cuda.grid(1)
    value = x[i]
    cuda.atomic.add(words, 0, value)
    cuda.atomic.max(words, 1, value)
    cuda.atomic.min(words, -1, value)
    cuda.atomic.add(floats, i % 4, float32(value & 15))
    cuda.atomic.max(doubles, 0, value * 0.5)
    cuda.atomic.min(doubles, 1, value * 0.5)
    cuda.atomic.add(doubles, 2, value * 0.25)
    cuda.atomic.xor(wide, 0, uint64(value & 0xFFFF) << uint64(20))
    cuda.atomic.inc(table, (1, i % 3), 5)
    cuda.atomic.dec(table, (0, i % 3), 5)
    # One thread for each word, of which some hold what is compared.
    if i < 8:
        cuda.atomic.compare_and_swap(words[2 + i :], 0, i + 1)
    order[i] = cuda.atomic.exch(words, 16 + i, value)
    shared = cuda.shared.array(1, int64)
    if cuda.threadIdx.x == 0:
        shared[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(shared, 0, int64(value))
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(order, order.size - 1, shared[0])
