/**
 * Kernels for products of matrices, by `mma`, `wmma` or `wgmma`, and their inputs and outputs.
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
import { readWarpgroup, warpgroupKernel, warpgroupThreads, warpgroupWords, writeWarpgroup } from "./warpgroup.ts";

/** A kernel with the name `product` and the parameters `out` and `in`, whose blocks compute a product each. */
export interface ProductProgram {
  readonly kernel: string;
  /** The number of threads of a block. */
  readonly threads: number;
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
  if (form.text.startsWith("wgmma")) {
    return {
      kernel: warpgroupKernel(form),
      threads: warpgroupThreads,
      ...warpgroupWords(form),
      write: (problem, target) => writeWarpgroup(form, problem, target),
      read: (written) => readWarpgroup(form, written),
    };
  }
  if (form.text.startsWith("wmma")) {
    return {
      threads: 32,
      kernel: fragmentKernel(form),
      ...blockWords(form),
      write: (problem, target) => writeMatrices(form, problem, target),
      read: (written) => readMatrix(form, written),
    };
  }
  return {
    threads: 32,
    kernel: productKernel(form),
    inputs: 32 * inputsOf(form),
    outputs: 32 * wordsOf(form).d,
    write: (problem, target) => writeFragments(form, problem, target),
    read: (written) => readResult(form, written),
  };
}
