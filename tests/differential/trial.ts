/**
 * Kernels that are run for their output.
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import { moduleHeader } from "./kernel_text.ts";

/** A kernel that reads an input and writes an output, and its launch configuration. */
export interface Trial {
  readonly kernelName: string;
  /** The PTX, without the module's directives. */
  readonly text: string;
  readonly input: Uint8Array<ArrayBuffer>;
  readonly outputBytes: number;
  /** The length of the part of the output that counts, from its start. */
  readonly resultBytes: number;
  readonly grid: number;
  readonly block: number;
}

/** The outcome of a trial: its output, or an error. */
export type Outcome = Uint8Array<ArrayBuffer> | Error;

/**
 * Runs kernels. Loads them as one module, or each as its own if that fails.
 *
 * After an error that is not about loading, the device may be unusable.
 */
export function runTrials(cuda: Cuda, trials: readonly Trial[]): Outcome[] {
  const gpu = cuda.device(0);
  using owned = new DisposableStack();
  let kernels: CudaKernel[];
  try {
    const module = owned.use(gpu.loadModule(moduleHeader + trials.map(({ text }) => text).join("\n")));
    kernels = trials.map(({ kernelName }) => module.kernel(kernelName));
  } catch (error) {
    return trials.length === 1 ? [error as Error] : trials.flatMap((trial) => runTrials(cuda, [trial]));
  }
  using stream = gpu.createStream();
  using streams = new DisposableStack();
  // Kernels of several streams run at once.
  const others = [1, 2, 3].map(() => streams.use(gpu.createStream()));
  const inputBytes = trials.map(({ input }) => Math.ceil(input.length / 256) * 256);
  const outputBytes = trials.map((trial) => Math.ceil(trial.outputBytes / 256) * 256);
  using inputs = gpu.defaultPool.allocate(sumOf(inputBytes), stream);
  using outputs = gpu.defaultPool.allocate(sumOf(outputBytes), stream);
  outputs.fill(0, stream);
  const packed = new Uint8Array(inputs.byteLength);
  let inputAt = 0;
  trials.forEach(({ input }, index) => {
    packed.set(input, inputAt);
    inputAt += inputBytes[index]!;
  });
  inputs.copyFrom(packed, stream);
  using copied = gpu.createEvent();
  stream.record(copied);
  for (const other of others) other.wait(copied);
  inputAt = 0;
  let outputAt = 0;
  const places: number[] = [];
  trials.forEach(({ grid, block }, index) => {
    const options = { grid, block, stream: [stream, ...others][index % 4]! };
    places.push(outputAt);
    kernels[index]!.launch(options, inputs.address + BigInt(inputAt), outputs.address + BigInt(outputAt));
    inputAt += inputBytes[index]!;
    outputAt += outputBytes[index]!;
  });
  gpu.synchronize();
  const all = outputs.readSync(Uint8Array) as Uint8Array<ArrayBuffer>;
  return trials.map(({ resultBytes }, index) => all.slice(places[index]!, places[index]! + resultBytes));
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/**
 * Returns a digest of a trial's text, without the kernel's name, and its input. An answer is stored with the digest of
 * its question.
 */
export function questionOf({ text, kernelName, input }: Trial): string {
  return createHash("sha256").update(text.replace(kernelName, "kernel")).update(input).digest("hex").slice(0, 8);
}

/** Returns the answer that is stored for a program: digests of the question and of the output. */
export function programAnswer(trial: Trial, output: Uint8Array): string {
  return `${questionOf(trial)} ${createHash("sha256").update(output).digest("hex").slice(0, 12)}`;
}

/** Returns the answer that is stored for a single operation: the same digests and the length of the output. */
export function operationAnswer(trial: Trial, output: Uint8Array): string {
  return `${programAnswer(trial, output)} ${output.length}`;
}
