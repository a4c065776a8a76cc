/**
 * Workloads that await the stream in each step, as programs do that never block the event loop.
 *
 * @module
 */
import { numberOf, type Request } from "../sharing/contract.ts";
import type { Fixture } from "./fixture.ts";
import { timeAwaited } from "./timing.ts";

/** Returns the workloads. */
export function awaitWorkloads(
  { device, stream }: Fixture,
): Readonly<Record<string, (request: Request) => Promise<number[]>>> {
  return {
    "await-loop": async (request) => {
      const byteLength = numberOf(request, "byteLength", 1);
      using pool = device.createPool({ releaseThreshold: Number(request.releaseThreshold) });
      return await timeAwaited(request, async () => {
        const buffer = pool.allocate(byteLength, stream);
        buffer.fill(7);
        buffer.free();
        await stream.finished();
      });
    },
  };
}
