// Sends frames through a channel: channel.ts exporter|importer PATH
import { Exporter, Importer, open } from "../../../mod.ts";

const [role, path] = Deno.args as [string, string];
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
if (role === "exporter") {
  using pool = gpu.createPool({ handleType: "posix-fd" });
  await using exporter = Exporter.listen(path);
  await using channel = exporter.createChannel("frames", { pool, slots: 2, slotByteLength: 16, stream });
  console.log("listening");
  for (let frame = 1; frame <= 4; frame++) {
    const slot = await channel.reserve();
    slot.buffer.fill(frame, stream);
    channel.send(slot, { stream });
  }
  channel.end();
  console.log("sent", channel.sent);
} else {
  await using importer = await Importer.connect(cuda, path);
  await using consumer = await importer.channel("frames", { stream });
  const seen: number[] = [];
  for await (const slot of consumer) {
    using frame = slot;
    seen.push((await frame.buffer.read(Uint8Array, { length: 1 }))[0]!);
  }
  console.log(seen.join(" "));
}
