// Shares memory without a pool, and an event, by their handles: legacy_handles.ts exporter, then legacy_handles.ts
// importer HANDLES
import { open } from "../../../mod.ts";

const [role, handles] = Deno.args as [string, string];
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
if (role === "exporter") {
  using memory = gpu.allocate(64);
  using event = gpu.createEvent({ interprocess: true });
  memory.fill(4, stream);
  stream.record(event);
  console.log(`${memory.exportHandle().toHex()},${event.exportHandle().toHex()}`);
  // Waits until the other process has ended.
  for await (const _ of Deno.stdin.readable);
  console.log((await memory.read(Uint8Array, { length: 2 })).join(" "));
} else {
  const [memoryHandle, eventHandle] = handles.split(",").map((digits) => Uint8Array.fromHex(digits));
  using event = gpu.openEvent(eventHandle!);
  using memory = gpu.openMemory(memoryHandle!, 64);
  stream.wait(event);
  console.log((await memory.read(Uint8Array, { length: 2, stream })).join(" "));
  memory.fill(5, stream);
  await stream.finished();
}
