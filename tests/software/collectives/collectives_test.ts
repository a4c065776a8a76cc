import { assert, assertEquals } from "@std/assert";
import { dataType, reductionOperation } from "../../../src/collective_library.ts";
import { haveSameBytes } from "../../support/bytes.ts";
import { isLong } from "../../support/test.ts";
import { type PlainType, plainTypes, reduced, valuesOf } from "./plain_types.ts";
import { createRanks, type Rank, testCollectives, whenIdle } from "./ranks.ts";

const { float32 } = dataType;
const { sum } = reductionOperation;

/** The bytes of pseudorandom values of a type. Few are so large that results overflow. */
function someBytes(type: PlainType, count: number, seed: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(count * type.byteLength);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < count; index++) {
    type.write(view, index * type.byteLength, type.round((seed * 31 + index * 7) % 23));
  }
  return bytes;
}

/** The arguments of an operation, and its expected result. */
interface Case {
  /** The sizes of a rank's input and result, as multiples of the count. */
  readonly gives: number;
  readonly gets: (rank: number) => number;
  call(rank: Rank, buffers: { source: bigint; target: bigint }): void;
  /** The expected result of a rank. */
  expected(rank: number, given: readonly Uint8Array[]): Uint8Array;
}

function casesOf(type: PlainType, count: number, size: number): Record<string, Case> {
  const root = size - 1;
  const byteLength = count * type.byteLength;
  const common = (rank: Rank) => ({ comm: rank.comm, count, type: type.number, stream: rank.stream });
  const reduce = (given: readonly Uint8Array[], operation: number): Uint8Array => {
    const values = given.map((bytes) => valuesOf(type, bytes));
    const bytes = new Uint8Array(given[0]!.byteLength);
    const view = new DataView(bytes.buffer);
    for (let index = 0; index < values[0]!.length; index++) {
      type.write(view, index * type.byteLength, reduced(type, operation, values.map((ofRank) => ofRank[index]!)));
    }
    return bytes;
  };
  const partOf = (bytes: Uint8Array, index: number) => bytes.subarray(index * byteLength, (index + 1) * byteLength);
  const joined = (parts: readonly Uint8Array[]) => Uint8Array.from(parts.flatMap((part) => [...part]));
  const cases: Record<string, Case> = {};
  for (const [name, operation] of Object.entries(reductionOperation)) {
    cases[`allReduce with ${name}`] = {
      gives: 1,
      gets: () => 1,
      call: (rank, buffers) => rank.collectives.allReduce({ ...common(rank), ...buffers, operation }),
      expected: (_, given) => reduce(given, operation),
    };
  }
  return {
    ...cases,
    reduce: {
      gives: 1,
      gets: (rank) => rank === root ? 1 : 0,
      call: (rank, buffers) => rank.collectives.reduce({ ...common(rank), ...buffers, operation: sum, root }),
      expected: (_, given) => reduce(given, sum),
    },
    broadcast: {
      gives: 1,
      gets: () => 1,
      call: (rank, buffers) => rank.collectives.broadcast({ ...common(rank), ...buffers, root }),
      expected: (_, given) => given[root]!,
    },
    allGather: {
      gives: 1,
      gets: () => size,
      call: (rank, buffers) => rank.collectives.allGather({ ...common(rank), ...buffers }),
      expected: (_, given) => joined(given),
    },
    reduceScatter: {
      gives: size,
      gets: () => 1,
      call: (rank, buffers) => rank.collectives.reduceScatter({ ...common(rank), ...buffers, operation: sum }),
      expected: (rank, given) => partOf(reduce(given, sum), rank),
    },
    allToAll: {
      gives: size,
      gets: () => size,
      call: (rank, buffers) => rank.collectives.allToAll({ ...common(rank), ...buffers }),
      expected: (rank, given) => joined(given.map((bytes) => partOf(bytes, rank))),
    },
  };
}

