/**
 * PTX of any length, in shapes on which compilers spend time in different stages.
 *
 * @module
 */
import { analysisShapes } from "./analysis_shapes.ts";
import { header, kernelOf, type KernelShape, repeated } from "./kernel_text.ts";

/** Shapes on which stages common to all kernels spend their time. */
const plainShapes: readonly KernelShape[] = [
  {
    name: "straight-line code",
    write: (lines) =>
      repeated(lines, {
        each: 2,
        write: (part) => [
          `add.s32 %r${2 * part + 10}, %r${part < 1 ? 6 : 2 * part + 9}, %r1;`,
          `xor.b32 %r${2 * part + 11}, %r${2 * part + 10}, %r${part < 20 ? 1 : 2 * part - 20};`,
        ],
        last: (parts) => `%r${2 * parts + 9}`,
      }),
  },
  {
    name: "unrolled hash",
    write: (lines) =>
      repeated(lines, {
        each: 8,
        // As nvcc writes it: every result in a register of its own.
        write: (part) => {
          const r = (index: number) => `%r${8 * part + 100 + index}`;
          const before = (index: number, parts: number) =>
            part < parts ? "%r6" : `%r${8 * (part - parts) + 100 + index}`;
          return [
            `shf.l.wrap.b32 ${r(0)}, ${before(7, 1)}, ${before(7, 1)}, 26;`,
            `shf.l.wrap.b32 ${r(1)}, ${before(7, 1)}, ${before(7, 1)}, 21;`,
            `xor.b32 ${r(2)}, ${r(0)}, ${r(1)};`,
            `lop3.b32 ${r(3)}, ${before(7, 1)}, ${before(7, 2)}, ${before(7, 3)}, 0xCA;`,
            `add.s32 ${r(4)}, ${r(2)}, ${r(3)};`,
            `add.s32 ${r(5)}, ${r(4)}, ${before(7, 16)};`,
            `add.s32 ${r(6)}, ${r(5)}, ${1000 + part};`,
            `add.s32 ${r(7)}, ${r(6)}, ${before(6, 4)};`,
          ];
        },
        last: (parts) => `%r${8 * parts + 99}`,
      }),
  },
  {
    name: "loads and stores",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s64 %rd${part + 10}, ${part % 16 === 0 ? "%rd2" : `%rd${part + 9}`}, 4;`,
          `ld.global.f32 %f${2 * part + 10}, [%rd${part + 10}];`,
          `fma.rn.f32 %f${2 * part + 11}, %f${2 * part + 10}, %f${part < 1 ? 10 : 2 * part + 9}, 0f3F800000;`,
          `st.global.f32 [%rd${part + 10}], %f${2 * part + 11};`,
        ],
      }),
  },
  {
    name: "branches of one value",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `setp.eq.s32 %p${part + 10}, %r2, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r${part < 1 ? 6 : 6}, ${part};`,
          `add.s32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "divergent branches",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `setp.eq.s32 %p${part + 10}, %r6, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r6, ${part};`,
          `xor.b32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "ladders of conditions",
    // Each condition leaves for the end, with registers that live until there.
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s32 %r${part + 10}, %r${part < 1 ? 6 : part + 9}, 7;`,
          `setp.eq.s32 %p${part + 10}, %r${part + 10}, ${part};`,
          `@%p${part + 10} bra DONE;`,
          `add.s32 %r6, %r6, %r${Math.max(10, part - 30)};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "successive loops",
    write: (lines) =>
      repeated(lines, {
        each: 6,
        write: (part) => [
          `mov.u32 %r${part + 10}, 0;`,
          `L${part}:`,
          `add.s32 %r6, %r6, %r${part + 10};`,
          `add.s32 %r${part + 10}, %r${part + 10}, 1;`,
          `setp.lt.s32 %p${part + 10}, %r${part + 10}, %r2;`,
          `@%p${part + 10} bra L${part};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "nested loops",
    // Nests of 16 loops, one behind the other.
    write: (lines) =>
      repeated(lines, {
        each: 16 * 6,
        write: (part) => {
          const loops = Array.from({ length: 16 }, (_, depth) => 16 * part + depth);
          return [
            ...loops.flatMap((loop) => [
              `mov.u32 %r${loop + 10}, 0;`,
              `L${loop}:`,
              `add.s32 %r6, %r6, %r${loop + 10};`,
            ]),
            ...loops.toReversed().flatMap((loop) => [
              `add.s32 %r${loop + 10}, %r${loop + 10}, 1;`,
              `setp.lt.s32 %p${loop + 10}, %r${loop + 10}, %r2;`,
              `@%p${loop + 10} bra L${loop};`,
            ]),
          ];
        },
        last: () => "%r6",
      }),
  },
  {
    name: "one loop around branches",
    write: (lines) => {
      const { ptx, kernel } = repeated(lines, {
        each: 5,
        write: (part) => [
          ...part === 0 ? ["LOOP:"] : [],
          `setp.eq.s32 %p${part + 10}, %r2, ${part + 2};`,
          `@%p${part + 10} bra L${part};`,
          `add.s32 %r${part + 10}, %r6, ${part};`,
          `xor.b32 %r6, %r6, %r${part + 10};`,
          `L${part}:`,
        ],
        last: () => "%r6",
      });
      return {
        ptx: ptx.replace(
          "st.global.u32 [%rd1], %r6;",
          "setp.ne.s32 %p5, %r2, 1;\n@%p5 bra LOOP;\nst.global.u32 [%rd1], %r6;",
        ),
        kernel,
      };
    },
  },
  {
    name: "barriers",
    write: (lines) =>
      repeated(lines, {
        each: 5,
        write: (part) => [
          `add.s32 %r${3 * part + 10}, %r${part < 1 ? 6 : 3 * part + 9}, %r1;`,
          `xor.b32 %r${3 * part + 11}, %r${3 * part + 10}, %r${part < 20 ? 1 : 3 * part - 20};`,
          "bar.sync 0;",
          `add.s32 %r${3 * part + 12}, %r${3 * part + 11}, %r${3 * part + 10};`,
          `add.s32 %r6, %r6, %r${3 * part + 12};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "shuffles",
    write: (lines) =>
      repeated(lines, {
        each: 4,
        write: (part) => [
          `add.s32 %r${3 * part + 10}, %r${part < 1 ? 6 : 3 * part + 9}, %r1;`,
          `shfl.sync.bfly.b32 %r${3 * part + 11}, %r${3 * part + 10}, 1, 31, -1;`,
          `add.s32 %r${3 * part + 12}, %r${3 * part + 11}, %r${3 * part + 10};`,
          `add.s32 %r6, %r6, %r${3 * part + 12};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "calls of one function",
    write: (lines) =>
      repeated(lines, {
        each: 7,
        functions: [callee("callee")],
        write: (part) => callOf("callee", part),
        last: () => "%r6",
      }),
  },
  {
    name: "many functions",
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 17));
      return repeated(count * 7, {
        each: 7,
        functions: Array.from({ length: count }, (_, part) => callee(`callee${part}`)),
        write: (part) => callOf(`callee${part}`, part),
        last: () => "%r6",
      });
    },
  },
  {
    name: "many kernels",
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 25));
      const kernels = Array.from(
        { length: count },
        (_, index) =>
          kernelOf(["add.s32 %r6, %r6, 1;", "mul.lo.s32 %r7, %r6, %r6;"], { name: `shape${index}`, last: "%r7" }),
      );
      return { ptx: header + kernels.join("\n"), kernel: `shape${count - 1}` };
    },
  },
  {
    name: "one switch",
    write: (lines) => {
      const count = Math.max(2, Math.round(lines / 4));
      const labels = Array.from({ length: count }, (_, index) => `L${index}`);
      return {
        ptx: header + kernelOf([
          `TABLE: .branchtargets ${labels.join(",\n")};`,
          "brx.idx %r2, TABLE;",
          ...labels.flatMap((label, index) => [`${label}:`, `add.s32 %r6, %r6, ${index};`, "bra JOIN;"]),
          "JOIN:",
        ], { last: "%r6" }),
        kernel: "shape",
      };
    },
  },
  {
    name: "chains of predicates",
    write: (lines) =>
      repeated(lines, {
        each: 3,
        write: (part) => [
          `setp.lt.and.s32 %p${part + 10}, %r6, ${part}, %p${part < 1 ? 1 : part + 9};`,
          `@%p${part + 10} add.s32 %r${part + 10}, %r6, 3;`,
          `selp.b32 %r6, %r6, %r${part + 10}, %p${part + 10};`,
        ],
        last: () => "%r6",
      }),
  },
  {
    name: "backward dependences",
    // Blocks in the text stand in the reverse order of execution, so that facts travel against the text.
    write: (lines) => {
      const count = Math.max(1, Math.round(lines / 4));
      const body = ["bra L0;"];
      for (let part = count - 1; part >= 0; part--) {
        body.push(
          `L${part}:`,
          `add.s32 %r${part + 11}, %r${part < 1 ? 6 : part + 10}, %r2;`,
          `add.f32 %f${part + 11}, %f${part < 1 ? 6 : part + 10}, 0f3F800000;`,
          `bra ${part === count - 1 ? "JOIN" : `L${part + 1}`};`,
        );
      }
      return { ptx: header + kernelOf([...body, "JOIN:"], { last: `%r${count + 10}` }), kernel: "shape" };
    },
  },
];

function callee(name: string): string {
  return `.func (.param .b32 result) ${name}(.param .b32 x) {
.reg .b32 %r<4>;
.reg .pred %p<2>;
ld.param.u32 %r1, [x];
add.s32 %r2, %r1, 1;
st.param.b32 [result], %r2;
ret;
}`;
}

function callOf(name: string, part: number): string[] {
  return [
    "{",
    ".param .b32 x;",
    ".param .b32 y;",
    `st.param.b32 [x], %r6;`,
    `call (y), ${name}, (x);`,
    `ld.param.b32 %r${part + 10}, [y];`,
    `add.s32 %r6, %r6, %r${part + 10};`,
    "}",
  ];
}

/** All shapes, in the order of the table. */
export const kernelShapes: readonly KernelShape[] = [...plainShapes, ...analysisShapes];
