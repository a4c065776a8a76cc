/** How many calls a stream has before it that are not done, when some streams do nothing for ever. */
import { assert, assertEquals } from "@std/assert";
import { StreamRooms } from "../../src/collectives/stream_rooms.ts";
import { Random } from "../differential/random.ts";
import { test } from "../support/test.ts";

/** So many a stream of CUDA takes, and so many are not worth a wait. */
const most = 1000;
const few = 150;
/** How many of CUDA's calls one may be. */
const callsOfOne = { plain: 1, sanitized: 3 } as const;

/** A device whose streams do nothing but what is awaited. */
class IdleDevice {
  /** Events by their numbers: which stream they are recorded on, and behind how many of its calls. */
  readonly events = new Map<bigint, { stream: bigint; calls: number } | undefined>();
  readonly given = new Map<bigint, number>();
  readonly done = new Map<bigint, number>();
  /** How many calls were not done where a wait began. */
  readonly waits: number[] = [];
  readonly rooms: StreamRooms;
  #last = 0n;

  constructor(isSanitized: boolean) {
    const looks = {
      createEvent: () => {
        this.events.set(++this.#last, undefined);
        return this.#last;
      },
      destroyEvent: (event: bigint) => void this.events.delete(event),
      record: (_device: number, event: bigint, stream: bigint) =>
        void this.events.set(event, { stream, calls: this.given.get(stream)! }),
      await: (event: bigint) => {
        const { stream, calls } = this.events.get(event)!;
        this.waits.push(this.outstanding(stream));
        this.done.set(stream, Math.max(this.done.get(stream) ?? 0, calls));
      },
    };
    this.rooms = new StreamRooms(looks, { isSanitized });
  }

  outstanding(stream: bigint): number {
    return (this.given.get(stream) ?? 0) - (this.done.get(stream) ?? 0);
  }

  call(stream: bigint, calls: number): void {
    if (!this.given.has(stream)) this.given.set(stream, 0);
    this.rooms.take(0, stream, stream, calls);
    this.given.set(stream, this.given.get(stream)! + calls);
  }
}

for (const kind of ["plain", "sanitized"] as const) {
  test(`no stream gets more calls than it takes, whatever others get, nor waits with few [${kind}]`, () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new Random(seed);
      const device = new IdleDevice(kind === "sanitized");
      const streams = random.below(5) + 1;
      // Some programs go around their streams, others choose among them.
      const pattern = Array.from({ length: random.below(600) + 1 }, () => BigInt(random.below(streams)));
      for (let index = 0; index < 12_000; index++) {
        const stream = random.percent(seed % 2 * 100)
          ? BigInt(random.below(streams))
          : pattern[index % pattern.length]!;
        // A communicator takes room for several.
        device.call(stream, seed % 3 === 0 ? random.below(16) + 1 : 1);
        assert(device.outstanding(stream) * callsOfOne[kind] <= most, `seed ${seed}: ${device.outstanding(stream)}`);
      }
      assert(device.waits.every((outstanding) => outstanding >= few), `seed ${seed}: ${Math.min(...device.waits)}`);
      assert(device.waits.length > 0);
      for (let stream = 0; stream < streams; stream++) device.rooms.forget(BigInt(stream));
      assertEquals(device.events.size, 0);
    }
  });
}
