/**
 * Kernels of which several instructions access memory in turns, as the fields of structs in an array: what is known of
 * them beside what is observed.
 */
import { assert, assertEquals } from "@std/assert";
import { setImmediate } from "node:timers/promises";
import { Random } from "../../differential/random.ts";
import { isLong, test } from "../../support/test.ts";
import { kernelOf } from "../memory/programs.ts";
import { type ComparedLaunch, openCompared } from "./compared_driver.ts";
import { assertSameReports } from "./same_reports.ts";

/** A launch of one thread for each struct. */
interface StructLaunch {
  readonly ptx: string;
  readonly grid: number;
  readonly block: number;
  /** The threads from this one on do nothing. */
  readonly count: number;
}

const mostStructs = 4096;
const mostBytes = 64;

function randomLaunch(random: Random): StructLaunch {
  const words = 2 + random.below(mostBytes / 4 - 1);
  const block = [96, 128, 256][random.below(3)]!;
  const grid = Math.floor((2000 + random.below(mostStructs - 2000)) / block);
  const count = random.percent(50) ? grid * block : Math.max(1, grid * block - random.below(1500));
  const isReversed = random.percent(20);
  const lines: string[] = [];
  const access = (kind: "ld" | "st", address: string, word: number) => {
    const guard = random.percent(1) ? "@%p2 " : "";
    const isPair = words % 2 === 0 && word % 2 === 0 && random.percent(30);
    const place = `[${address}+${4 * word}]`;
    const [vector, value] = isPair ? [".v2", "{%r6, %r7}"] : ["", "%r6"];
    lines.push(`${guard}${kind}.global${vector}.u32 ${kind === "ld" ? `${value}, ${place}` : `${place}, ${value}`};`);
    return isPair ? 2 : 1;
  };
  const fields = (kind: "ld" | "st", address: string) => {
    const [first, end] = random.percent(85) ? [0, words] : [random.below(words), random.below(words + 1)];
    for (let word = first; word < end;) word += access(kind, address, word);
    // Fields again, and some of the next struct.
    for (let more = random.percent(10) ? 1 + random.below(3) : 0; more > 0; more--) {
      access(kind, address, random.below(words) & ~1);
    }
    if (random.percent(5)) access(kind, address, words + (random.below(words) & ~1));
  };
  for (const address of ["%rd1", "%rd2"]) {
    const uses = random.below(5);
    if (uses !== 0) fields("ld", address);
    if (uses < 3) fields("st", address);
    if (random.percent(30)) lines.reverse();
  }
  const bytes = words * 4;
  const ptx = kernelOf(
    ".param .u64 x, .param .u64 y, .param .u32 count",
    `  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r5, [count];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  setp.ge.u32 %p1, %r1, %r5; @%p1 bra END;
  setp.lt.u32 %p2, %r1, 2000;
  ${isReversed ? "sub.u32 %r1, %r5, %r1; sub.u32 %r1, %r1, 1;" : ""}
  mul.wide.u32 %rd3, %r1, ${bytes}; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ${lines.join("\n  ")}
END:`,
  );
  return { ptx, grid, block, count };
}

const bufferBytes = (mostStructs + 2) * mostBytes;

test("who accesses the fields of random structs is known as it is observed", () => {
  const total = isLong ? 100 : 1;
  let known = 0;
  for (let seed = 1; seed <= total; seed++) {
    const { ptx, grid, block, count } = randomLaunch(new Random(seed));
    let found: ComparedLaunch | undefined;
    {
      using cuda = openCompared((launch) => found = launch);
      const gpu = cuda.device(0);
      using x = gpu.allocate(bufferBytes), y = gpu.allocate(bufferBytes);
      gpu.loadModule(ptx).kernel("kernel").launch({ grid, block }, x, y, count);
      gpu.synchronize();
    }
    const { isExact, wrong, missing, said, observed } = found!;
    assertEquals([...wrong, ...isExact ? missing : []].slice(0, 5), [], `seed ${seed}: ${ptx}`);
    if (said === undefined) continue;
    known++;
    const index = said.findIndex((access, index) => access !== observed[index]);
    assert(
      index < 0 && said.length === observed.length,
      `seed ${seed}: access ${index} of ${said.length} and ${observed.length} is ${said[index]}, and was ` +
        `${observed[index]}: ${ptx}`,
    );
  }
  assert(known > total / 4, `${known} of ${total} launches are known`);
  if (isLong) console.log(`${known} of ${total} launches are known`);
});

test(
  "the reports of random structs are the same whether their accesses are known or observed",
  { long: true },
  async () => {
    const total = isLong ? 40 : 1;
    let known = 0, reports = 0;
    for (let seed = 1; seed <= total; seed++) {
      const random = new Random(seed);
      const launches = Array.from({ length: 2 + random.below(2) }, () => randomLaunch(random));
      const found = assertSameReports(
        (cuda) => {
          const random = new Random(seed);
          const gpu = cuda.device(0);
          const streams = [0, 1].map(() => gpu.createStream({ nonBlocking: true }));
          const buffers = [0, 1, 2].map(() => gpu.allocate(bufferBytes));
          for (const buffer of buffers) buffer.fill(0);
          gpu.synchronize();
          const fills = random.percent(30) ? buffers[random.below(3)]! : undefined;
          for (const { ptx, grid, block, count } of launches) {
            const first = random.below(3), second = (first + 1 + random.below(2)) % 3;
            const shift = random.percent(30) ? BigInt(4 * random.below(9)) * 8n : 0n;
            const stream = streams[random.below(2)]!;
            gpu.loadModule(ptx).kernel("kernel")
              .launch({ grid, block, stream }, buffers[first]!.address, buffers[second]!.address + shift, count);
          }
          fills?.fill(1, streams[0]!, { byteOffset: 8 * random.below(100), byteLength: 8 + random.below(5000) });
          if (random.percent(30)) buffers[0]!.free(streams[random.below(2)]!);
        },
        `seed ${seed}`,
        { comparesWholes: true },
      );
      known += found.known;
      reports += found.reports.length;
      // Until the event loop turns, weak references keep what they refer to.
      await setImmediate();
    }
    assert(known > total / 4 && reports > total, `${known} known launches, ${reports} reports`);
    if (isLong) console.log(`${known} known launches, ${reports} reports`);
  },
);
