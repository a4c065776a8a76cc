/**
 * Parts that the kernels of random programs and of single operations share.
 *
 * @module
 */
import type { OperandType, RegisterBits } from "./operation.ts";

/** The directives before the kernels of a module. */
export const moduleHeader = ".version 8.6\n.target sm_90\n.address_size 64\n";

/** The bytes of shared, of global and of local memory that each thread has for itself. */
export const ownBytes = 16;

/**
 * Returns the PTX of a kernel with two addresses as parameters. It declares the registers that operations use and
 * `declarations`.
 */
export function kernelText(
  name: string,
  { body, threads, declarations = "", outputBytes }: {
    readonly body: readonly string[];
    readonly threads: number;
    readonly declarations?: string;
    /** The offset in the output of the global memory that each thread has for itself. */
    readonly outputBytes: number;
  },
): string {
  const text = body.join("\n  ");
  const uses = (word: string) => new RegExp(`\\b${word}\\b`).test(text);
  const lines = [
    `.visible .entry ${name}(.param .u64 input_parameter, .param .u64 output_parameter)`,
    `.reqntid ${threads}, 1, 1`,
    "{",
    "  .reg .b16 t16_<4>;",
    "  .reg .b32 t32_<4>, thread, index;",
    "  .reg .b64 t64_<4>, input, output;",
    "  .reg .pred tp<5>;",
    declarations,
    "  ld.param.u64 input, [input_parameter];",
    "  ld.param.u64 output, [output_parameter];",
    "  mov.u32 thread, %tid.x;",
    "  mov.u32 index, %ctaid.x;",
    `  mad.lo.u32 index, index, ${threads}, thread;`,
  ];
  if (uses("own")) {
    lines.push(
      `  .shared .align 16 .b8 shared_memory[${threads * ownBytes}];`,
      "  .reg .b32 own;",
      "  mov.u32 own, shared_memory;",
      `  mad.lo.u32 own, thread, ${ownBytes}, own;`,
    );
  }
  if (uses("frame")) lines.push(`  .local .align 16 .b8 frame[${ownBytes}];`);
  if (uses("cell")) {
    lines.push(
      "  .reg .b64 cell;",
      `  mad.wide.u32 cell, index, ${ownBytes}, output;`,
      `  add.u64 cell, cell, ${outputBytes};`,
    );
  }
  return [...lines.filter((line) => line !== ""), `  ${text}`, "  ret;", "}", ""].join("\n");
}

/** Loads a register from memory; a predicate from the lowest bit of a word. */
export function loadRegister(register: string, bits: RegisterBits, place: string): string[] {
  if (bits !== 1) return [`ld.global.b${bits} ${register}, [${place}];`];
  return [`ld.global.b32 t32_3, [${place}];`, "and.b32 t32_3, t32_3, 1;", `setp.ne.u32 ${register}, t32_3, 0;`];
}

/** Stores a register; a predicate as 0 or 1. */
export function storeRegister(register: string, bits: RegisterBits, place: string): string[] {
  if (bits !== 1) return [`st.global.b${bits} [${place}], ${register};`];
  return [`selp.u32 t32_3, 1, 0, ${register};`, `st.global.b32 [${place}], t32_3;`];
}

/** Returns the number of bytes that a result occupies. */
export function storedBytes({ bits }: OperandType): number {
  return bits === 1 ? 4 : bits / 8;
}
