"""The gradients of a layer norm. Programs add their parts of a weight's gradient behind a lock."""

import triton
import triton.language as tl

arguments = {"x": "*fp32", "weight": "*fp32", "means": "*fp32", "scales": "*fp32", "gradient": "*fp32",
             "x_gradient": "*fp32", "weight_gradients": "*fp32", "locks": "*i32", "counts": "*i32", "columns": "i32"}
constants = {"GROUPS": 2, "BLOCK": 256}


@triton.jit
def layer_norm_backward(x, weight, means, scales, gradient, x_gradient, weight_gradients, locks, counts, columns,
                        GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    start = row * columns
    mean = tl.load(means + row)
    scale = tl.load(scales + row)
    normal = tl.where(inside, (tl.load(x + start + at, mask=inside, other=0) - mean) * scale, 0.0)
    incoming = tl.load(gradient + start + at, mask=inside, other=0)
    weighted = tl.load(weight + at, mask=inside, other=0) * incoming
    along = tl.sum(normal * weighted, axis=0) / columns
    average = tl.sum(weighted, axis=0) / columns
    tl.store(x_gradient + start + at, (weighted - (normal * along + average)) * scale, mask=inside)

    group = row % GROUPS
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    count = tl.load(counts + group)
    # Without a barrier, threads could load what the first one stores below.
    tl.debug_barrier()
    part = incoming * normal
    sums = weight_gradients + group * columns + at
    if count == 0:
        tl.atomic_xchg(counts + group, 1)
    else:
        part += tl.load(sums, mask=inside)
    tl.store(sums, part, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)
