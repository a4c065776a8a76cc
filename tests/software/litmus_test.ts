/**
 * Litmus tests of the memory model, as kernels whose blocks run on worker threads: message passing, store buffering, and
 * independent reads of independent writes. PTX ISA, chapter 8.
 *
 * Each block is one thread. It runs its program once for each of many pairs of words, x and y, which are 0 at first. The
 * blocks wait for each other before each round of a few pairs, and never in a round.
 */
import { assert, assertEquals } from "@std/assert";
import { performance } from "node:perf_hooks";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { processWorkers, sharingPolicy } from "../../src/software/execution/workers/workers.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { isLong, test } from "../support/test.ts";

/** Whether a block has loaded the stored value, and not 0, into `%a` and `%b`. */
interface Seen {
  readonly a: boolean;
  readonly b: boolean;
}

interface LitmusTest {
  readonly name: string;
  /**
   * What each block does. `[%x]` and `[%y]` are a pair of words of type `.uT`, and `%v` is the value to store. `%a` and
   * `%b` are 0 unless the program loads them. `[%early]` is a word that nothing reads.
   */
  readonly programs: readonly string[];
  /** Whether the memory model forbids what the blocks have seen of a pair. */
  isForbidden(seen: readonly Seen[]): boolean;
}

/**
 * Message passing: a block that sees the flag in y must see the data in x. It has loaded the data before, so that an
 * engine could use the earlier value again.
 */
function messagePassing(name: string, { set, get }: { set: string; get: string }): LitmusTest {
  return {
    name: `message passing by ${name}`,
    programs: [
      `st.global.uT [%x], %v; ${set}`,
      `ld.global.uT %b, [%x]; st.global.uT [%early], %b; ${get} ld.global.uT %b, [%x];`,
    ],
    isForbidden: ([, reader]) => reader!.a && !reader!.b,
  };
}

const messagePassingTests = [
  messagePassing("release and acquire", {
    set: "st.release.gpu.global.uT [%y], %v;",
    get: "ld.acquire.gpu.global.uT %a, [%y];",
  }),
  messagePassing("fence.acq_rel", {
    set: "fence.acq_rel.gpu; st.relaxed.gpu.global.uT [%y], %v;",
    get: "ld.relaxed.gpu.global.uT %a, [%y]; fence.acq_rel.gpu;",
  }),
  messagePassing("volatile accesses and membar", {
    set: "membar.gl; st.volatile.global.uT [%y], %v;",
    get: "ld.volatile.global.uT %a, [%y]; membar.gl;",
  }),
];

/** Store buffering: each block stores and then loads what the other one stores. One of them must see the other's store. */
function storeBuffering(name: string, { store, load }: { store: string; load: string }): LitmusTest {
  const program = (own: string, other: string) => `${store} [${own}], %v; fence.sc.gpu; ${load} %a, [${other}];`;
  return {
    name: `store buffering of ${name} with fence.sc`,
    programs: [program("%x", "%y"), program("%y", "%x")],
    isForbidden: ([first, second]) => !first!.a && !second!.a,
  };
}

const storeBufferingTests = [
  storeBuffering("relaxed accesses", { store: "st.relaxed.gpu.global.uT", load: "ld.relaxed.gpu.global.uT" }),
  // PTX promises this for strong accesses only. But those are in one order here even without fences, so only weak ones
  // show that a fence has an effect.
  storeBuffering("weak accesses", { store: "st.global.uT", load: "ld.global.uT" }),
];

/** Independent reads of independent writes: two readers must not see the two stores in different orders. */
function independentReads(order: "relaxed" | "acquire"): LitmusTest {
  const load = `ld.${order}.gpu.global.uT`;
  const reader = (first: string, second: string) => `${load} %a, [${first}]; fence.sc.gpu; ${load} %b, [${second}];`;
  return {
    name: `independent reads by ld.${order} with fence.sc`,
    programs: [
      "st.relaxed.gpu.global.uT [%x], %v;",
      "st.relaxed.gpu.global.uT [%y], %v;",
      reader("%x", "%y"),
      reader("%y", "%x"),
    ],
    isForbidden: ([, , first, second]) => first!.a && !first!.b && second!.a && !second!.b,
  };
}

