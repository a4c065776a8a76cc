import { assert, assertEquals } from "@std/assert";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { stampedByteLength } from "../children/sharing/stamp_kernels.ts";
import { sharingTest } from "./sharing_peers.ts";

/** Milliseconds for which the kernels of the other process would run. It is killed long before they end. */
const duration = 1500;
/** The pool's size in bytes, and that of a buffer of which only one fits. */
const [poolByteLength, largeByteLength] = [2 ** 25, 3 * 2 ** 23];

sharingTest("an importer is killed while its kernels write: memory is reused only when nothing writes to it", async ({
  gpu,
  stream,
  path,
  start,
}) => {
  await using exporter = Exporter.listen(path);
  using pool = gpu.createPool({ handleType: "posix-fd", maxSize: poolByteLength, releaseThreshold: Infinity });
  using kept = pool.allocate(stampedByteLength, stream);
  const freed = pool.allocate(largeByteLength, stream);
  for (const buffer of [kept, freed]) buffer.fill(0);
  const offers = [exporter.offer("kept", kept), exporter.offer("freed", freed)] as const;
  const { address } = freed;
  const victim = await start();
  await victim.call("connect", "one", path);
  for (const name of ["kept", "freed"]) await victim.call("map", "one", name);
  await victim.call("stamp", "kept", "freed", duration);
  while (await latest(kept) === 0n);
  const end = performance.now() + duration;
  freed.free();
  const killed = victim.kill();
  await offers[1].ended();
  using reused = await pool.allocateAsync(largeByteLength, { stream, signal: AbortSignal.timeout(1000) });
  assertEquals(reused.address, address);
  reused.fill(0);
  const last = await latest(kept);
  assert(performance.now() < end, "the kernels would have ended by themselves");
  do {
    assertEquals(await latest(reused), 0n);
    assertEquals(await latest(kept), last);
  } while (performance.now() < end);
  await killed;
  offers[0].withdraw();
  await offers[0].ended();
}, { long: true });

/** Resolves with the last time that the kernels have written. */
async function latest(buffer: DeviceBuffer): Promise<bigint> {
  const times = await buffer.read(BigUint64Array, { length: stampedByteLength / BigUint64Array.BYTES_PER_ELEMENT });
  return times.reduce((last, time) => time > last ? time : last);
}
