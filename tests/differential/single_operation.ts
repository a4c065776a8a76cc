/**
 * Kernels that apply one operation to many sets of operands, one set in each thread.
 *
 * @module
 */
import { kernelText, loadRegister, ownBytes, storedBytes, storeRegister } from "./kernel_text.ts";
import type { Trial } from "./trial.ts";
import { operandSets } from "./operands.ts";
import { type Operation, writeOperation } from "./operation.ts";

const threads = 64;
const operandNames = ["a", "b", "c", "e"];

/** Returns the kernel of an operation, with its operands as input. */
export function singleOperation(operation: Operation, kernelName: string): Trial {
  const { operands, result } = operation;
  const sets = operandSets(operation);
  const setBytes = 8 * operands.length;
  const input = new DataView(new ArrayBuffer(Math.max(8, sets.length * setBytes)));
  sets.flat().forEach((value, index) => input.setBigUint64(index * 8, BigInt.asUintN(64, value), true));
  const bytes = storedBytes(result);
  const resultBytes = sets.length * bytes;
  const names = Object.fromEntries(operandNames.map((name) => [name, `operand_${name}`]));
  const body = [
    `mad.wide.u32 input, index, ${setBytes}, input;`,
    ...operands.flatMap(({ bits }, index) => loadRegister(names[operandNames[index]!]!, bits, `input+${index * 8}`)),
    ...writeOperation(operation.text, { ...names, d: "result", THREADS: String(threads) }),
    `mad.wide.u32 output, index, ${bytes}, output;`,
    ...storeRegister("result", result.bits, "output"),
  ];
  const register = (name: string, bits: number) => `  .reg .${bits === 1 ? "pred" : `b${bits}`} ${name};`;
  const declarations = [
    register("result", result.bits),
    ...operands.map(({ bits }, index) => register(names[operandNames[index]!]!, bits)),
  ].join("\n");
  return {
    kernelName,
    text: kernelText(kernelName, { body, threads, declarations, outputBytes: alignedBytes(resultBytes) }),
    input: new Uint8Array(input.buffer),
    outputBytes: alignedBytes(resultBytes) + sets.length * ownBytes,
    resultBytes,
    grid: sets.length / threads,
    block: threads,
  };
}

function alignedBytes(bytes: number): number {
  return Math.ceil(bytes / ownBytes) * ownBytes;
}

/** Returns the result for one set of operands, in hexadecimal. */
export function resultAt(operation: Operation, results: Uint8Array, set: number): string {
  const bytes = storedBytes(operation.result);
  return hexadecimal(results.subarray(set * bytes, (set + 1) * bytes));
}

/** Returns the indices of the operand sets for which two outputs differ. */
export function differingSets(operation: Operation, one: Uint8Array, other: Uint8Array): number[] {
  const bytes = storedBytes(operation.result);
  const sets: number[] = [];
  for (let set = 0; set * bytes < one.length; set++) {
    for (let at = set * bytes; at < (set + 1) * bytes; at++) {
      if (one[at] === other[at]) continue;
      sets.push(set);
      break;
    }
  }
  return sets;
}

/** Formats bytes as a little-endian number in hexadecimal. */
export function hexadecimal(bytes: Uint8Array): string {
  return "0x" + [...bytes].reverse().map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
