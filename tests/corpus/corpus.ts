/**
 * Runs the programs of the corpus and finds differences from the expected results.
 *
 * @module
 */
import type { Cuda } from "../../src/objects/cuda.ts";
import type { KernelArgument } from "../../src/objects/kernels/kernel_arguments.ts";
import { parsePtx } from "../../src/ptx/parsing/parser.ts";
import type { Instruction, Statement } from "../../src/ptx/syntax.ts";
import type { Corpus } from "./nvcc/build.ts";
import type { BufferContents, Buffers, CorpusLaunch, CorpusProgram, ErrorBound } from "./corpus_program.ts";

/** Loads a program of a corpus by its name. */
export async function loadProgram({ folder }: Corpus, name: string): Promise<CorpusProgram> {
  return (await import(new URL(`${name}.ts`, folder).href)).program;
}

/** Runs all launches of a program and returns the contents of its buffers afterwards. */
export async function runProgram(cuda: Cuda, program: CorpusProgram, ptx: string): Promise<Buffers> {
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using module = gpu.loadModule(ptx);
  using owned = new DisposableStack();
  const initial = program.buffers();
  const buffers = new Map(
    Object.entries(initial).map(([name, contents]) => {
      const buffer = owned.use(pool.allocate(contents.byteLength, stream));
      buffer.copyFrom(contents);
      return [name, buffer];
    }),
  );
  const argumentOf = (argument: CorpusLaunch["arguments"][number]): KernelArgument => {
    if (typeof argument !== "string") return argument;
    const buffer = buffers.get(argument);
    if (buffer === undefined) throw new Error(`The program has no buffer "${argument}"`);
    return buffer;
  };
  const stated = statedLaunch(ptx);
  for (const { kernel, grid, cooperative = false, arguments: args, ...given } of program.launches) {
    module.kernel(kernel).launch({ grid, cooperative, ...stated, ...given, stream }, ...args.map(argumentOf));
  }
  const results: Record<string, BufferContents> = {};
  for (const [name, buffer] of buffers) {
    const bytes = await buffer.read(Uint8Array);
    results[name] = new (initial[name]!.constructor as { new (buffer: ArrayBuffer): BufferContents })(bytes.buffer);
  }
  return results;
}

/** What the first line of the PTX says of its launch, where the compiler decides it and not the program. */
function statedLaunch(ptx: string): { readonly block: number; readonly sharedMemoryBytes: number } {
  const [, threads, bytes] = /^\/\/ .*: blocks of (\d+) threads, (\d+) bytes of shared memory/.exec(ptx) ?? [];
  return { block: Number(threads ?? 0), sharedMemoryBytes: Number(bytes ?? 0) };
}

/**
 * Returns the differences, one line each: buffer, index, expected and actual value. Lists only the first few and their
 * total number. Without a bound, every bit must be equal.
 */
export function differences(
  expected: Buffers,
  actual: Buffers,
  bounds: Readonly<Record<string, ErrorBound>> = {},
): string[] {
  const shown = 12;
  return Object.entries(expected).flatMap(([name, wanted]) => {
    const got = actual[name];
    if (got === undefined) return [`${name}: the program has no buffer of this name`];
    if (got.constructor !== wanted.constructor || got.length !== wanted.length) {
      return [`${name}: expected ${describeShape(wanted)}, got ${describeShape(got)}`];
    }
    const lines: string[] = [];
    let count = 0;
    for (let index = 0; index < wanted.length; index++) {
      if (isWithin(bounds[name], { wanted, got, index })) continue;
      if (++count <= shown) {
        lines.push(`${name}[${index}]: expected ${describe(wanted, index)}, got ${describe(got, index)}`);
      }
    }
    if (count > shown) lines.push(`${name}: ${count} of ${wanted.length} elements differ`);
    return lines;
  });
}

/**
 * Whether PTX defines all bits of a module's results. It does not for floating-point `add`, `sub` and `mul` without a
 * rounding modifier, which may be fused, and for approximate instructions.
 */
export function hasDefinedBits(ptx: string): boolean {
  for (const instruction of instructionsOf(ptx)) {
    if (isFusable(instruction) || isApproximate(instruction)) return false;
  }
  return true;
}

/** Yields every instruction of all functions of a module. */
export function* instructionsOf(ptx: string): Generator<Instruction> {
  for (const { body } of parsePtx(ptx).functions) yield* instructionsIn(body ?? []);
}

function* instructionsIn(statements: readonly Statement[]): Generator<Instruction> {
  for (const statement of statements) {
    if (statement.kind === "instruction") yield statement;
    else if (statement.kind === "block") yield* instructionsIn(statement.statements);
  }
}

const fusable = new Set(["add", "sub", "mul", "mad"]);
const floatTypes = new Set(["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"]);
const roundings = new Set(["rn", "rz", "rm", "rp"]);
const approximate = new Set(["sin", "cos", "lg2", "ex2", "tanh", "rsqrt"]);

function isFusable({ opcode, modifiers }: Instruction): boolean {
  return fusable.has(opcode) && modifiers.some((modifier) => floatTypes.has(modifier)) &&
    !modifiers.some((modifier) => roundings.has(modifier));
}

function isApproximate({ opcode, modifiers }: Instruction): boolean {
  return approximate.has(opcode) || modifiers.includes("approx") || modifiers.includes("full");
}

/** An element of the expected and of the actual contents. */
interface Element {
  readonly wanted: BufferContents;
  readonly got: BufferContents;
  readonly index: number;
}

function isWithin(bound: ErrorBound | undefined, { wanted, got, index }: Element): boolean {
  if (bitsOf(wanted, index) === bitsOf(got, index)) return true;
  if (bound === undefined) return false;
  const [expected, actual] = [Number(wanted[index]), Number(got[index])];
  if (Number.isNaN(expected) || Number.isNaN(actual)) return Number.isNaN(expected) && Number.isNaN(actual);
  if (!Number.isFinite(expected) || !Number.isFinite(actual)) return expected === actual;
  return Math.abs(actual - expected) <= bound.absolute(expected, index);
}

/** Returns the bits of an element. They distinguish floating-point numbers that compare equal. */
function bitsOf({ buffer, byteOffset, BYTES_PER_ELEMENT: size }: BufferContents, index: number): bigint {
  const view = new DataView(buffer, byteOffset + index * size, size);
  if (size === 1) return BigInt(view.getUint8(0));
  if (size === 2) return BigInt(view.getUint16(0, true));
  return size === 4 ? BigInt(view.getUint32(0, true)) : view.getBigUint64(0, true);
}

function describe(contents: BufferContents, index: number): string {
  const bits = bitsOf(contents, index).toString(16).padStart(contents.BYTES_PER_ELEMENT * 2, "0");
  return `${Object.is(contents[index], -0) ? "-0" : contents[index]} (0x${bits})`;
}

function describeShape({ constructor, length }: BufferContents): string {
  return `${length} elements of ${constructor.name}`;
}
