import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { compilePtx } from "../../../src/software/compiler/compile.ts";
import { isLong } from "../../support/test.ts";
import { Random } from "./inputs.ts";
import { runThreads, threadsModule, upTo } from "../threads.ts";

/** Half-precision numbers near 1, two in a word, so that sums of products stay finite. */
const half = (random: Random) => (0x3800 + random.below(0x800)) | (0xb000 + random.below(0x800)) << 16;

/** Registers of a fragment, which may overlap those of another. */
function registers(random: Random, { name, count, total }: { name: string; count: number; total: number }): string {
  const step = random.below(4) === 0 ? 1 : count;
  const first = random.below((total - count) / step + 1) * step;
  return `{${upTo(count, (index) => `%${name}${first + index}`).join(", ")}}`;
}

/** A product with random registers. */
function product(random: Random): string {
  const a = () => registers(random, { name: "w", count: 4, total: 16 });
  const b = () => registers(random, { name: "w", count: 2, total: 16 });
  if (random.below(3) === 0) {
    const d = registers(random, { name: "w", count: 2, total: 16 });
    return `mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 ${d}, ${a()}, ${b()}, ${b()};`;
  }
  const c = registers(random, { name: "q", count: 4, total: 20 });
  const d = random.below(2) === 0 ? c : registers(random, { name: "q", count: 4, total: 20 });
  return `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ${d}, ${a()}, ${b()}, ${c};`;
}

test("products that are computed together give what they give one by one", () => {
  const random = new Random(7);
  for (let round = 0; round < (isLong ? 40 : 8); round++) {
    const products = upTo(4 + random.below(12), () => {
      const between = [
        `mov.b32 %w${random.below(16)}, %w${random.below(16)};`,
        `add.f32 %q0, %q${random.below(20)}, %q1;`,
      ];
      return `${random.below(4) === 0 ? between[random.below(2)] : ""} ${product(random)}`;
    });
    const body = (separator: (index: number) => string) => `
  .reg .b32 %w<16>; .reg .f32 %q<20>;
  mul.wide.u32 %rd3, %r0, 144;
  add.u64 %rd1, %rd1, %rd3;
  ${upTo(16, (index) => `ld.global.b32 %w${index}, [%rd1+${4 * index}];`).join("\n")}
  ${upTo(20, (index) => `ld.global.f32 %q${index}, [%rd1+${4 * (16 + index)}];`).join("\n")}
  ${products.map((text, index) => `${separator(index)} ${text}`).join("\n")}
  ${upTo(16, (index) => `st.global.b32 [%rd2+${4 * index}], %w${index};`).join("\n")}
  ${upTo(20, (index) => `st.global.f32 [%rd2+${4 * (16 + index)}], %q${index};`).join("\n")}`;
    const input = upTo(
      32 * 36,
      (index) => index % 36 < 16 ? half(random) >>> 0 : 0x3f80_0000 + random.below(0x80_0000),
    );
    const options = { block: [32, 1, 1], words: 36, input } as const;
    const alone = runThreads(body((index) => `L${index}:`), options);
    assertEquals(runThreads(body(() => ""), options), alone, products.join("\n"));
  }
});

test("registers that products only add to keep their values between other uses", () => {
  const random = new Random(13);
  const list = (first: number) => `{${upTo(4, (index) => `%q${first + index}`).join(", ")}}`;
  const multiply = (d: string) =>
    `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ${d}, {%w0, %w1, %w2, %w3}, {%w4, %w5}, ${d};`;
  const any = () => `%q${random.below(16)}`;
  const steps = [
    () => multiply(list(4 * random.below(4))),
    () => `${multiply(list(4 * random.below(4)))} ${multiply(list(4 * random.below(4)))}`,
    () => `mul.f32 ${any()}, ${any()}, 0f3f000000;`,
    () => `@%p1 mov.f32 ${any()}, ${any()};`,
    () => `@%p1 bra MEET; mov.f32 ${any()}, 0f00000000; MEET:`,
    () => `st.global.f32 [%rd2+${64 + 4 * random.below(16)}], ${any()};`,
    () => "bar.sync 0;",
    () => "mov.b32 %r4, %w0; shfl.sync.bfly.b32 %w0, %w1, 3, 31, -1; mov.b32 %w1, %r4;",
  ];
  for (let round = 0; round < (isLong ? 40 : 3); round++) {
    const loop = upTo(3 + random.below(12), (index) => {
      return steps[random.below(steps.length)]!().replaceAll("MEET", `MEET${index}`);
    });
    const body = (after: string) => `
  .reg .b32 %w<6>; .reg .f32 %q<16>;
  mul.wide.u32 %rd3, %r0, 88; add.u64 %rd1, %rd1, %rd3;
  ${upTo(6, (index) => `ld.global.b32 %w${index}, [%rd1+${4 * index}];`).join(" ")}
  ${upTo(16, (index) => `ld.global.f32 %q${index}, [%rd1+${4 * (6 + index)}];`).join(" ")}
  and.b32 %r3, %r0, 5; setp.eq.u32 %p1, %r3, 1;
  mov.u32 %r5, 0;
LOOP:
  ${loop.join("\n  ")}
  add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra LOOP;
  ${after}
  ${upTo(16, (index) => `st.global.f32 [%rd2+${4 * index}], %q${index};`).join("\n")}`;
    const input = upTo(64 * 22, (index) => index % 22 < 6 ? half(random) >>> 0 : 0x3f80_0000 + random.below(0x80_0000));
    const options = { block: [64, 1, 1], words: 32, input } as const;
    // A product whose registers are of several fragments, which is never executed.
    const others = `setp.eq.u32 %p3, %r5, 0; @!%p3 bra END; ${multiply("{%q0, %q4, %q8, %q12}")} END:`;
    assertEquals(runThreads(body(""), options), runThreads(body(others), options), loop.join("\n"));
  }
});

