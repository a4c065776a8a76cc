/**
 * Results of products of matrices, as a GPU or the software device computes them: hashes of many, for each instruction
 * and class of inputs.
 *
 * @module
 */
import { classes, Random } from "./inputs.ts";
import { formOf, problemOf } from "./problems.ts";
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

/** Returns a hash of 32-bit words. */
export function hashOf(words: Uint32Array): string {
  let low = 0x811c_9dc5, high = 0x9e37_79b9;
  for (const word of words) {
    low = Math.imul(low ^ word, 0x0100_0193);
    high = Math.imul(high ^ (word >>> 15) ^ low, 0x85eb_ca6b) + word | 0;
  }
  return (low >>> 0).toString(16).padStart(8, "0") + (high >>> 0).toString(16).padStart(8, "0");
}
