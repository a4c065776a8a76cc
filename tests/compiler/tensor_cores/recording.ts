/**
 * Results of products of matrices, as a GPU or the software device computes them: hashes of many, for each instruction
 * and class of inputs.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { CudaDevice } from "../../../mod.ts";
import { chunkClasses, classes, type InputClass, Random } from "./inputs.ts";
import { formOf, type Problem, problemOf, type ProductForm } from "./problems.ts";
import type { ProductType } from "./kernels.ts";
import { programOf } from "./program.ts";

/** Hashes of the results of an instruction, one for each class of inputs. */
export interface RecordedHashes {
  /** Of the first two problems. */
  readonly first: readonly string[];
  /** Of all problems. */
  readonly all: readonly string[];
}

/** The number of problems of each class in `first`. */
export const firstProblems = 2;

/** What has been recorded. */
export interface Recording {
  readonly device: string;
  /** The number of elements of D for each instruction, in all classes together. */
  readonly elements: number;
  readonly hashes: Readonly<Record<string, RecordedHashes>>;
  /** Hashes of large products, by the type of their elements. */
  readonly large: Readonly<Partial<Record<ProductType, string>>>;
  /** All words of the first problem of each class, in base64, for a few instructions. */
  readonly outputs: Readonly<Record<string, string>>;
}

/** The instructions whose results are recorded in full. */
export const formsWithOutputs: ReadonlySet<string> = new Set([
  "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
]);

/** Runs a kernel with as many blocks as there are problems, and returns what they write. */
export type RunProducts = (
  kernel: string,
  options: {
    readonly input: Uint32Array;
    readonly problems: number;
    readonly outputs: number;
    readonly threads: number;
  },
) => Promise<Uint32Array>;

/**
 * Computes the hashes of an instruction's results.
 *
 * @param options `elements` is the number of elements of D, or undefined for the first problems only; `onResults`
 * receives the words that the blocks of each class write
 */
export async function hashesOf(
  text: string,
  run: RunProducts,
  { elements, onResults }: { readonly elements?: number; readonly onResults?: (words: Uint32Array) => void },
): Promise<RecordedHashes> {
  const form = formOf(text);
  const { inputs, outputs, threads, kernel, write } = programOf(form);
  const results = form.m * form.n * (form.layouts === undefined ? 1 : 4);
  const problems = elements === undefined ? firstProblems : Math.ceil(elements / classes.length / results);
  const first: string[] = [], all: string[] = [];
  for (const kind of classes) {
    const random = Random.of(text, kind);
    const input = new Uint32Array(inputs * problems);
    for (let problem = 0; problem < problems; problem++) {
      write(problemOf(form, kind, random), input.subarray(problem * inputs, (problem + 1) * inputs));
    }
    const words = await run(kernel, { input, problems, outputs, threads });
    onResults?.(words);
    first.push(hashOf(words.subarray(0, firstProblems * outputs)));
    all.push(hashOf(words));
  }
  return { first, all };
}

/** Hashes of a million elements of D of each form, in chunks that can be computed again alone. */
export interface RecordedChunks {
  readonly device: string;
  /** For each instruction, a 32-bit hash of each chunk of each class in turn, in base64. */
  readonly hashes: Readonly<Record<string, string>>;
}

const elementsOfForm = 2 ** 20;
/** The number of chunks of each class. */
export const chunksOfClass = 8;

/** A part of the problems of a form: those of one seed. */
export interface Chunk {
  readonly kind: InputClass;
  readonly index: number;
}

/** The chunks of a form. */
export const chunks: readonly Chunk[] = chunkClasses.flatMap((kind) =>
  Array.from({ length: chunksOfClass }, (_, index) => ({ kind, index }))
);

/** Returns the problems of a chunk of a form. */
export function problemsOf(form: ProductForm, text: string, { kind, index }: Chunk): Problem[] {
  const random = Random.of(text, `${kind} ${index}`);
  const results = form.m * form.n * (form.layouts === undefined ? 1 : 4);
  const length = Math.ceil(elementsOfForm / chunks.length / results);
  return Array.from({ length }, () => problemOf(form, kind, random));
}

/** Returns the words that a device computes for problems. */
export async function resultsOf(
  form: ProductForm,
  problems: readonly Problem[],
  run: RunProducts,
): Promise<Uint32Array> {
  const { inputs, outputs, threads, kernel, write } = programOf(form);
  const input = new Uint32Array(inputs * problems.length);
  problems.forEach((problem, at) => write(problem, input.subarray(at * inputs, (at + 1) * inputs)));
  return await run(kernel, { input, problems: problems.length, outputs, threads });
}

/** Computes the hashes of chunks of an instruction's results, of all by default. */
export async function chunkHashesOf(
  text: string,
  run: RunProducts,
  which: readonly Chunk[] = chunks,
): Promise<Uint32Array<ArrayBuffer>> {
  const form = formOf(text);
  const found = new Uint32Array(which.length);
  for (const [at, chunk] of which.entries()) {
    const words = await resultsOf(form, problemsOf(form, text, chunk), run);
    found[at] = Number.parseInt(hashOf(words).slice(8), 16);
  }
  return found;
}

/** Returns hashes in base64. */
export function encodedHashes({ buffer }: Uint32Array<ArrayBuffer>): string {
  return Buffer.from(buffer).toString("base64");
}

/** Returns the hashes that `encodedHashes` has encoded. */
export function decodedHashes(text: string): Uint32Array<ArrayBuffer> {
  return new Uint32Array(new Uint8Array(Buffer.from(text, "base64")).buffer);
}

/** What computes products on a device. Disposing of it frees the memory. */
export interface ProductRunner extends Disposable {
  readonly run: RunProducts;
}

/** Returns what computes products on a device. A kernel that follows itself is loaded once. */
export function productsOn(gpu: CudaDevice): ProductRunner {
  const cleanup = new DisposableStack();
  const stream = cleanup.use(gpu.createStream());
  const pool = cleanup.use(gpu.createPool());
  let loaded: { readonly kernel: string; readonly module: ReturnType<CudaDevice["loadModule"]> } | undefined;
  cleanup.defer(() => loaded?.module[Symbol.dispose]());
  const run: RunProducts = async (kernel, { input, problems, outputs, threads }) => {
    if (loaded?.kernel !== kernel) {
      loaded?.module[Symbol.dispose]();
      loaded = { kernel, module: gpu.loadModule(kernel) };
    }
    using source = pool.allocate(input.byteLength, stream);
    using out = pool.allocate(4 * outputs * problems, stream);
    source.copyFrom(input, stream);
    loaded.module.kernel("product").launch({ grid: problems, block: threads, stream }, out, source);
    return await out.read(Uint32Array);
  };
  return { run, [Symbol.dispose]: () => cleanup.dispose() };
}

/** Returns a hash of 32-bit words. */
export function hashOf(words: Uint32Array): string {
  let low = 0x811c_9dc5, high = 0x9e37_79b9;
  for (const word of words) {
    low = Math.imul(low ^ word, 0x0100_0193);
    high = Math.imul(high ^ (word >>> 15) ^ low, 0x85eb_ca6b) + word | 0;
  }
  return (low >>> 0).toString(16).padStart(8, "0") + (high >>> 0).toString(16).padStart(8, "0");
}