test("operands that are loaded together with their product give what those of registers give", () => {
  const random = new Random(11);
  const list = (name: string, first: number, count: number) =>
    `{${upTo(count, (index) => `%${name}${first + index}`).join(", ")}}`;
  for (let round = 0; round < (isLong ? 30 : 4); round++) {
    const format = ["f16", "bf16"][random.below(2)]!;
    // Random bits, among them infinities and NaNs in some rounds, and some zeros.
    const mask = round % 2 === 0 ? 0xbfff_bfff : 0xffff_ffff;
    const input = upTo(32 * 16, () => random.below(5) === 0 ? 0 : (random.next() & mask) >>> 0);
    const trans = () => random.below(2) === 0 ? ".trans" : "";
    const row = () => `[%r${4 + random.below(4)}]`;
    const load = (count: number) => `ldmatrix.sync.aligned.m8n8.x${count}${trans()}.shared.b16`;
    const steps = upTo(6, (step) => {
      const [a, b] = [8 * step, 4 * step];
      const first = random.below(2) * 2;
      const d = list("q", 4 * random.below(3), 4);
      const isShort = random.below(3) === 0 && format === "f16";
      return [
        `${load(4)} ${list("a", a, 4)}, ${row()};`,
        `${load(4)} ${list("b", b, 4)}, ${row()};`,
        isShort
          ? `mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 ${d}, ${list("a", a + first, 2)}, {%b${b + first}}, ${d};`
          : `mma.sync.aligned.m16n8k16.row.col.f32.${format}.${format}.f32 ${d}, ${list("a", a, 4)}, ${
            list("b", b + first, 2)
          }, ${d};`,
      ];
    }).flat();
    // The registers of a load are also used otherwise.
    const used = random.below(6);
    const body = (separator: (index: number) => string) => `
  .reg .b32 %a<48>; .reg .b32 %b<24>; .reg .f32 %q<12>; .shared .align 16 .b8 s[2048];
  mul.wide.u32 %rd3, %r0, 64; add.u64 %rd1, %rd1, %rd3;
  mov.u32 %r1, s; shl.b32 %r2, %r0, 6; add.u32 %r2, %r2, %r1;
  ${upTo(16, (index) => `ld.global.b32 %r3, [%rd1+${4 * index}]; st.shared.b32 [%r2+${4 * index}], %r3;`).join("\n")}
  bar.sync 0;
  ${
      upTo(4, (index) =>
        `mul.lo.u32 %r3, %r0, ${16 * (5 + 2 * index)}; and.b32 %r3, %r3, 0x7f0; add.u32 %r${4 + index}, %r1, %r3;`)
        .join("\n")
    }
  ${
      upTo(12, (index) => `mov.f32 %q${index}, 0f${(index === 5 ? 0x7f80_0000 : 0x3f80_0000 + index).toString(16)};`)
        .join(" ")
    }
  ${steps.map((text, index) => `${separator(index)} ${text}`).join("\n")}
  ${upTo(12, (index) => `st.global.f32 [%rd2+${4 * index}], %q${index};`).join("\n")}
  ${upTo(4, (index) => `st.global.b32 [%rd2+${48 + 4 * index}], %a${8 * used + index};`).join("\n")}`;
    const options = { block: [32, 1, 1], words: 16, input } as const;
    const alone = runThreads(body((index) => `L${index}:`), options);
    assertEquals(runThreads(body(() => ""), options), alone, steps.join("\n"));
  }
});

test("threads wait once for products that follow one another", () => {
  const accumulators = (number: number) => `{${upTo(4, (index) => `%q${4 * number + index}`).join(", ")}}`;
  const body = `
  .reg .b32 %w<12>; .reg .f32 %q<32>;
  ${
    upTo(8, (number) =>
      `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 ${accumulators(number)},
    {%w0, %w1, %w2, %w3}, {%w4, %w5}, ${accumulators(number)}; mov.b32 %w11, %w10;`).join("\n")
  }
  ${upTo(32, (index) => `st.global.f32 [%rd2], %q${index};`).join("\n")}`;
  const { suspensions } = compilePtx(threadsModule(body)).kernels.get("test")!;
  assertEquals(suspensions!.filter(({ request }) => request.kind === "matrixProduct").length, 1);
});

test("threads do not wait between loads of fragments and a product, nor between it and stores", () => {
  const fragment = (name: string, count: number) => `{${upTo(count, (index) => `%${name}${index}`).join(", ")}}`;
  const body = (between: string) => `
  .reg .b32 %w<16>; .reg .b32 %v<16>; .reg .f32 %q<8>;
  wmma.load.a.sync.aligned.row.m16n16k16.global.f16 ${fragment("w", 8)}, [%rd1];
  wmma.load.b.sync.aligned.col.m16n16k16.global.f16 ${fragment("v", 8)}, [%rd1];
  wmma.load.c.sync.aligned.row.m16n16k16.global.f32 ${fragment("q", 8)}, [%rd1];
  ${between}
  wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 ${fragment("q", 8)}, ${fragment("w", 8)}, ${fragment("v", 8)}, ${
    fragment("q", 8)
  };
  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd0], ${fragment("q", 8)};
  ${between}
  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd0+1024], ${fragment("q", 8)};`;
  const waits = (between: string) =>
    compilePtx(threadsModule(body(between))).kernels.get("test")!.suspensions!.filter(({ request }) =>
      request.kind === "warpBarrier"
    ).length;
  assertEquals(waits(""), 0);
  // Another thread may write what has been loaded, or read what will be stored.
  assertEquals(waits("st.global.u32 [%rd1], 1; ld.global.u32 %r3, [%rd0+1024];"), 2);
});
