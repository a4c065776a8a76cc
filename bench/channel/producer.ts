/**
 * The writing end of the channel benchmark: starts the reading end, and then runs a job for each line of input.
 *
 * @module
 */
import { createInterface } from "node:readline";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type CudaStream, type DeviceBuffer, Exporter, type MemoryPool, open } from "../../mod.ts";
import { clocksByteLength, now, sampleClocks } from "./clocks.ts";
import { type Greeting, type Job, parseJob, type RoundTimes } from "./job.ts";
import { frameLaunch, loadKernel, numbersByteLength, readNumbers } from "./kernels.ts";

function allocateZeros(pool: MemoryPool, byteLength: number, stream: CudaStream): DeviceBuffer {
  const buffer = pool.allocate(byteLength, stream);
  buffer.fill(0);
  return buffer;
}

using cuda = open();
const device = cuda.device(0);
using stream = device.createStream({ nonBlocking: true });
using pool = device.createPool({ handleType: "posix-fd", releaseThreshold: Infinity });
const writeFrame = loadKernel(device, "write_frame");
const readClock = loadKernel(device, "read_clock");
using clockTimes = pool.allocate(clocksByteLength, stream);
const folder = Deno.makeTempDirSync();
const path = `${folder}/frames.sock`;
await using exporter = Exporter.listen(path);

async function run(job: Job): Promise<RoundTimes> {
  const { frames, slots, slotByteLength, interval, firstFrame } = job;
  using written = allocateZeros(pool, frames * numbersByteLength, stream);
  using read = allocateZeros(pool, frames * numbersByteLength, stream);
  const { shape, vectors } = frameLaunch(slotByteLength);
  const sent: number[] = [];
  const clockSamples = await sampleClocks(readClock, { times: clockTimes, stream });
  const offer = exporter.offer(`numbers ${firstFrame}`, read);
  {
    await using channel = exporter.createChannel(`frames ${firstFrame}`, {
      pool,
      slots,
      slotByteLength,
      stream,
      metadata: firstFrame,
    });
    for (let position = 0; position < frames; position++) {
      const slot = await channel.reserve();
      writeFrame.launch({ ...shape, stream }, slot.buffer, vectors, firstFrame + position, written, position);
      sent.push(now());
      channel.send(slot);
      if (interval > 0) await sleep(interval);
    }
  }
  offer.withdraw();
  await offer.ended();
  clockSamples.push(...await sampleClocks(readClock, { times: clockTimes, stream }));
  const base = clockSamples[0]![1];
  const writing = await readNumbers(written, base);
  const reading = await readNumbers(read, base);
  return {
    sent,
    writeStart: writing.starts,
    writeEnd: writing.ends,
    readStart: reading.starts,
    readEnd: reading.ends,
    wrongWords: reading.wrongWords,
    clocks: clockSamples.map(([before, time, after]) => [before, Number(time - base), after]),
  };
}

const consumer = new Deno.Command(Deno.execPath(), {
  args: ["run", "--allow-ffi", "--allow-read", fileURLToPath(new URL("./consumer.ts", import.meta.url)), path],
  stdin: "null",
  stdout: "null",
  stderr: "inherit",
}).spawn();
const greeting: Greeting = {
  device: device.name,
  isSoftware: cuda.driver === "software",
  versions: `Deno ${Deno.version.deno}`,
};
console.log(JSON.stringify(greeting));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(parseJob(line))));
}
consumer.kill();
await consumer.status;
await exporter[Symbol.asyncDispose]();
Deno.removeSync(folder, { recursive: true });