/** Runs all cases, or those with some names. */
async function runCases(
  ranks: readonly Rank[],
  type: PlainType,
  count: number,
  names?: readonly string[],
): Promise<void> {
  const size = ranks.length;
  for (const [name, { gives, gets, call, expected }] of Object.entries(casesOf(type, count, size))) {
    if (names?.includes(name) === false) continue;
    const given = ranks.map((_, rank) => someBytes(type, gives * count, rank));
    const sources = ranks.map((rank, index) => rank.put(given[index]!));
    const byteLengths = ranks.map((_, index) => gets(index) * count * type.byteLength);
    const targets = ranks.map((rank, index) => rank.put(new Uint8Array(byteLengths[index]!)));
    for (const [index, rank] of ranks.entries()) call(rank, { source: sources[index]!, target: targets[index]! });
    await whenIdle(ranks);
    for (const [index, rank] of ranks.entries()) {
      assertEquals(rank.state, "ready");
      const bytes = rank.get(targets[index]!, byteLengths[index]!);
      const wanted = byteLengths[index] === 0 ? bytes : expected(index, given);
      if (!haveSameBytes(bytes, wanted)) {
        assertEquals(valuesOf(type, bytes), valuesOf(type, wanted), `${name} of ${count} ${type.name}, rank ${index}`);
      }
      rank.free(sources[index]!, targets[index]!);
    }
  }
}

testCollectives("every operation gives every type's results to three ranks", async (driver) => {
  const ranks = await createRanks(driver, 3);
  for (const type of plainTypes) await runCases(ranks, type, 5);
});

testCollectives("operations of no element, of one, and of more than a slice give their results", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const type = plainTypes.find(({ name }) => name === "float32")!;
  for (const count of [0, 1]) await runCases(ranks, type, count);
  const counts = isLong ? [2 ** 18 - 1, 2 ** 18 + 1, 3 * 2 ** 19 + 5] : [2 ** 18 + 1];
  const names = isLong ? undefined : ["allReduce with sum", "reduceScatter"];
  for (const count of counts) await runCases(ranks, type, count, names);
});

for (const size of [1, 2, 4, 5, 8]) {
  testCollectives(`every operation gives every type's results to ${size} ranks`, async (driver) => {
    const ranks = await createRanks(driver, size);
    for (const type of plainTypes) await runCases(ranks, type, 33);
  }, { long: true });
}

function floatsOf(rank: Rank, address: bigint, count: number): number[] {
  return [...new Float32Array(rank.get(address, 4 * count).buffer)];
}

function putFloats(rank: Rank, ...values: number[]): bigint {
  return rank.put(new Uint8Array(Float32Array.from(values).buffer));
}

testCollectives("operations in place have the results of others", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const common = ({ comm, stream }: Rank) => ({ comm, type: float32, stream });
  const buffers = ranks.map((rank, index) => putFloats(rank, 1 + index, 10 + index));
  for (const [index, rank] of ranks.entries()) {
    const at = buffers[index]!;
    rank.collectives.allReduce({ ...common(rank), source: at, target: at, count: 2, operation: sum });
  }
  await whenIdle(ranks);
  assertEquals(ranks.map((rank, index) => floatsOf(rank, buffers[index]!, 2)), [[3, 21], [3, 21]]);
  // In place, each rank's input is its own part of the target, or its result its own part of the source.
  const gathered = ranks.map((rank, index) => putFloats(rank, 7 + index, 7 + index));
  for (const [index, rank] of ranks.entries()) {
    const target = gathered[index]!;
    rank.collectives.allGather({ ...common(rank), source: target + BigInt(4 * index), target, count: 1 });
  }
  await whenIdle(ranks);
  assertEquals(ranks.map((rank, index) => floatsOf(rank, gathered[index]!, 2)), [[7, 8], [7, 8]]);
  const scattered = ranks.map((rank, index) => putFloats(rank, 1 + index, 5 + index));
  for (const [index, rank] of ranks.entries()) {
    const source = scattered[index]!, target = source + BigInt(4 * index);
    rank.collectives.reduceScatter({ ...common(rank), source, target, count: 1, operation: sum });
  }
  await whenIdle(ranks);
  assertEquals(ranks.map((rank, index) => floatsOf(rank, scattered[index]!, 2)), [[3, 5], [2, 11]]);
});

