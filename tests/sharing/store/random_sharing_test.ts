/**
 * Random requests for memory that entries share, of two users, in a store without connections: after each, the records,
 * the descriptors and the room that is left must agree, and at the end nothing is left.
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { type Cuda, open, SharingError } from "../../../mod.ts";
import { shimRefusal } from "../../../ffi/native/shim/shim.ts";
import { PendingRequest } from "../../../src/sharing/store/memories/pending_request.ts";
import { StoredMemories } from "../../../src/sharing/store/memories/stored_memories.ts";
import {
  type Holder,
  readJournal,
  recordOf,
  replayTable,
  type Stored,
} from "../../../src/sharing/store/memories/store_table.ts";
import { Random } from "../../differential/random.ts";
import { assertLeavesNothing } from "../../support/resources.ts";
import { isLong, test } from "../../support/test.ts";

const unit = 2 ** 21;
const maximum = { device: 8 * unit, host: 3 * unit };
const names = ["a", "b", "c"];

class Program implements Disposable {
  readonly #random: Random;
  readonly #memories: StoredMemories;
  readonly #device: string;
  readonly #holders: readonly Holder[];
  /** What each mapping holds. */
  readonly #mappings: (readonly [Holder, Stored])[] = [];
  readonly #unpublished: Stored[] = [];
  #table = -1;

  constructor(cuda: Cuda, seed: number) {
    this.#random = new Random(seed);
    this.#device = cuda.device(0).uuid;
    this.#memories = new StoredMemories(cuda, {
      ...{ devices: cuda.devices, maxSize: maximum.device, maxSizeOfUser: Infinity, maxHostSize: maximum.host },
      ...{ maximumMetadata: 2 ** 20, evict: false, isShared: false },
    }, []);
    this.#holders = [1000, 1000, 1001].map((uid, index) => ({ peer: { pid: index + 1, uid, gid: uid } }));
    void this.#memories.addBackup({
      keep: (name, fd) => {
        if (name === "table") this.#table = fd;
        return Promise.resolve();
      },
      forget() {},
    });
  }

  async step(): Promise<void> {
    try {
      await this.#act();
    } catch (error) {
      if (!(error instanceof SharingError)) throw error;
    }
    this.#check();
    await this.#checkRoom();
  }

  /** Lets everything go. */
  async end(): Promise<void> {
    for (const name of names) for (const holder of this.#holders) this.#try(() => this.#memories.remove(holder, name));
    for (const holder of this.#holders) this.#memories.releaseAll(holder);
    assertEquals([[...this.#memories.all], this.#replayed().length], [[], 0]);
    assert(!("offload" in await this.#create(this.#holders[0]!, "whole", maximum.device)));
  }

  [Symbol.dispose](): void {
    this.#memories[Symbol.dispose]();
  }

  #try(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (!(error instanceof SharingError)) throw error;
    }
  }

  async #create(holder: Holder, name: string, byteLength: number, pending = pendingRequest()): Promise<Stored> {
    const request = { name, device: this.#device, byteLength, metadata: undefined, set: undefined, offloads: false };
    return await this.#memories.create(holder, request, pending) as Stored;
  }

  async #act(): Promise<void> {
    const random = this.#random, memories = this.#memories;
    const holder = random.pick(this.#holders), name = random.pick(names);
    const kind = random.below(100);
    if (kind < 25 && this.#used() < maximum.device) {
      this.#unpublished.push(await this.#create(holder, name, unit - random.below(2)));
    } else if (kind < 50 && this.#unpublished.length > 0) {
      this.#publish(this.#unpublished.splice(random.below(this.#unpublished.length), 1)[0]!);
    } else if (kind < 65) {
      const request = { name, write: random.percent(15), digest: undefined, rank: [0, 1] as const };
      const memory = memories.map(holder, request);
      if (memory !== undefined && memory.mover === undefined) this.#mappings.push([holder, memory]);
      else if (memory !== undefined) memories.release(holder, memory.id);
    } else if (kind < 80 && this.#mappings.length > 0) {
      const [reader, { id }] = this.#mappings.splice(random.below(this.#mappings.length), 1)[0]!;
      memories.release(reader, id);
    } else if (kind < 83) {
      memories.remove(holder, name);
    } else if (kind < 85) {
      memories.releaseAll(holder);
      for (const list of [this.#mappings, this.#unpublished]) {
        for (const each of list.splice(0) as (Stored & readonly [Holder, Stored])[]) {
          if ((Array.isArray(each) ? each[0] : each.writer) !== holder && memories.find(idOf(each)) !== undefined) {
            (list as unknown[]).push(each);
          }
        }
      }
    } else {
      await this.#move(holder, name);
    }
  }

  #publish(memory: Stored): void {
    const random = this.#random, memories = this.#memories;
    const writer = memory.writer!;
    const digit = `${random.below(2)}`;
    const publication = { digest: digit.repeat(64), layout: digit.repeat(64), keep: random.percent(10) };
    const equivalent = memories.equivalentOf(memory, publication);
    if (equivalent === undefined) {
      memories.publish(memory, publication);
      this.#mappings.push([writer, memory]);
      return;
    }
    assertEquals([equivalent.uid, equivalent.mayChange, equivalent.place], [memory.uid, false, "device"]);
    memories.hold(writer, equivalent);
    try {
      if (random.percent(20)) memories.remove(writer, equivalent.name);
      memories.publish(memory, publication, random.percent(80) ? equivalent : undefined);
      this.#mappings.push([writer, memory]);
    } catch (error) {
      memories.release(writer, memory.id);
      throw error;
    } finally {
      memories.release(writer, equivalent.id);
    }
  }

  async #move(holder: Holder, name: string): Promise<void> {
    const random = this.#random, memories = this.#memories;
    const source = memories.wanted({ name, digest: undefined, rank: [0, 1] });
    if (source === undefined) return;
    const to = source.place === "device" ? random.pick(["host", "file"] as const) : "device";
    if (to === "device" && this.#used() + unit > maximum.device) return;
    const target = await memories.beginMove(holder, source, {
      to,
      offloads: false,
      pending: pendingRequest(),
    }) as Stored;
    this.#check();
    if (random.percent(30)) memories.abandonMove(holder, source);
    else memories.endMove(holder, source, target ?? { file: "/somewhere" });
  }

  /** The bytes of device memory that descriptors stand for. */
  #used(): number {
    const all = [...this.#memories.all].filter(({ place }) => place === "device");
    return new Map(all.map(({ descriptor, size }) => [descriptor, size])).values().reduce((sum, size) => sum + size, 0);
  }

  #replayed(): unknown[] {
    return [...replayTable(readJournal(this.#table)).values()];
  }

  #check(): void {
    const all = [...this.#memories.all];
    for (const sharers of Map.groupBy(all, ({ descriptor }) => descriptor).values()) {
      const [first] = sharers as [Stored];
      for (const { uid, handle, place, mover, mayChange, sharers: own } of sharers) {
        assertEquals([uid, handle === first.handle, place, mover === first.mover], [
          first.uid,
          true,
          first.place,
          true,
        ]);
        assert(sharers.length === 1 || !mayChange);
        assertEquals([...own ?? [first]].map(({ id }) => id).sort(), sharers.map(({ id }) => id).sort());
        assert(place === "device" || place === "host" ? handle!.fd >= 0 : handle === undefined);
      }
    }
    assertEquals(
      new Set(all.map(({ handle }) => handle).filter((handle) => handle !== undefined)).size,
      new Set(all.filter(({ handle }) => handle !== undefined).map(({ descriptor }) => descriptor)).size,
    );
    const expected = all.filter(({ isWritten }) => isWritten).map(recordOf);
    assertEquals(sorted(this.#replayed()), sorted(expected));
  }

  /** Checks that as much memory can be created as is left. */
  async #checkRoom(): Promise<void> {
    const pending = pendingRequest();
    const left = maximum.device - this.#used();
    const [owner] = this.#holders as [Holder];
    if (left > 0) this.#memories.release(owner, (await this.#create(owner, "left", left)).id);
    if (left === maximum.device) return;
    const more = this.#create(owner, "more", left + 1, pending);
    pending.end(new SharingError("cut-off", "given up"));
    assertEquals(await more.then(() => "created", () => "refused"), "refused");
  }
}

function idOf(each: Stored | readonly [Holder, Stored]): number {
  return "id" in each ? each.id : each[1].id;
}

function sorted(records: unknown[]): string[] {
  return records.map((record) => JSON.stringify(Object.entries(record as object).sort())).sort();
}

function pendingRequest(): PendingRequest {
  return new PendingRequest(1, { onSettled() {}, onWait() {} });
}

test("random requests for shared memory leave no trace", { skip: shimRefusal() ?? false }, async () => {
  await assertLeavesNothing(async () => {
    using cuda = open({ driver: "software", sanitize: false });
    const first = Number(process.env.POOLPASS_SEED ?? 42);
    for (let seed = first; seed < first + (isLong ? 40 : 2); seed++) {
      using program = new Program(cuda, seed);
      try {
        for (let step = 0; step < 120; step++) await program.step();
        await program.end();
      } catch (error) {
        throw new Error(`program ${seed}`, { cause: error });
      }
    }
  });
});
