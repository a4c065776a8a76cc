import triton
import triton.language as tl

arguments = {"x": "*i32", "steps": "*i32", "roots": "*i32", "total": "*i32"}
constants = {"BLOCK": 128}


@triton.jit
def while_loops(x, steps, roots, total, BLOCK: tl.constexpr):
    # A loop of the whole program over one number.
    number = tl.load(x + tl.program_id(0)).to(tl.int64)
    count = 0
    while number != 1 and count < 1000:
        if number % 2 == 0:
            number = number // 2
        else:
            number = number * 3 + 1
        count += 1
    tl.store(total + tl.program_id(0), count)
    # A loop that goes on until every element has ended.
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    taken = tl.zeros([BLOCK], dtype=tl.int32)
    while tl.max(value, axis=0) > 1:
        going = value > 1
        value = tl.where(going, tl.where(value % 3 == 0, value // 3, value - 1), value)
        taken += going.to(tl.int32)
    tl.store(steps + at, taken)
    target = tl.load(x + at)
    low = tl.zeros([BLOCK], dtype=tl.int32)
    for bit in range(15, -1, -1):
        tried = low + (1 << bit)
        low = tl.where(tried <= 46340, tl.where(tried * tried <= target, tried, low), low)
    tl.store(roots + at, low)
