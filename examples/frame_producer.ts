/**
 * Sends frames to other processes through a ring of slots in a pool. A kernel writes each frame, and the consumers read
 * it in place. The channel copies nothing, and allocates nothing once it is running.
 *
 *     deno run --allow-ffi examples/frame_producer.ts <socket_path> [--frames 100] [--bytes 1MiB] [--slots 4]
 *       --consumers <n>          waits while there are fewer consumers; 1 by default
 *       --overflow drop-oldest   drops frames that no consumer has started to read, instead of waiting for the slowest
 *
 * Each 32-bit word of frame n is n. `frame_consumer.ts` and `python/poolpass_client.py consume` check them.
 *
 * @module
 */
import { Exporter, open } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseBytes, parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";

const name = "producer";
const usage = "frame_producer <socket_path> [--frames 100] [--bytes 1MiB] [--slots 4] [--consumers 1] " +
  "[--overflow wait|drop-oldest]";
const about = `
Sends frames to other processes through a ring of slots in a pool. A kernel writes each frame.

--frames <n>      the number of frames
--bytes <n>       the size of a frame: 1048576, 1024KiB or 1MiB
--slots <n>       the number of slots in the ring
--consumers <n>   waits while there are fewer consumers
--overflow drop-oldest  drops frames that no consumer has started to read, instead of waiting for the slowest
`;
const geometry = { grid: 256, block: 256 };

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["frames", "bytes", "slots", "consumers", "overflow"]);
  const [socketPath, ...surplus] = positional;
  if (socketPath === undefined || surplus.length > 0) throw new UsageError("One argument is needed: a socket's path");
  const frames = parseCount(named.frames ?? "100", { what: "the number of frames", least: 1 });
  const byteLength = parseBytes(named.bytes ?? "1MiB");
  const slots = parseCount(named.slots ?? "4", { what: "the number of slots", least: 1 });
  const consumers = parseCount(named.consumers ?? "1", { what: "the number of consumers", least: 1 });
  const { overflow = "wait" } = named;
  if (overflow !== "wait" && overflow !== "drop-oldest") {
    throw new UsageError(`Cannot use "${overflow}" as the overflow: it is wait or drop-oldest`);
  }

  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using module = gpu.loadModule(ptx);
  const fill = module.kernel("fill");
  await using exporter = Exporter.listen(socketPath, {
    onDisconnect({ pid }, error) {
      say(name, `Process ${pid} disconnected: ${error?.message ?? "it is done"}`);
    },
  });
  await using channel = exporter.createChannel("frames", {
    pool,
    slots,
    slotByteLength: byteLength,
    stream,
    overflow,
    minimumConsumers: consumers,
    metadata: { dtype: "uint32", shape: [Math.floor(byteLength / 4)] },
  });
  say(name, `Waiting for ${consumers} ${consumers === 1 ? "consumer" : "consumers"} at ${socketPath}`);

  let begin = NaN;
  for (let frame = 1; frame <= frames; frame++) {
    // Waits until all consumers have finished their work on the slot's previous frame.
    const slot = await channel.reserve({ signal });
    if (frame === 1) begin = performance.now();
    fill.launch({ ...geometry, stream }, slot.buffer, byteLength, frame);
    channel.send(slot, { metadata: { frame } });
  }
  await channel[Symbol.asyncDispose]();
  const rate = Math.round(frames / (performance.now() - begin) * 1000);
  say(name, `Sent ${channel.sent} frames, ${channel.dropped} of them dropped, ${rate} a second`);
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
