import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { ChannelFrames, type ChannelFramesParts } from "../../../src/sharing/channel/channel_frames.ts";
import type { ConsumerConnection } from "../../../src/sharing/channel/channel_hub.ts";
import type { FrameMessage } from "../../../src/sharing/protocol/messages.ts";

/** A channel without memory, whose consumers are in this process and answer when a test says so. */
class Ring {
  readonly frames: ChannelFrames;
  readonly free: Set<number>;
  sent = 0;

  constructor(slots: number, parts: Partial<ChannelFramesParts> = {}) {
    this.free = new Set(Array.from({ length: slots }, (_, slot) => slot));
    this.frames = new ChannelFrames({
      name: "frames",
      offer: 1,
      window: 2,
      droppingSlots: slots,
      onDone: (slot) => this.free.add(slot),
      onJoin() {},
      ...parts,
    });
  }

  /** Sends a frame if a slot is free, or becomes free by dropping a frame. Returns its sequence number. */
  send(): number | undefined {
    if (this.free.size === 0) this.frames.drop();
    const [slot] = this.free;
    if (slot === undefined) return undefined;
    this.free.delete(slot);
    const sequence = ++this.sent;
    this.frames.send({ type: "frame", offer: 1, slot, sequence, byteLength: 0, hasEvent: true, metadata: "" });
    return sequence;
  }
}

class Consumer {
  /** The frames that it was sent and has not released, oldest first. */
  readonly held: FrameMessage[] = [];
  readonly #ring: Ring;
  /** The sequence number of the frame that it was sent last. */
  last = 0;
  goodbye: string | undefined;
  readonly #connection: { -readonly [Key in keyof ConsumerConnection]: ConsumerConnection[Key] };

