/**
 * Kernels for products of matrices, by `mma` or `wmma`, and their inputs and outputs.
 *
 * @module
 */
import { blockWords, fragmentKernel, readMatrix, writeMatrices } from "./fragments.ts";
import {
  inputsOf,
  type Matrix,
  type Problem,
  type ProductForm,
  productKernel,
  readResult,
  wordsOf,
  writeFragments,
} from "./problems.ts";

/** A kernel with the name `product` and the parameters `out` and `in`, whose blocks of a warp compute a product each. */
export interface ProductProgram {
  readonly kernel: string;
  /** The number of words that a block reads. */
  readonly inputs: number;
  /** The number of words that a block writes. */
  readonly outputs: number;
  /** Writes a problem to the words that a block reads, all of which are 0. */
  write(problem: Problem, target: Uint32Array): void;
  /** Returns the elements of D that a block has written. */
  read(written: Uint32Array): Matrix;
}

/** The program for an instruction. */
export function programOf(form: ProductForm): ProductProgram {
  if (form.text.startsWith("wmma")) {
    return {
      kernel: fragmentKernel(form),
      ...blockWords(form),
      write: (problem, target) => writeMatrices(form, problem, target),
      read: (written) => readMatrix(form, written),
    };
  }
  return {
    kernel: productKernel(form),
    inputs: 32 * inputsOf(form),
    outputs: 32 * wordsOf(form).d,
    write: (problem, target) => writeFragments(form, problem, target),
    read: (written) => readResult(form, written),
  };
}
