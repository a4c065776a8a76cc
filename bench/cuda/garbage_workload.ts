/**
 * Runs one workload many times between two requested garbage collections. `garbage.ts` starts this program and reads
 * V8's trace of its collections.
 *
 *     deno run --allow-ffi --allow-read --v8-flags=--expose-gc garbage_workload.ts WORK OPERATIONS
 *
 * @module
 */
import { openFixture } from "./fixture.ts";

declare const gc: () => void;

/** Engines optimize code only after it has run for a while. */
const warmUp = 50_000;

const { device, pool, streams, stream, synchronize } = openFixture();
const module = device.loadModule(Deno.readTextFileSync(new URL("./kernels.ptx", import.meta.url)));
const empty3 = module.kernel("empty_3");
const allocator = pool.createCachingAllocator();
const event = device.createEvent();
const x = pool.allocate(1024, stream);
streams[1]!.record(event);

const works: Readonly<Record<string, () => void>> = {
  "allocate-free": () => pool.allocate(2 ** 20, stream).free(),
  "allocate-free-cached": () => allocator.allocate(2 ** 20, stream).free(),
  "launch-3": () => empty3.launch({ grid: 1, block: 1, stream }, x, 2.5, 1024),
  "event-record": () => stream.record(event),
  "stream-wait": () => stream.wait(event),
};

const [name, operations] = Deno.args;
const work = works[name!];
if (work === undefined) throw new TypeError(`There is no workload "${name}"`);
const run = (count: number) => {
  for (let i = 0; i < count; i++) work();
};
run(warmUp);
gc();
run(Number(operations));
gc();
synchronize();
