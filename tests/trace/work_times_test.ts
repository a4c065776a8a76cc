import { assert, assertEquals } from "@std/assert";
import { driversUnderTest } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import type { Cuda } from "../../src/objects/cuda.ts";
import { recordWork, stampPtx } from "./recorded_work.ts";

/** How long a kernel runs. */
const nanoseconds = 200_000;
/** The resolution of `%globaltimer` on a GPU, and of events. */
const resolution = 2_000;

for (const driver of driversUnderTest) {
  const options = { skip: driver.skip };

  test(`the recorded time of a kernel contains the time at which it ran [${driver.name}]`, options, async () => {
    const stamps: bigint[] = [];
    const { trace, work, exact } = await recordWork(driver.open(), async (cuda: Cuda) => {
      const gpu = cuda.device(0);
      using stream = gpu.createStream();
      using pool = gpu.createPool();
      using module = gpu.loadModule(stampPtx);
      using out = pool.allocate(16, stream);
      for (let round = 0; round < 3; round++) {
        module.kernel("stamp").launch({ grid: 1, block: 1, stream }, out, BigInt(nanoseconds));
        stamps.push(...await out.read(BigUint64Array, { stream }));
      }
    });
    const kernels = work.filter(({ name }) => name === "kernel");
    assertEquals(kernels.map(({ values }) => trace.texts.get(values.name!)), ["stamp", "stamp", "stamp"]);
    const launches = trace.events.filter(({ name }) => name === "launchKernel");
    for (const [index, { begin, duration, values }] of kernels.entries()) {
      const [first, last] = [stamps[2 * index]!, stamps[2 * index + 1]!];
      assert(last - first >= BigInt(nanoseconds));
      assert(duration >= Number(last - first) - resolution, `${duration} of ${last - first} ns`);
      const launch = launches[index]!;
      assertEquals([launch.values.stream, values.error! < 1e6], [values.stream, true]);
      assert(begin >= launch.begin - values.error!, `${launch.begin - begin} ns before the launch`);
      // The distance of two kernels is known by the same clock.
      const { begin: origin, values: { error } } = kernels[0]!;
      const distance = Number(first - stamps[0]!);
      const most = values.error! + error! + resolution + duration - nanoseconds;
      assert(Math.abs(begin - origin - distance) <= most + kernels[0]!.duration - nanoseconds);
      const span = exact[index];
      if (span === undefined) continue;
      assert(begin - values.error! <= span.begin && begin + duration + values.error! >= span.begin + span.duration);
    }
  });
}
