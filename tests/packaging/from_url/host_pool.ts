// A pool in host memory, whose buffers the host accesses in place.
import { open } from "../../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using pool = cuda.createHostPool({ numaNode: 0 });
pool.setAccess(gpu, "read-write");
using buffer = pool.allocate(8, stream);
buffer.fill(7);
stream.synchronize();
const view = new Uint8Array(buffer.hostView());
view[1] = 8;
console.log((await buffer.read(Uint8Array, { length: 3 })).join(" "));
