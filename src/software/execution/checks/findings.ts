/**
 * The findings of one launch, each with the number of occurrences; and the names of kernels' and modules' variables in
 * findings.
 *
 * @module
 */
import type { LaunchFinding } from "../../../kernel_checker.ts";
import type { CompiledKernel } from "../../compiler/compile.ts";
import { scratch } from "../../memory/memory_layout.ts";

/** A finding without the number of its occurrences. */
export type KernelFinding = Omit<LaunchFinding, "count">;

/**
 * A collection of findings. Many threads usually make the same error, so the occurrences of each finding are counted.
 */
export class Findings {
  readonly #found = new Map<string, { finding: KernelFinding; count: number }>();

  /**
   * Adds a finding, or counts another occurrence.
   *
   * @param key identifies the finding, by the kind and the instructions that cause it
   * @param describe called for the first occurrence only
   */
  add(key: string, describe: () => KernelFinding): void {
    const found = this.#found.get(key);
    if (found === undefined) this.#found.set(key, { finding: describe(), count: 1 });
    else found.count++;
  }

  /** Counts another occurrence of a finding that was added before. */
  countAgain(key: string): void {
    this.#found.get(key)!.count++;
  }

  /** Adds a finding that has occurred `count` times. */
  addCounted(key: string, finding: KernelFinding, count: number): void {
    this.#found.set(key, { finding, count });
  }

  /** Returns all findings, in the order of their first occurrence. */
  toArray(): LaunchFinding[] {
    return [...this.#found.values()].map(({ finding, count }) => ({ ...finding, count }));
  }
}

/** The properties of a compiled kernel that are used for naming memory. */
export type KernelVariables = Pick<CompiledKernel, "variables" | "sharedBytes">;

type Variable = CompiledKernel["variables"][number];

/** A range of bytes in linear memory. */
interface Bytes {
  readonly begin: number;
  readonly byteLength: number;
}

/**
 * Names a range of bytes that the running block may access and that belongs to no buffer: `values[16] (bytes 64 to 67
 * of shared memory)`, or `counter, a variable of the module`. Returns undefined if the range belongs neither to the
 * block nor to a known variable.
 *
 * @param imageBegin the offset of the module's variables in linear memory. Undefined if the module has none
 */
export function nameBytes(kernel: KernelVariables, bytes: Bytes, imageBegin: number | undefined): string | undefined {
  const { begin, byteLength } = bytes;
  if (isIn(bytes, scratch.shared)) return nameShared(kernel, begin - scratch.shared.begin, byteLength);
  if (isIn(bytes, scratch.local)) return "a thread's local memory";
  return imageBegin === undefined ? undefined : nameGlobal(kernel, begin - imageBegin, byteLength);
}

/** Names bytes of a block's shared memory: `values[16] (bytes 64 to 67 of shared memory)`. */
export function nameShared({ variables, sharedBytes }: KernelVariables, begin: number, bytes: number): string {
  const place = `${bytesFrom(begin, bytes)} of shared memory`;
  if (begin >= sharedBytes) return `${bytesFrom(begin - sharedBytes, bytes)} of dynamic shared memory`;
  const variable = variables.find((variable) => {
    return variable.space === "shared" && isIn({ begin, byteLength: bytes }, beginOf(variable));
  });
  if (variable === undefined) return place;
  if (variable.elementBytes === undefined) return `${sourceNameOf(variable.name)} (${place})`;
  return `${nameWithin(variable, begin, bytes)} (${place})`;
}

/** Names bytes of a variable in `.global` or `.const`. `begin` is relative to the module's first variable. */
function nameGlobal({ variables }: KernelVariables, begin: number, bytes: number): string | undefined {
  const variable = variables.find((variable) => {
    const isOfModule = variable.space === "global" || variable.space === "const";
    return isOfModule && isIn({ begin, byteLength: bytes }, beginOf(variable));
  });
  return variable && `${nameWithin(variable, begin, bytes)}, a variable of the module`;
}

/** Names bytes within a variable: `values[16]`, or `bytes 64 to 67 of values`. */
function nameWithin({ name, offset, byteLength, elementBytes }: Variable, begin: number, bytes: number): string {
  const readable = sourceNameOf(name);
  const within = begin - offset;
  if (bytes === byteLength) return readable;
  // Names an element only if the access has the declared element size. Otherwise, the real element size is unknown,
  // because compilers declare arrays of any type as byte arrays.
  return elementBytes === bytes && within % bytes === 0
    ? `${readable}[${within / bytes}]`
    : `${bytesFrom(within, bytes)} of ${readable}`;
}

function beginOf({ offset: begin, byteLength }: Variable): Bytes {
  return { begin, byteLength };
}

function isIn(bytes: Bytes, { begin, byteLength }: Bytes): boolean {
  return bytes.begin >= begin && bytes.begin + bytes.byteLength <= begin + byteLength;
}

function bytesFrom(begin: number, bytes: number): string {
  return bytes === 1 ? `byte ${begin}` : `bytes ${begin} to ${begin + bytes - 1}`;
}

/**
 * Demangles the name of a static variable of a C++ function: returns `tile` for `_ZZ6reducePfE4tile`. Returns other
 * names unchanged.
 */
export function sourceNameOf(name: string): string {
  if (!name.startsWith("_ZZ")) return name;
  for (const { 1: digits, index } of name.matchAll(/(?<=E)(\d+)/g)) {
    const begin = index + digits!.length;
    const rest = name.slice(begin + Number(digits));
    if (begin + Number(digits) <= name.length && /^(?:_\d+|__\d+_)?$/.test(rest)) {
      return name.slice(begin, begin + Number(digits));
    }
  }
  return name;
}
