import { kernelOf, type KernelShape, module, repeated } from "./kernel_text.ts";

const shared = (bytes: number) => [`.shared .align 16 .b8 tile[${bytes}];`];
const sharedOfThread = ["mov.u32 %r8, tile;", "mov.u32 %r7, %tid.x;", "shl.b32 %r7, %r7, 2;", "add.s32 %r9, %r8, %r7;"];

/** Shapes on which the analysis of accesses, masked loops and runs of 64-bit arithmetic spend their time. */
export const analysisShapes: readonly KernelShape[] = [
  {
    name: "shared memory, constant offsets",
    write: (lines) =>
      repeated(lines, {
        each: 2,
        functions: shared(8192),
        write: (part) => [
          ...part === 0 ? sharedOfThread : [],
          `st.shared.u32 [%r9+${4 * (part % 1024)}], %r6;`,
          `ld.shared.u32 %r${part + 10}, [%r9+${4 * (part * 7 % 1024)}];`,
        ],
      }),
  },
  {
    name: "shared memory, unrelated addresses",
    // No two addresses are sums of the same registers.
    write: (lines) =>
      repeated(lines, {
        each: 4,
        functions: shared(8192),
        write: (part) => [
          ...part === 0 ? sharedOfThread : [],
          `mul.lo.s32 %r${4 * part + 10}, %r6, ${part + 3};`,
          `add.s32 %r${4 * part + 11}, %r9, %r${4 * part + 10};`,
          `st.shared.u32 [%r${4 * part + 11}], %r6;`,
          `ld.shared.u32 %r${4 * part + 12}, [%r${4 * part + 11}+4];`,
        ],
      }),
  },
  {
    name: "reads of many variables",
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 3));
      return repeated(2 * count, {
        each: 2,
        functions: Array.from({ length: count }, (_, part) => `.global .align 4 .u32 v${part};`),
        write: (part) => [
          `ld.global.u32 %r${part + 10}, [v${part}];`,
          `st.global.u32 [v${part * 7 % count}], %r${part + 10};`,
        ],
      });
    },
  },
  {
    name: "sums as addresses",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `ld.global.u32 %r${part + 10}, [%rd${part < 1 ? 1 : part + 2009}];`,
          `mul.wide.u32 %rd${part + 40000}, %r${part + 10}, 4;`,
          `add.s64 %rd${part + 2010}, %rd${part < 1 ? 1 : part + 2009}, %rd${part + 40000};`,
          `st.global.u32 [%rd${part + 2010}], %r${part + 10};`,
        ],
      }),
  },
  {
    name: "addresses behind long sums",
    // Sums of all registers before them. The last ones are used, from the last to the first.
    write: (lines) => {
      const count = Math.max(1, Math.round((lines - 50) / 2));
      const body = ["mov.u64 %rd10, %rd1;", "mov.u64 %rd40000, %rd3;"];
      for (let part = 0; part < count; part++) {
        body.push(
          `add.s64 %rd${part + 40001}, %rd${part + 40000}, %rd${Math.max(40000, part + 39999)};`,
          `add.s64 %rd${part + 11}, %rd${part + 10}, %rd${part + 40001};`,
        );
      }
      for (let part = count; part > Math.max(0, count - 50); part--) body.push(`st.global.u32 [%rd${part + 10}], %r6;`);
      return module(kernelOf(body));
    },
  },
  {
    name: "branches around accesses",
    write: (lines) =>
      repeated(lines, {
        each: 8,
        functions: shared(8192),
        write: (part) => [
          ...part === 0 ? sharedOfThread : [],
          `ld.shared.u32 %r${part + 10}, [%r9+${4 * (part % 1024)}];`,
          `setp.lt.s32 %p${part + 10}, %r${part + 10}, ${part};`,
          `@%p${part + 10} bra L${part};`,
          `st.shared.u32 [%r9+${4 * (part * 3 % 1024)}], %r6;`,
          `bra M${part};`,
          `L${part}:`,
          `st.shared.u32 [%r8+${4 * (part * 5 % 1024)}], %r6;`,
          `M${part}:`,
        ],
      }),
  },
  {
    name: "nested branches around accesses",
    // Nests of 32 branches with accesses on both sides.
    write: (lines) =>
      repeated(lines, {
        each: 32 * 7,
        functions: shared(8192),
        write: (part) => {
          const all = Array.from({ length: 32 }, (_, depth) => 32 * part + depth);
          return [
            ...part === 0 ? sharedOfThread : [],
            ...all.flatMap((each) => [
              `setp.lt.s32 %p${each + 10}, %r6, ${each};`,
              `@%p${each + 10} bra L${each};`,
              `st.shared.u32 [%r9+${4 * (each % 1024)}], %r6;`,
            ]),
            ...all.toReversed().flatMap((each) => [
              `bra M${each};`,
              `L${each}:`,
              `ld.shared.u32 %r${each + 10}, [%r9+${4 * (each * 5 % 1024)}];`,
              `M${each}:`,
            ]),
          ];
        },
      }),
  },
  {
    name: "joins of two ways",
    // Two rows of blocks, each leading to both next ones, so that every block is reached in all ways.
    write: (lines) =>
      repeated(lines, {
        each: 8,
        functions: shared(8192),
        write: (part, parts) => [
          ...part === 0 ? sharedOfThread : [],
          `A${part}:`,
          `st.shared.u32 [%r9+${4 * (part % 1024)}], %r6;`,
          `@%p${part % 5 + 2} bra A${part + 1};`,
          `bra B${part + 1};`,
          `B${part}:`,
          `ld.shared.u32 %r${part + 10}, [%r9+${4 * (part * 3 % 1024)}];`,
          `@%p${part % 5 + 3} bra B${part + 1};`,
          `bra A${part + 1};`,
          ...part === parts - 1 ? [`A${parts}:`, `B${parts}:`] : [],
        ],
      }),
  },
  {
    name: "exchanges of lanes",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        functions: shared(8192),
        write: (part) => [
          ...part === 0 ? sharedOfThread : [],
          `st.shared.u32 [%r9], %r${part < 1 ? 6 : 2 * part + 9};`,
          `ld.shared.u32 %r${2 * part + 10}, [%r9+4];`,
          `add.s32 %r${2 * part + 11}, %r${2 * part + 10}, %r6;`,
          `xor.b32 %r6, %r6, %r${2 * part + 11};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "divergent loops",
    write: (lines) =>
      repeated(lines, {
        each: 8,
        write: (part) => [
          `cvt.rn.f32.u32 %f${2 * part + 10}, %r6;`,
          `L${part}:`,
          `fma.rn.f32 %f${2 * part + 10}, %f${2 * part + 10}, %f${2 * part + 10}, 0f3F000000;`,
          `mul.f32 %f${2 * part + 11}, %f${2 * part + 10}, 0f3F000000;`,
          `add.s32 %r6, %r6, 3;`,
          `xor.b32 %r6, %r6, ${part};`,
          `setp.lt.f32 %p${part + 10}, %f${2 * part + 11}, 0f41200000;`,
          `@%p${part + 10} bra L${part};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "64-bit arithmetic",
    write: (lines) =>
      repeated(lines, {
        each: 3,
        write: (part) => [
          ...part === 0 ? ["cvt.rn.f64.u32 %fd10, %r6;"] : [],
          `fma.rn.f64 %fd${3 * part + 11}, %fd${3 * part + 10}, %fd10, 0d3FF0000000000000;`,
          `mul.f64 %fd${3 * part + 12}, %fd${3 * part + 11}, %fd${Math.max(10, 3 * part - 20)};`,
          `add.f64 %fd${3 * part + 13}, %fd${3 * part + 12}, %fd10;`,
          ...part % 8 === 7 ? [`st.global.f64 [%rd2+${8 * part}], %fd${3 * part + 13};`] : [],
        ],
      }),
  },
  {
    name: "elements of arrays",
    write: (lines) =>
      repeated(lines, {
        each: 2,
        functions: [".shared .align 16 .u32 numbers[4096];"],
        write: (part) => [
          `ld.shared.u32 %r${part + 10}, [numbers+${4 * (part % 4096)}];`,
          `st.shared.u32 [numbers+${4 * (part * 3 % 4096)}], %r${part + 10};`,
        ],
      }),
  },
  {
    name: "calls with accesses",
    // A chain of functions. Each accesses memory only in the last one.
    write: (lines) => {
      const count = Math.max(2, Math.round(lines / 8));
      const functions = Array.from({ length: count }, (_, part) =>
        `.func called${part}(.param .b64 x) {
.reg .b64 %rd<2>;
.reg .b32 %r<2>;
ld.param.b64 %rd1, [x];
${part === 0 ? "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1+4], %r1;" : "add.s64 %rd1, %rd1, 0;"}
ret;
}`);
      return repeated(count, {
        each: 1,
        functions,
        write: (part) => [
          "{",
          ".param .b64 x;",
          "st.param.b64 [x], %rd1;",
          `call called${part % 16}, (x);`,
          "}",
        ],
      });
    },
  },
  {
    name: "chains of functions",
    write: (lines) => {
      const count = Math.max(2, Math.round(lines / 9));
      const functions = Array.from({ length: count }, (_, index) => {
        const next = index;
        return `.func chained${index}(.param .b64 x) {
.reg .b64 %rd<2>;
.reg .b32 %r<2>;
ld.param.b64 %rd1, [x];
${
          index === 0
            ? "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1+4], %r1;"
            : `{\n.param .b64 y;\nst.param.b64 [y], %rd1;\ncall chained${next - 1}, (y);\n}`
        }
ret;
}`;
      });
      return module([
        ...functions,
        kernelOf(["{", ".param .b64 y;", "st.param.b64 [y], %rd1;", `call chained${count - 1}, (y);`, "}"]),
      ].join("\n"));
    },
  },
];
