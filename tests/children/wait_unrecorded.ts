// Waits for events that were never recorded, and for one that was, with the driver that the environment selects.
import { open } from "../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
using forgotten = gpu.createEvent();
using recorded = gpu.createEvent();
stream.record(recorded);
for (const event of [recorded, forgotten]) {
  stream.wait(event);
  await event.finished();
}
