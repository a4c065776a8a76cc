// Streams that wait for each other's events, and a wait with a time limit.
import { open } from "../../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using first = gpu.createStream({ nonBlocking: true, priority: -1 });
using second = gpu.createStream({ nonBlocking: true });
using begin = gpu.createEvent({ timing: true });
using written = gpu.createEvent({ timing: true, blockingSync: true });
using pool = gpu.createPool();
using buffer = pool.allocate(4, first);
first.record(begin);
buffer.fill(3, first);
first.record(written);
second.wait(written);
const bytes = await buffer.read(Uint8Array, { stream: second });
await written.finished({ signal: AbortSignal.timeout(10_000) });
written.synchronize();
await Promise.all([first.finished(), second.finished(), gpu.finished()]);
console.log(bytes.join(" "), written.query(), written.elapsedTime(begin) >= 0);
