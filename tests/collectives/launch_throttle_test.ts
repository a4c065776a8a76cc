/** How many unfinished calls a stream may have in its queue while some streams hang. */
import { assert, assertEquals } from "@std/assert";
import { LaunchThrottle } from "../../src/collectives/launch_throttle.ts";
import { Random } from "../differential/random.ts";
import { test } from "../support/test.ts";

/** How many unfinished calls a stream of CUDA takes, and how many are too few to wait for. */
const maximumCalls = 1000;
const minimumAwaited = 150;
/** How many of CUDA's calls a call may make. */
const cudaCalls = { plain: 1, sanitized: 3 } as const;

/** A device whose streams do nothing until an event of theirs is awaited, and then only what comes before it. */
class IdleDevice {
  /** By event: the stream that it is recorded on, and how many of the stream's calls come before it. */
  readonly recorded = new Map<bigint, { stream: bigint; calls: number } | undefined>();
  readonly enqueued = new Map<bigint, number>();
  readonly done = new Map<bigint, number>();
  /** How many calls were unfinished at the beginning of each wait. */
  readonly waits: number[] = [];
  readonly throttle: LaunchThrottle;
  #last = 0n;

  constructor(isSanitized: boolean) {
    const events = {
      createEvent: () => {
        this.recorded.set(++this.#last, undefined);
        return this.#last;
      },
      destroyEvent: (event: bigint) => void this.recorded.delete(event),
      record: (_device: number, event: bigint, stream: bigint) =>
        void this.recorded.set(event, { stream, calls: this.enqueued.get(stream)! }),
      await: (event: bigint) => {
        const { stream, calls } = this.recorded.get(event)!;
        this.waits.push(this.outstanding(stream));
        this.done.set(stream, Math.max(this.done.get(stream) ?? 0, calls));
      },
    };
    this.throttle = new LaunchThrottle(events, { isSanitized });
  }

  outstanding(stream: bigint): number {
    return (this.enqueued.get(stream) ?? 0) - (this.done.get(stream) ?? 0);
  }

  call(stream: bigint, calls: number): void {
    if (!this.enqueued.has(stream)) this.enqueued.set(stream, 0);
    this.throttle.reserve(0, stream, stream, calls);
    this.enqueued.set(stream, this.enqueued.get(stream)! + calls);
  }
}

for (const kind of ["plain", "sanitized"] as const) {
  test(`no stream gets more calls than it takes, whatever others get, and none waits for few [${kind}]`, () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new Random(seed);
      const device = new IdleDevice(kind === "sanitized");
      const streams = random.below(5) + 1;
      // Some programs use their streams in turn, others in any order.
      const pattern = Array.from({ length: random.below(600) + 1 }, () => BigInt(random.below(streams)));
      for (let index = 0; index < 12_000; index++) {
        const stream = random.percent(seed % 2 * 100)
          ? BigInt(random.below(streams))
          : pattern[index % pattern.length]!;
        // A communicator reserves slots for several calls.
        device.call(stream, seed % 3 === 0 ? random.below(16) + 1 : 1);
        assert(
          device.outstanding(stream) * cudaCalls[kind] <= maximumCalls,
          `seed ${seed}: ${device.outstanding(stream)}`,
        );
      }
      assert(
        device.waits.every((outstanding) => outstanding >= minimumAwaited),
        `seed ${seed}: ${Math.min(...device.waits)}`,
      );
      assert(device.waits.length > 0);
      for (let stream = 0; stream < streams; stream++) device.throttle.forget(BigInt(stream));
      assertEquals(device.recorded.size, 0);
    }
  });
}
