"""A linear congruential generator, local arrays, and loops whose ends depend on data."""

from numba import boolean, cuda, int32, uint8, uint64

signature = (uint64[::1], int32[::1], uint8[::1], boolean[::1])


@cuda.jit(device=True, inline=False)
def step(state):
    return state * uint64(6364136223846793005) + uint64(1442695040888963407)


def random_walk(seeds, ends, bytes, flags):
    i = cuda.grid(1)
    state = seeds[i]
    visits = cuda.local.array(16, int32)
    for k in range(16):
        visits[k] = 0
    position = 8
    count = 0
    while 0 < position < 15 and count < 200:
        state = step(state)
        direction = int32(state >> uint64(62))
        if direction == 0:
            position -= 1
        elif direction == 1:
            position += 1
        elif direction == 2 and visits[position] > 2:
            break
        visits[position] += 1
        count += 1
    greatest = 0
    for k in range(16):
        if visits[k] > visits[greatest]:
            greatest = k
    ends[i] = position * 10000 + count * 16 + greatest
    bytes[i] = uint8(state >> uint64(13)) + bytes[i]
    flags[i] = not flags[i] and count % 2 == 0