  constructor(ring: Ring, window = 2) {
    this.#ring = ring;
    this.#connection = {
      peer: { pid: 1, uid: 0, gid: 0 },
      isConnected: true,
      mayBeEnding: false,
      isBacklogged: false,
      send: (message) => {
        if (message.type !== "frame") return;
        assert(message.sequence > this.last, `frame ${message.sequence} after ${this.last}`);
        this.last = message.sequence;
        this.held.push(message);
        assert(this.held.length <= window, `${this.held.length} frames are held`);
      },
      whenFired: () => () => {},
      cutOff: (_, text) => {
        this.goodbye = text;
        this.#connection.isConnected = false;
        ring.frames.onLeave(this.#connection);
      },
    };
    ring.frames.onMessage(this.#connection, { type: "join", offer: 1 });
  }

  /** Releases the oldest frame. */
  release(): void {
    const { slot, sequence } = this.held.shift()!;
    this.#ring.frames.onMessage(this.#connection, { type: "release-slot", offer: 1, slot, sequence, event: 0 });
  }

  /** Releases the ring with an event that has not fired. The connection stays. */
  leave(): void {
    this.#ring.frames.onLeave(this.#connection);
  }

  /** Its connection has ended, and its process may still use what it holds. */
  disconnect(): void {
    this.#connection.isConnected = false;
    this.leave();
  }

  /** Its process has ended. */
  end(): void {
    this.#connection.isConnected = false;
    this.#ring.frames.onReleased(this.#connection);
  }
}

for (let slots = 2; slots <= 9; slots++) {
  for (const hoarders of [1, 2, 5, 20]) {
    test(`a ring of ${slots} slots serves a consumer beside ${hoarders} that release nothing`, () => {
      const window = slots < 3 ? 1 : 2;
      const ring = new Ring(slots, { window });
      for (let count = 0; count < hoarders; count++) {
        new Consumer(ring, window);
        for (let frames = 0; frames < 3; frames++) assert(ring.send() !== undefined);
      }
      const consumer = new Consumer(ring, window);
      for (let frames = 0; frames < 100; frames++) {
        const sequence = ring.send();
        assert(sequence !== undefined, "no slot is left to the producer");
        while (consumer.held.length > 0) consumer.release();
        assertEquals(consumer.last, sequence);
      }
    });
  }
}

test("consumers may hold all frames that their windows allow if there are slots for that", () => {
  const ring = new Ring(9);
  const consumers = Array.from({ length: 4 }, () => {
    const consumer = new Consumer(ring);
    ring.send();
    ring.send();
    return consumer;
  });
  assertEquals(consumers.map(({ held }) => held.map(({ sequence }) => sequence)), [[1, 2], [3, 4], [5, 6], [7, 8]]);
  assert(ring.send() !== undefined && ring.send() !== undefined);
});

test("consumers that keep one frame until the next comes are both served, and slots come back", () => {
  const ring = new Ring(5);
  const consumers = [new Consumer(ring), new Consumer(ring)];
  for (let frames = 0; frames < 100; frames++) {
    const sequence = ring.send();
    assert(sequence !== undefined);
    for (const consumer of consumers) {
      assertEquals(consumer.last, sequence);
      while (consumer.held.length > 1) consumer.release();
    }
  }
  for (const consumer of consumers) consumer.end();
  assertEquals(ring.free.size, 5);
});

test("a consumer that stops releasing frames stops others for a second at most", async () => {
  const ring = new Ring(3);
  const [stops, goesOn] = [new Consumer(ring), new Consumer(ring)];
  const release = (consumer: Consumer) => {
    while (consumer.held.length > 0) consumer.release();
  };
  for (let frames = 0; frames < 10; frames++) {
    ring.send();
    release(stops);
    release(goesOn);
  }
  const begin = performance.now();
  // It stops, and takes what it gets.
  let served = 0;
  for (let frames = 0; served < 100; frames++) {
    ring.send();
    if (goesOn.held.length > 0) served++;
    release(goesOn);
    await new Promise((resolve) => setTimeout(resolve, 1));
    assert(performance.now() - begin < 5000, `${served} frames`);
  }
});

test("a frame that is not written yet is not held for too long", async () => {
  let isWritten = false;
  const ring = new Ring(3, { holdTimeout: 20, isWritten: () => isWritten });
  const consumer = new Consumer(ring);
  ring.send();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assertEquals(consumer.goodbye, undefined);
  isWritten = true;
  while (consumer.goodbye === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(
    consumer.goodbye,
    'It was cut off: process 1 has held a frame of "frames" for more than 20 ms',
  );
  assertEquals(ring.frames.quarantined, new Map([[1, new Set([0])]]));
  consumer.end();
  assertEquals([ring.frames.quarantined.size, ring.free.size], [0, 3]);
});

test("a consumer that leaves with an event that never fires holds its frames no longer than another", async () => {
  const ring = new Ring(3, { holdTimeout: 20 });
  const consumer = new Consumer(ring);
  ring.send();
  consumer.leave();
  for (let wait = 0; consumer.goodbye === undefined && wait < 1000; wait += 5) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assertEquals(consumer.goodbye, 'It was cut off: process 1 has held a frame of "frames" for more than 20 ms');
  assertEquals(ring.frames.quarantined, new Map([[1, new Set([0])]]));
});

test("a frame that nobody may hold makes room at once for a slot that is waited for", () => {
  let droppable = 0;
  const ring = new Ring(3, { onDroppable: () => droppable++ });
  const consumer = new Consumer(ring);
  for (let frame = 0; frame < 3; frame++) ring.send();
  assertEquals([consumer.held.length, droppable], [2, 1]);
  assert(ring.frames.drop());
});

test("the holders of frames are listed, up to a few processes and frames each", () => {
  const ring = new Ring(10, { window: 9 });
  const consumers = Array.from({ length: 6 }, () => new Consumer(ring, 9));
  assertEquals(ring.frames.holders, []);
  ring.send();
  consumers[0]!.release();
  const held = "process 1 has not released frame 1";
  assertEquals(ring.frames.holders, [held, held, held, held, "1 more of its consumers hold frames"]);
  const one = new Ring(20, { window: 9 });
  const consumer = new Consumer(one, 9);
  for (let frame = 0; frame < 9; frame++) one.send();
  assertEquals(one.frames.holders, ["process 1 has not released frames 1, 2, 3, 4, 5, 6, 7, 8 and 1 more"]);
  while (consumer.held.length > 1) consumer.release();
  consumer.disconnect();
  assertEquals(one.frames.holders, ["process 1, whose connection has ended, may still use frame 9"]);
});
