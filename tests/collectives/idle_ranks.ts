/**
 * Communicators with ranks that take no part in a collective.
 *
 * @module
 */
import { Communicator, type Cuda, CudaDevice, open, type SharingError } from "../../mod.ts";
import { driverNamed } from "../support/drivers.ts";
import { leakTest } from "../support/resources.ts";

/** The timeout of collectives, in milliseconds. */
export const timeout = 200;
/** A timeout that no test reaches, in milliseconds. */
export const long = 600_000;

/** What `testRanks` passes to a test. */
export interface Parts {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly ranks: readonly Communicator[];
}

/** Attempts to create ranks with a short timeout: on a busy machine, it may pass before all have joined. */
const maximumAttempts = 10;

/** Creates all ranks of another communicator in this process: on one device, or each on its own. */
export async function createRanks(
  { cuda, gpu }: { readonly cuda: Cuda; readonly gpu: CudaDevice | readonly CudaDevice[] },
  timeouts: readonly number[],
): Promise<Communicator[]> {
  for (let attempt = 1;; attempt++) {
    const id = Communicator.createId(cuda);
    const creations = timeouts.map((timeout, rank) => {
      const device = gpu instanceof CudaDevice ? gpu : gpu[rank]!;
      return Communicator.create(device, { id, rank, size: timeouts.length, timeout });
    });
    try {
      return await Promise.all(creations);
    } catch (error) {
      for (const created of await Promise.allSettled(creations)) {
        if (created.status === "fulfilled") await created.value.abort();
      }
      if (attempt === maximumAttempts || (error as SharingError).code !== "timed-out") throw error;
    }
  }
}

/** Defines a test with a communicator of three ranks, which have one timeout or each its own. */
export function testRanks(
  name: string,
  body: (parts: Parts) => Promise<void>,
  timeouts: number | readonly number[] = timeout,
): void {
  leakTest(name, async () => {
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    const each = typeof timeouts === "number" ? [timeouts, timeouts, timeouts] : timeouts;
    await body({ cuda, gpu, ranks: await createRanks({ cuda, gpu }, each) });
  }, { warmUp });
}

/** Why two ranks cannot be created in this process, or false: GPUs have one each. */
export function reasonWithoutTwo(driver: "software" | "cuda"): string | false {
  const { skip } = driverNamed(driver);
  if (skip || driver === "software") return skip;
  using cuda = open({ driver });
  return cuda.devices.length < 2 && "one device only";
}

/** Creates ranks once, so that the engine compiles their code: that may take longer than a collective's timeout. */
export async function warmUp(): Promise<void> {
  using cuda = open({ driver: "software" });
  for (const rank of await createRanks({ cuda, gpu: cuda.device(0) }, [long, long, long])) await rank.abort();
}
