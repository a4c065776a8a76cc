/**
 * The programs that share, and what each of them can be asked for.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import type { Program } from "../contender.ts";
import type { Request } from "./contract.ts";

/** Where the programs are that were built or installed elsewhere. */
export interface Toolchain {
  /** A Python that may have cuda.core, PyTorch and CuPy. */
  readonly python: string;
  /** What nvcc made of `nativeSource`; undefined where there is no nvcc. */
  readonly native: string | undefined;
  /** What nvcc made of `nativeFramesSource`; undefined where there is no nvcc. */
  readonly nativeFrames: string | undefined;
}

/** Something to measure: what each program is asked for in each round. */
export interface SharingRow {
  readonly name: string;
  readonly request: Request;
  /** What the software device is asked for: it shows that the row works, and no more. */
  readonly softwareRequest: Request;
}

/** To be built by `nvcc -O2 -std=c++17 -arch=native`. */
export const nativeSource: string = path("native.cu");
/** To be built likewise. */
export const nativeFramesSource: string = path("../channel/native.cu");

/** The rows that `sharingPrograms` answer. */
export const sharingRows: readonly SharingRow[] = [
  {
    name: "share one new buffer of 64 MiB, by its pointer",
    request: { work: "share-one", repetitions: 500, byteLength: 64 * 2 ** 20 },
    softwareRequest: { work: "share-one", repetitions: 200, byteLength: 2 ** 20 },
  },
  {
    name: "share one new buffer of 64 MiB, by an offer",
    request: { work: "share-one-offer", repetitions: 500, byteLength: 64 * 2 ** 20 },
    softwareRequest: { work: "share-one-offer", repetitions: 200, byteLength: 2 ** 20 },
  },
  {
    name: "share a thousand buffers of 64 KiB",
    request: { work: "share-thousand", repetitions: 20, byteLength: 64 * 2 ** 10, count: 1000 },
    softwareRequest: { work: "share-thousand", repetitions: 20, byteLength: 64 * 2 ** 10, count: 1000 },
  },
];

/** The row that `framesPrograms` answer. */
export const framesRow: SharingRow = {
  name: "a channel's frame of 64 MiB",
  request: { work: "frames", repetitions: 300, slotByteLength: 64 * 2 ** 20 },
  softwareRequest: { work: "frames", repetitions: 100, slotByteLength: 2 ** 20 },
};

/** Programs that share buffers, each a pair of processes. */
export function sharingPrograms({ python, native }: Toolchain): Program[] {
  return [
    denoProgram("poolpass", ["poolpass.ts"]),
    ...native === undefined ? [] : [{ name: "C++", command: native, args: [] }],
    { name: "cuda.core", command: python, args: [path("cuda_core.py")] },
    { name: "cuda.core, registered pool", command: python, args: [path("cuda_core.py"), "--registered"] },
    { name: "torch.multiprocessing", command: python, args: [path("torch_sharing.py")] },
  ];
}

/** Programs that stream frames, each a pair of processes behind one that speaks with them. */
export function framesPrograms({ python, nativeFrames }: Toolchain): Program[] {
  const streamers: (readonly [name: string, command: string, ...args: string[]])[] = [
    ["poolpass", Deno.execPath(), "run", "--allow-all", path("../channel/producer.ts")],
    ["cuda.core", python, path("../channel/cuda_core.py")],
    ["torch.multiprocessing", python, path("../channel/torch_channel.py")],
  ];
  if (nativeFrames !== undefined) streamers.push(["C++", nativeFrames]);
  return streamers.map((streamer) => denoProgram(streamer[0], ["frames.ts", ...streamer]));
}

function denoProgram(name: string, [file, ...args]: readonly [string, ...string[]]): Program {
  return { name, command: Deno.execPath(), args: ["run", "--allow-all", path(file), ...args] };
}

function path(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
