// A caching allocator on a pool.
import { open } from "../../../mod.ts";

using cuda = open();
using stream = cuda.device(0).createStream();
using pool = cuda.device(0).createPool();
using allocator = pool.createCachingAllocator();
for (let round = 0; round < 100; round++) allocator.allocate(1000, stream).free();
using buffer = allocator.allocate(1000, stream);
buffer.fill(2);
console.log((await buffer.read(Uint8Array, { length: 2 })).join(" "), allocator.usage().used);
