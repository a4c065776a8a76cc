import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { randomNumbers } from "./instructions/references.ts";
import { runThreads, upTo } from "./threads.ts";

const next = randomNumbers(0x51ab_90cc_37d2_e6f1n);
const random = (below: number): number => Number(next() % BigInt(below));

/** Rows of shared memory that hold a matrix's row each: 8 elements of 16 bits. */
const rows = 64;
const declarations = `.shared .align 16 .b8 tile[${16 * rows}];`;

/** Every thread copies two rows, as words, from `%rd1` or to `%rd2`. */
const fill = `
  mul.wide.u32 %rd3, %r0, 32;
  add.u64 %rd4, %rd1, %rd3;
  mov.u64 %rd5, tile;
  add.u64 %rd5, %rd5, %rd3;
  ${upTo(8, (word) => `ld.global.u32 %r3, [%rd4+${4 * word}]; st.shared.u32 [%rd5+${4 * word}], %r3;`).join("\n")}
  bar.sync 0;`;
/** The thread's word after the rows is a row's offset. */
const address = `
  mul.wide.u32 %rd3, %r0, 4;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.u32 %r4, [%rd4+${16 * rows}];
  mov.u32 %r5, tile;
  add.u32 %r4, %r5, %r4;`;

const elementsOf = (words: readonly number[]) => words.flatMap((word) => [word & 0xffff, word >>> 16]);

/** The manual's figure: the row and column of the first and second element of a thread's fragment. */
function places(lane: number, transposed: boolean): [row: number, column: number][] {
  const [major, minor] = [lane >> 2, 2 * (lane & 3)];
  return transposed ? [[minor, major], [minor + 1, major]] : [[major, minor], [major, minor + 1]];
}

const counts = [1, 2, 4] as const;
const registers = (count: number) => `{${upTo(count, (index) => `%r${10 + index}`).join(", ")}}`;

for (const transposed of [false, true]) {
  const trans = transposed ? ".trans" : "";

  test(`ldmatrix${trans} gives each thread the elements that the manual shows`, () => {
    for (const count of counts) {
      const content = upTo(4 * rows, () => random(2 ** 32));
      // Threads that name no row have addresses that are wrong in every way.
      const offsets = upTo(32, (lane) => lane < 8 * count ? 16 * random(rows) : random(2 ** 32));
      const written = runThreads(
        `${fill}${address}
  ldmatrix.sync.aligned.m8n8.x${count}${trans}.shared.b16 ${registers(count)}, [%r4];
  ${upTo(count, (index) => `st.global.u32 [%rd2+${4 * index}], %r${10 + index};`).join("\n")}`,
        { block: [32, 1, 1], declarations, words: count, input: [...content, ...offsets] },
      );
      const elements = elementsOf(content);
      const expected = upTo(32, (lane) =>
        upTo(count, (matrix) => {
          const [low, high] = places(lane, transposed).map(([row, column]) => {
            return elements[offsets[8 * matrix + row]! / 2 + column]!;
          });
          return (low! | high! << 16) >>> 0;
        })).flat();
      assertEquals(written, expected, `x${count}`);
    }
  });

  test(`stmatrix${trans} stores each thread's elements where the manual shows`, () => {
    for (const count of counts) {
      const fragments = upTo(128, () => random(2 ** 32));
      // Each row of the first 32, in another order.
      const offsets = upTo(32, (lane) => lane < 8 * count ? 16 * (lane * 7 % 32) : random(2 ** 32));
      const written = runThreads(
        `${fill}${address}
  mul.wide.u32 %rd3, %r0, 16;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4+${16 * rows + 128}];
  stmatrix.sync.aligned.m8n8.x${count}${trans}.shared.b16 [%r4], ${registers(count)};
  bar.sync 0;
  mov.u64 %rd5, tile;
  add.u64 %rd5, %rd5, %rd3;
  ${upTo(4, (word) => `ld.shared.u32 %r3, [%rd5+${4 * word}]; st.global.u32 [%rd2+${4 * word}], %r3;`).join("\n")}`,
        {
          block: [32, 1, 1],
          declarations,
          words: 4,
          input: [...upTo(4 * rows, () => 0), ...offsets, ...fragments],
        },
      );
      const expected = upTo(32 * 8, () => 0);
      for (let lane = 0; lane < 32; lane++) {
        for (let matrix = 0; matrix < count; matrix++) {
          const pair = elementsOf([fragments[4 * lane + matrix]!]);
          places(lane, transposed).forEach(([row, column], index) => {
            expected[offsets[8 * matrix + row]! / 2 + column] = pair[index]!;
          });
        }
      }
      assertEquals(elementsOf(written), expected, `x${count}`);
    }
  });
}

test("movmatrix transposes a matrix in the registers of a warp", () => {
  const fragments = upTo(64, () => random(2 ** 32));
  const written = runThreads(
    `
  mul.wide.u32 %rd3, %r0, 4;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.u32 %r10, [%rd4];
  movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;
  st.global.u32 [%rd2], %r11;`,
    { block: [64, 1, 1], input: fragments },
  );
  const expected = upTo(64, (thread) => {
    const warp = elementsOf(fragments.slice(thread & 32, (thread & 32) + 32));
    const [low, high] = places(thread % 32, true).map(([row, column]) => warp[8 * row + column]!);
    return (low! | high! << 16) >>> 0;
  });
  assertEquals(written, expected);
});

test("a row's address must be aligned and in shared memory, and fragments are vectors", () => {
  const load = (offset: number, fragments = "{%r10}") =>
    runThreads(
      `mov.u32 %r4, tile; add.u32 %r4, %r4, ${offset};
       ldmatrix.sync.aligned.m8n8.x1.shared.b16 ${fragments}, [%r4];
       st.global.u32 [%rd2], 1;`,
      { block: [32, 1, 1], declarations },
    );
  assertEquals(load(16 * (rows - 1)), upTo(32, () => 1));
  assertThrows(() => load(8), Error);
  assertThrows(() => load(16 * rows), Error);
  assertThrows(() => load(0, "{%r10, %r11}"), Error, "needs a vector of 1 register");
});
