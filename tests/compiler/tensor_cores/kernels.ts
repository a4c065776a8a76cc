/**
 * Kernels in the style of CUTLASS and FlashAttention: a product of large matrices with double-buffered tiles in shared
 * memory, and attention in one pass.
 *
 * @module
 */
import { element, type Random } from "./inputs.ts";

/** The type of a large product's elements. */
export type ProductType = "f16" | "bf16" | "tf32" | "e4m3" | "s8";

/** How elements are multiplied. */
export interface LargeProduct {
  /** The size of an element. */
  readonly bytes: 1 | 2 | 4;
  readonly instruction: string;
  /** The type of the registers with results. */
  readonly result: "f32" | "b32";
}

/** The elements of a large product, and the instruction that multiplies 32 bytes of each row. */
export const productTypes: Readonly<Record<ProductType, LargeProduct>> = {
  f16: { bytes: 2, instruction: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", result: "f32" },
  bf16: { bytes: 2, instruction: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", result: "f32" },
  tf32: { bytes: 4, instruction: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", result: "f32" },
  e4m3: { bytes: 1, instruction: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", result: "f32" },
  s8: { bytes: 1, instruction: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", result: "b32" },
};

/** Random elements of a type: numbers from -4 to 4, or any integers. */
export function randomElements(
  random: Random,
  type: ProductType,
  count: number,
): Uint8Array | Uint16Array | Uint32Array {
  const { bytes } = productTypes[type];
  const array = bytes === 1 ? new Uint8Array(count) : bytes === 2 ? new Uint16Array(count) : new Uint32Array(count);
  for (let index = 0; index < count; index++) {
    array[index] = type === "s8" ? random.below(256) : element(random, "small", type);
  }
  return array;
}

const upTo = <T>(count: number, valueOf: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => valueOf(i));
const header = ".version 8.4\n.target sm_90\n.address_size 64\n";

/**
 * The PTX of the kernel `multiply(c, a, b, n, rowBytes)`: C = A * B', where a row of A and of B has `rowBytes` bytes, a
 * multiple of 64. A block of 128 threads computes 64 x 64 elements; the grid has a block for each of them, x along N.
 */
export function multiplyKernel(type: ProductType): string {
  const { instruction, result } = productTypes[type];
  const acc = (row: number, column: number) => `{${upTo(4, (i) => `%acc${(row * 4 + column) * 4 + i}`).join(", ")}}`;
  /** Copies a tile of 64 rows of 64 bytes of A and of B to a stage of shared memory. */
  const copy = (stage: string) => `
  add.u32 %r20, %r10, ${stage};
  cp.async.cg.shared.global [%r20], [%rd10], 16;
  cp.async.cg.shared.global [%r20+2048], [%rd11], 16;
  cp.async.cg.shared.global [%r20+4096], [%rd12], 16;
  cp.async.cg.shared.global [%r20+6144], [%rd13], 16;
  cp.async.commit_group;
  ${upTo(4, (i) => `add.u64 %rd${10 + i}, %rd${10 + i}, 64;`).join(" ")}`;
  /** The products of 32 bytes of each row: loads of 16 bytes of each row of A and B, and eight instructions. */
  const step = (step: number) => {
    const list = (name: string, first: number, count: number) =>
      `{${upTo(count, (i) => `%${name}${8 * step + first + i}`).join(", ")}}`;
    const [a, b] = [`%r${40 + 2 * step}`, `%r${41 + 2 * step}`];
    return `
  xor.b32 ${a}, %r13, ${32 * step};
  add.u32 ${a}, ${a}, %r12;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${list("a", 0, 4)}, [${a}];
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${list("a", 4, 4)}, [${a}+1024];
  xor.b32 ${b}, %r15, ${32 * step};
  add.u32 ${b}, ${b}, %r14;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${list("b", 0, 4)}, [${b}+4096];
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${list("b", 4, 4)}, [${b}+5120];
  ${
      upTo(2, (row) =>
        upTo(4, (column) => {
          const c = acc(row, column);
          return `${instruction} ${c}, ${list("a", 4 * row, 4)}, ${list("b", 2 * column, 2)}, ${c};`;
        }).join("\n  ")).join("\n  ")
    }`;
  };
  return `${header}
.visible .entry multiply(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n, .param .u32 rowBytes) {
  .reg .b32 %r<44>; .reg .b64 %rd<20>; .reg .pred %p<4>;
  .reg .b32 %a<16>; .reg .b32 %b<16>; .reg .${result} %acc<32>;
  .shared .align 128 .b8 tiles[16384];
  ld.param.u64 %rd0, [c]; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
  ld.param.u32 %r0, [n]; ld.param.u32 %r1, [rowBytes];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
  // Each thread copies 16 bytes of rows r and r + 32 of A and B; chunks are permuted so that ldmatrix has no conflicts.
  shr.u32 %r5, %r2, 2; and.b32 %r6, %r2, 3;
  shl.b32 %r7, %r4, 6; add.u32 %r7, %r7, %r5;
  mul.wide.u32 %rd3, %r7, %r1; add.u64 %rd10, %rd1, %rd3;
  mul.wide.u32 %rd4, %r6, 16; add.u64 %rd10, %rd10, %rd4;
  mul.wide.u32 %rd5, %r1, 32; add.u64 %rd11, %rd10, %rd5;
  shl.b32 %r7, %r3, 6; add.u32 %r7, %r7, %r5;
  mul.wide.u32 %rd3, %r7, %r1; add.u64 %rd12, %rd2, %rd3;
  add.u64 %rd12, %rd12, %rd4; add.u64 %rd13, %rd12, %rd5;
  mov.u32 %r9, tiles;
  shr.u32 %r8, %r5, 1; and.b32 %r8, %r8, 3; xor.b32 %r8, %r8, %r6;
  shl.b32 %r8, %r8, 4; shl.b32 %r10, %r5, 6; add.u32 %r10, %r10, %r8; add.u32 %r10, %r10, %r9;
  // The rows that the thread names for ldmatrix: of A, 32 rows for each warp; of B, 32 for each pair of warps.
  shr.u32 %r16, %r2, 5; and.b32 %r17, %r2, 31;
  and.b32 %r18, %r16, 1; shl.b32 %r18, %r18, 5; and.b32 %r19, %r17, 15; add.u32 %r18, %r18, %r19;
  shl.b32 %r12, %r18, 6; add.u32 %r12, %r12, %r9;
  shr.u32 %r13, %r18, 1; and.b32 %r13, %r13, 3; shr.u32 %r19, %r17, 4; xor.b32 %r13, %r13, %r19; shl.b32 %r13, %r13, 4;
  shr.u32 %r19, %r16, 1; shl.b32 %r19, %r19, 5; and.b32 %r23, %r17, 7; add.u32 %r19, %r19, %r23;
  shr.u32 %r23, %r17, 4; shl.b32 %r23, %r23, 3; add.u32 %r19, %r19, %r23;
  shl.b32 %r14, %r19, 6; add.u32 %r14, %r14, %r9;
  shr.u32 %r15, %r19, 1; and.b32 %r15, %r15, 3; shr.u32 %r23, %r17, 3; and.b32 %r23, %r23, 1;
  xor.b32 %r15, %r15, %r23; shl.b32 %r15, %r15, 4;
  ${
    upTo(32, (i) => `mov.b32 %acc${i}, 0;`).join(" ").replaceAll("mov.b32", result === "f32" ? "mov.f32" : "mov.b32")
      .replaceAll(", 0;", result === "f32" ? ", 0f00000000;" : ", 0;")
  }
  shr.u32 %r24, %r1, 6;
  mov.u32 %r25, 0;
  ${copy("0")}
  mov.u32 %r26, 8192;
LOOP:
  add.u32 %r25, %r25, 1;
  setp.lt.u32 %p1, %r25, %r24;
  @!%p1 bra LAST;
  ${copy("%r26")}
  cp.async.wait_group 1;
  bra.uni READY;
LAST:
  cp.async.wait_all;
READY:
  bar.sync 0;
  ${step(0)}
  ${step(1)}
  bar.sync 0;
  // The other stage.
  sub.u32 %r26, 8192, %r26;
  mov.u32 %r29, tiles;
  sub.u32 %r12, %r12, %r29; xor.b32 %r12, %r12, 8192; add.u32 %r12, %r12, %r29;
  sub.u32 %r14, %r14, %r29; xor.b32 %r14, %r14, 8192; add.u32 %r14, %r14, %r29;
  @%p1 bra LOOP;
  // Row g and g + 8 of each 16, and two columns of each 8.
  shr.u32 %r30, %r17, 2; and.b32 %r31, %r17, 3;
  and.b32 %r32, %r16, 1; shl.b32 %r32, %r32, 5; add.u32 %r32, %r32, %r30; shl.b32 %r33, %r4, 6; add.u32 %r32, %r32, %r33;
  shr.u32 %r34, %r16, 1; shl.b32 %r34, %r34, 5; shl.b32 %r35, %r31, 1; add.u32 %r34, %r34, %r35;
  shl.b32 %r36, %r3, 6; add.u32 %r34, %r34, %r36;
  mad.lo.u32 %r37, %r32, %r0, %r34;
  mul.wide.u32 %rd14, %r37, 4; add.u64 %rd14, %rd0, %rd14;
  mul.wide.u32 %rd15, %r0, 32;
  ${
    upTo(4, (eight) =>
      `${eight === 0 ? "" : "add.u64 %rd14, %rd14, %rd15;"}
  ${
        upTo(4, (column) => {
          const first = ((eight >> 1) * 4 + column) * 4 + 2 * (eight % 2);
          return `st.global.${result} [%rd14+${32 * column}], %acc${first}; st.global.${result} [%rd14+${
            32 * column + 4
          }], %acc${first + 1};`;
        }).join("\n  ")
      }`).join("\n  ")
  }
  ret;
}
`;
}

/**
 * The PTX of the kernel `attend(o, q, k, v, keys)`: for each of 64 queries of a block of 128 threads, the average of the
 * values weighted by the softmax of the products of query and key, divided by 8. Queries, keys and values have 64
 * elements of f16, and the results are f32. `keys` is a multiple of 32.
 * Unless it `approximates`, weights are powers by a polynomial, with the same bits on each device.
 */
export function attentionKernel({ approximates = true }: { approximates?: boolean } = {}): string {
  const list = (name: string, first: number, count: number) =>
    `{${upTo(count, (i) => `%${name}${first + i}`).join(", ")}}`;
  const mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
  const scale = "0f3E38AA3B"; // log2(e) / 8
  const scores = upTo(4, (step) =>
    upTo(2, (pair) => `
  xor.b32 %r20, %r12, ${32 * step};
  add.u32 %r20, %r20, %r11;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${list("b", 4 * pair, 4)}, [%r20+${2048 * pair}];`).join("") +
    upTo(4, (group) => `
  ${mma} ${list("s", 4 * group, 4)}, ${list("q", 4 * step, 4)}, ${list("b", 2 * group, 2)}, ${
      list("s", 4 * group, 4)
    };`)
      .join("")).join("");
  const reduce = (operation: string, row: number) => `
  ${
    upTo(7, (i) =>
      `${operation}.f32 %m${2 + row}, ${i === 0 ? `%s${2 * row}` : `%m${2 + row}`}, %s${
        4 * ((i + 1) >> 1) + 2 * row + (i + 1) % 2
      };`).join("\n  ")
  }
  ${
    [1, 2].map((lane) =>
      `mov.b32 %r21, %m${
        2 + row
      }; shfl.sync.bfly.b32 %r22, %r21, ${lane}, 31, 0xffffffff; mov.b32 %f0, %r22; ${operation}.f32 %m${2 + row}, %m${
        2 + row
      }, %f0;`
    ).join("\n  ")
  }`;
  // A polynomial of the fraction, scaled by the integer's power of 2; of at most 0.
  const coefficients = ["3AAF844B", "3C1E5FB6", "3D6357B6", "3E75FD25", "3F317218"];
  const exponential = (x: string) =>
    approximates ? `ex2.approx.f32 ${x}, ${x};` : `
  max.f32 ${x}, ${x}, 0fC2FC0000; cvt.rni.s32.f32 %r23, ${x}; cvt.rn.f32.s32 %f2, %r23; sub.rn.f32 ${x}, ${x}, %f2;
  mov.f32 %f3, 0f${coefficients[0]}; ${
      coefficients.slice(1).map((each) => `fma.rn.f32 %f3, %f3, ${x}, 0f${each};`).join(" ")
    } fma.rn.f32 %f3, %f3, ${x}, 0f3F800000;
  mov.b32 %r22, %f3; shl.b32 %r23, %r23, 23; add.s32 %r22, %r22, %r23; mov.b32 ${x}, %r22;`;
  const softmax = [0, 1].map((row) => `
  ${reduce("max", row)}
  max.f32 %m${2 + row}, %m${2 + row}, %m${row};
  sub.f32 %f1, %m${row}, %m${2 + row};
  mul.f32 %f1, %f1, ${scale};
  ${exponential("%f1")}
  mov.f32 %m${row}, %m${2 + row};
  ${
    upTo(8, (i) => {
      const s = `%s${4 * (i >> 1) + 2 * row + i % 2}`;
      return `sub.f32 ${s}, ${s}, %m${row}; mul.f32 ${s}, ${s}, ${scale}; ${exponential(s)}`;
    }).join("\n  ")
  }
  ${reduce("add", row)}
  fma.rn.f32 %l${row}, %l${row}, %f1, %m${2 + row};
  ${
    upTo(8, (group) =>
      upTo(2, (i) => `mul.f32 %o${4 * group + 2 * row + i}, %o${4 * group + 2 * row + i}, %f1;`).join(" ")).join("\n  ")
  }`)
    .join("");
  const weights = upTo(8, (i) => {
    const s = 2 * i;
    return `cvt.rn.f16x2.f32 %p${i}, %s${s + 1}, %s${s};`;
  }).join("\n  ");
  const values = upTo(2, (step) =>
    upTo(4, (pair) => `
  xor.b32 %r20, %r14, ${32 * pair};
  add.u32 %r20, %r20, %r13;
  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 ${list("b", 0, 4)}, [%r20+${4096 + 2048 * step}];
  ${mma} ${list("o", 8 * pair, 4)}, ${list("p", 4 * step, 4)}, {%b0, %b1}, ${list("o", 8 * pair, 4)};
  ${mma} ${list("o", 8 * pair + 4, 4)}, ${list("p", 4 * step, 4)}, {%b2, %b3}, ${list("o", 8 * pair + 4, 4)};`).join(
      "",
    )).join("");
  return `${header}
.visible .entry attend(.param .u64 o, .param .u64 q, .param .u64 k, .param .u64 v, .param .u32 keys) {
  .reg .b32 %r<30>; .reg .b64 %rd<12>; .reg .pred %p0_, %p1_;
  .reg .b32 %q<16>; .reg .b32 %b<8>; .reg .b32 %p<8>; .reg .f32 %s<16>; .reg .f32 %o<32>; .reg .f32 %m<4>; .reg .f32 %l<2>;
  .reg .f32 %f<4>;
  .shared .align 128 .b8 tiles[8192];
  ld.param.u64 %rd0, [o]; ld.param.u64 %rd1, [q]; ld.param.u64 %rd2, [k]; ld.param.u64 %rd3, [v]; ld.param.u32 %r0, [keys];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
  shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31; shr.u32 %r5, %r4, 2; and.b32 %r6, %r4, 3;
  // The query of row g.
  shl.b32 %r7, %r2, 6; shl.b32 %r8, %r3, 4; add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r5;
  mul.wide.u32 %rd4, %r7, 128; add.u64 %rd4, %rd1, %rd4; mul.wide.u32 %rd5, %r6, 4; add.u64 %rd4, %rd4, %rd5;
  ${
    upTo(4, (step) =>
      [0, 1024, 16, 1040].map((at, i) =>
        `ld.global.b32 %q${4 * step + i}, [%rd4+${32 * step + at}];`
      ).join(" ")).join("\n  ")
  }
  mov.u32 %r9, tiles;
  // Each thread copies 16 bytes of rows r and r + 16 of K and V; chunk c of row r is at c ^ (r % 8).
  shr.u32 %r10, %r1, 3; and.b32 %r11, %r1, 7;
  mul.wide.u32 %rd6, %r10, 128; mul.wide.u32 %rd7, %r11, 16; add.u64 %rd6, %rd6, %rd7;
  add.u64 %rd2, %rd2, %rd6; add.u64 %rd3, %rd3, %rd6;
  and.b32 %r12, %r10, 7; xor.b32 %r12, %r12, %r11; shl.b32 %r12, %r12, 4; shl.b32 %r15, %r10, 7; add.u32 %r15, %r15, %r12;
  add.u32 %r15, %r15, %r9;
  // K: rows of 8 keys, two chunks, then the next 8 keys. V, transposed: 16 keys, then the next chunk.
  and.b32 %r16, %r4, 7; shr.u32 %r17, %r4, 4; shl.b32 %r18, %r17, 3; add.u32 %r18, %r18, %r16;
  shl.b32 %r11, %r18, 7; add.u32 %r11, %r11, %r9;
  shr.u32 %r12, %r4, 3; and.b32 %r12, %r12, 1; xor.b32 %r12, %r12, %r16; shl.b32 %r12, %r12, 4;
  and.b32 %r18, %r4, 15; shl.b32 %r13, %r18, 7; add.u32 %r13, %r13, %r9;
  xor.b32 %r14, %r17, %r16; shl.b32 %r14, %r14, 4;
  ${upTo(32, (i) => `mov.f32 %o${i}, 0f00000000;`).join(" ")}
  mov.f32 %m0, 0fFF800000; mov.f32 %m1, 0fFF800000; mov.f32 %l0, 0f00000000; mov.f32 %l1, 0f00000000;
LOOP:
  bar.sync 0;
  ${
    upTo(2, (half) =>
      `cp.async.cg.shared.global [%r15+${2048 * half}], [%rd2+${2048 * half}], 16;
  cp.async.cg.shared.global [%r15+${4096 + 2048 * half}], [%rd3+${2048 * half}], 16;`).join("\n  ")
  }
  cp.async.commit_group;
  cp.async.wait_group 0;
  bar.sync 0;
  add.u64 %rd2, %rd2, 4096; add.u64 %rd3, %rd3, 4096;
  ${upTo(16, (i) => `mov.f32 %s${i}, 0f00000000;`).join(" ")}
  ${scores}
  ${softmax}
  ${weights}
  ${values}
  sub.u32 %r0, %r0, 32;
  setp.ne.u32 %p0_, %r0, 0;
  @%p0_ bra LOOP;
  ${[0, 1].map((row) => `rcp.rn.f32 %l${row}, %l${row};`).join(" ")}
  mul.wide.u32 %rd8, %r7, 256; add.u64 %rd8, %rd0, %rd8; mul.wide.u32 %rd9, %r6, 8; add.u64 %rd8, %rd8, %rd9;
  ${
    upTo(8, (group) =>
      [0, 1].map((row) =>
        upTo(2, (i) => {
          const o = `%o${4 * group + 2 * row + i}`;
          return `mul.f32 ${o}, ${o}, %l${row}; st.global.f32 [%rd8+${2048 * row + 32 * group + 4 * i}], ${o};`;
        }).join(" ")
      ).join("\n  ")).join("\n  ")
  }
  ret;
}
`;
}