testCollectives("the root of a broadcast needs no target, and the others no source", async (driver) => {
  const ranks = await createRanks(driver, 3);
  const target = putFloats(ranks[0]!, 0);
  const source = putFloats(ranks[1]!, 4);
  const other = putFloats(ranks[2]!, 0);
  const common = ({ comm, stream }: Rank) => ({ comm, type: float32, stream, count: 1, root: 1 });
  ranks[0]!.collectives.broadcast({ ...common(ranks[0]!), source: 0n, target });
  ranks[1]!.collectives.broadcast({ ...common(ranks[1]!), source, target: 0n });
  ranks[2]!.collectives.broadcast({ ...common(ranks[2]!), source: 0n, target: other });
  await whenIdle(ranks);
  assertEquals([floatsOf(ranks[0]!, target, 1), floatsOf(ranks[2]!, other, 1)], [[4], [4]]);
});

testCollectives(
  "work is done in the order of its stream, and a communicator's in its own order on any stream",
  async (driver) => {
    const ranks = await createRanks(driver, 2);
    const buffers = ranks.map((rank) => putFloats(rank, 1));
    const others = ranks.map((_, index) => driver.streamCreateWithPriority(index, 1, 0));
    // Doubles the values ten times, on two streams in turn: each reads the result of the one before.
    for (let time = 0; time < 10; time++) {
      for (const [index, { collectives, comm, stream }] of ranks.entries()) {
        const at = buffers[index]!;
        const on = time % 2 === 0 ? stream : others[index]!;
        collectives.allReduce({ comm, source: at, target: at, count: 1, type: float32, operation: sum, stream: on });
      }
    }
    for (const device of [0, 1]) driver.deviceSynchronize(device);
    assertEquals(ranks.map((rank, index) => floatsOf(rank, buffers[index]!, 1)), [[1024], [1024]]);
    // One fill comes before the collective, and one after it.
    for (const [index, { collectives, comm, stream }] of ranks.entries()) {
      const at = buffers[index]!;
      driver.memsetD32Async(index, at, 0x3f800000, 1, stream);
      collectives.allReduce({ comm, source: at, target: at, count: 1, type: float32, operation: sum, stream });
      driver.memcpyAsync(index, at, at, 4, stream);
    }
    await whenIdle(ranks);
    assertEquals(ranks.map((rank, index) => floatsOf(rank, buffers[index]!, 1)), [[2], [2]]);
  },
);

testCollectives("a communicator does more collectives in a row than its rings have entries", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const buffers = ranks.map((rank) => putFloats(rank, 1));
  for (let time = 0; time < 2500; time++) {
    for (const [index, { collectives, comm, stream }] of ranks.entries()) {
      const at = buffers[index]!;
      collectives.allReduce({ comm, source: at, target: at, count: 1, type: float32, operation: 4, stream });
    }
  }
  await whenIdle(ranks);
  assertEquals(ranks.map((rank, index) => floatsOf(rank, buffers[index]!, 1)), [[1], [1]]);
});

testCollectives("what a collective writes is initialized", async (driver) => {
  const ranks = await createRanks(driver, 2);
  const found: bigint[] = [];
  const targets = ranks.map((_, device) => driver.malloc(device, 8));
  const sources = ranks.map((rank) => putFloats(rank, 1));
  for (const [index, { collectives, comm, stream }] of ranks.entries()) {
    const buffers = { source: sources[index]!, target: targets[index]! };
    collectives.allReduce({ comm, ...buffers, count: 1, type: float32, operation: sum, stream });
  }
  await whenIdle(ranks);
  for (const device of [0, 1]) {
    driver.memcpyDtoHAsync(device, new Uint8Array(8), targets[device]!, 0n, (address) => found.push(address));
  }
  assertEquals(found, targets.map((address) => address + 4n));
  assert(ranks.every(({ state }) => state === "ready"));
}, { kernelChecks: new Set(["initialization"]) });