const independentReadsTests = [independentReads("relaxed"), independentReads("acquire")];

/** With more pairs in a round, the compiler would let the threads of a warp wait for each other in it. */
const pairsPerRound = 16;
const rounds = 512;
const pairs = pairsPerRound * rounds;
/** The number of words that a block stores for each pair: `%a`, `%b` and `[%early]`. */
const resultWords = 3;

/** Where the pairs are, and how large their words are. */
interface Place {
  readonly bits: 32 | 64;
  readonly inHostMemory?: boolean;
}

/** Returns a kernel that runs a litmus test. */
function ptxOf({ programs }: LitmusTest, { bits }: Place): string {
  const word = bits / 8;
  const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry litmus(.param .u64 words, .param .u64 results, .param .u64 gates, .param .u32 delay) {
.reg .pred %p;
.reg .u32 %block, %begun, %arrived, %round, %delay;
.reg .uT %a, %b, %v;
.reg .u64 %words, %result, %gate, %offset;
mov.u32 %block, %ctaid.x;
mov.uT %v, ${bits === 32 ? 1 : 0x1_0000_0001};
ld.param.u64 %words, [words];
ld.param.u64 %result, [results];
mul.wide.u32 %offset, %block, ${pairs * resultWords * word};
add.u64 %result, %result, %offset;
ld.param.u64 %gate, [gates];

// Counts the blocks that begin in a loop in which a block never leaves its thread to another one.
atom.relaxed.gpu.global.add.u32 %begun, [%gate], 1;
ld.param.u32 %delay, [delay];
DELAY:
sub.u32 %delay, %delay, 1;
setp.ne.u32 %p, %delay, 0;
@%p bra DELAY;
ld.relaxed.gpu.global.u32 %arrived, [%gate];
sub.u32 %arrived, %arrived, %begun;
sub.u32 %arrived, %arrived, 1;
red.relaxed.gpu.global.add.u32 [%gate+4], %arrived;

add.u64 %gate, %gate, 8;
mov.u32 %round, 0;
ROUND:
red.release.gpu.global.add.u32 [%gate], 1;
MEET:
ld.acquire.gpu.global.u32 %arrived, [%gate];
setp.ne.u32 %p, %arrived, ${programs.length};
@%p bra MEET;
${programs.map((_, block) => `setp.eq.u32 %p, %block, ${block};\n@%p bra BLOCK${block};`).join("\n")}
${programs.map((program, block) => `BLOCK${block}:\n${roundOf(program, word)}\nbra END;`).join("\n")}
END:
add.u64 %words, %words, ${pairsPerRound * word};
add.u64 %result, %result, ${pairsPerRound * resultWords * word};
add.u64 %gate, %gate, 4;
add.u32 %round, %round, 1;
setp.lt.u32 %p, %round, ${rounds};
@%p bra ROUND;
}`;
  return ptx.replaceAll(".uT", `.u${bits}`);
}

/** Returns the code of a program for all pairs of a round. */
function roundOf(program: string, word: number): string {
  return Array.from({ length: pairsPerRound }, (_, pair) => {
    const result = pair * resultWords * word;
    const code = program.replaceAll("%x", `%words+${pair * word}`).replaceAll("%y", `%words+${(pairs + pair) * word}`)
      .replaceAll("%early", `%result+${result + 2 * word}`);
    return `mov.uT %a, 0;
mov.uT %b, 0;
${code}
st.global.uT [%result+${result}], %a;
st.global.uT [%result+${result + word}], %b;`;
  }).join("\n");
}

/** The maximum number of iterations for which each block waits until threads have woken up and begun the other blocks. */
const mostDelay = 2 ** 27;

/** What many runs of a litmus test have shown. */
interface Counts {
  launches: number;
  /** The number of pairs of which the blocks have seen what is forbidden. */
  forbidden: number;
  /** The number of launches with two blocks on different threads at the same time. */
  simultaneous: number;
}

/** The number of worker threads, unless other tests of the process have started some. */
const workers = isLong ? 4 : 2;

/** Launches a litmus test on a device with a number of threads until `isEnough` returns true. */
async function count(
  litmus: LitmusTest,
  { threads, place, isEnough }: { threads: number; place: Place; isEnough: (counts: Counts) => boolean },
): Promise<Counts> {
  const usual = { ...sharingPolicy };
  try {
    sharingPolicy.firstSliceMilliseconds = -1;
    processWorkers(new LinearMemory()).startAll(workers);
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, threads })));
    const gpu = cuda.device(0);
    const blocks = litmus.programs.length;
    const word = place.bits / 8;
    using module = gpu.loadModule(ptxOf(litmus, place));
    using pool = gpu.createPool();
    using stream = gpu.createStream();
    using host = cuda.allocateHost(2 * pairs * word);
    using device = pool.allocate(2 * pairs * word, stream);
    using results = pool.allocate(blocks * pairs * resultWords * word, stream);
    using gates = pool.allocate((2 + rounds) * 4, stream);
    const counts = { launches: 0, forbidden: 0, simultaneous: 0 };
    let delay = 2 ** 20;
    while (!isEnough(counts)) {
      new Uint8Array(host.buffer).fill(0);
      device.fill(0, stream);
      gates.fill(0, stream);
      const words = place.inHostMemory ? host : device;
      module.kernel("litmus").launch({ grid: blocks, block: 1, stream }, words, results, gates, delay);
      // Leaves the processor to the workers, as awaiting would not.
      stream.synchronize();
      counts.launches++;
      counts.forbidden += forbiddenIn(await results.read(Uint32Array, { stream }), { litmus, place });
      if ((await gates.read(Uint32Array, { stream }))[1]! > 0) counts.simultaneous++;
      else if (counts.simultaneous === 0) delay = Math.min(2 * delay, mostDelay);
    }
    return counts;
  } finally {
    Object.assign(sharingPolicy, usual);
  }
}

/** Returns of how many pairs the blocks have seen what is forbidden. Fails if a result is neither 0 nor the value. */
function forbiddenIn(results: Uint32Array, { litmus, place }: { litmus: LitmusTest; place: Place }): number {
  const halves = place.bits / 32;
  const seen = results.filter((_, index) => index % halves === 0);
  assert(results.every((half, index) => half <= 1 && half === seen[Math.floor(index / halves)]));
  let forbidden = 0;
  for (let pair = 0; pair < pairs; pair++) {
    const seenOfPair = litmus.programs.map((_, block) => {
      const first = (block * pairs + pair) * resultWords;
      return { a: seen[first] === 1, b: seen[first + 1] === 1 };
    });
    if (litmus.isForbidden(seenOfPair)) forbidden++;
  }
  return forbidden;
}

const leastLaunches = isLong ? 50 : 1;
/** The time in milliseconds in which two blocks run at the same time even if all threads share a processor. */
const patience = 30_000;

/** Fails if a litmus test shows what is forbidden, or if its blocks never run at the same time. */
async function assertOrder(litmus: LitmusTest, place: Place): Promise<void> {
  const start = performance.now();
  const { forbidden, simultaneous } = await count(litmus, {
    threads: workers,
    place,
    isEnough({ launches, simultaneous }) {
      return launches >= leastLaunches && (simultaneous > 0 || performance.now() - start > patience);
    },
  });
  assertEquals(forbidden, 0);
  assert(simultaneous > 0, "no blocks ran at the same time");
}

for (const litmus of [...messagePassingTests, ...storeBufferingTests]) {
  test(`${litmus.name}, in device and host memory, with 32 and 64 bits`, async () => {
    await assertOrder(litmus, { bits: 32 });
    await assertOrder(litmus, { bits: 32, inHostMemory: true });
    await assertOrder(litmus, { bits: 64 });
  });
}

for (const litmus of independentReadsTests) {
  test(litmus.name, () => assertOrder(litmus, { bits: 32 }));
}

test("on one thread, no blocks run at the same time", async () => {
  for (const litmus of [messagePassingTests[0]!, storeBufferingTests[0]!, independentReadsTests[0]!]) {
    const counts = await count(litmus, {
      threads: 1,
      place: { bits: 32 },
      isEnough: ({ launches }) => launches === 1,
    });
    assertEquals(counts, { launches: 1, forbidden: 0, simultaneous: 0 });
  }
});
