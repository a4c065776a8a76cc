/**
 * The answers of a GPU's driver, in files.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";

/** The driver and the device that answered. */
export interface Machine {
  /** The CUDA version, such as 13000 for CUDA 13.0. */
  readonly cuda: number;
  /** The device's name. */
  readonly device: string;
  /** The day of the recording, such as "2025-11-21". */
  readonly date: string;
}

/** The answers to random programs. */
export interface RecordedPrograms extends Machine {
  /**
   * For each seed, from 0 on: a digest of the program and its input, and a digest of its output; or "failed" if it had
   * none.
   */
  readonly answers: readonly string[];
}

/** The answers to single operations. */
export interface RecordedOperations extends Machine {
  /**
   * By name: a digest of the kernel and its input, a digest of its output, and the length of the output in
   * `operations.br`.
   */
  readonly answers: Readonly<Record<string, string>>;
}

/** The folder of the answers that are kept in the repository. */
export const recordedFolder: string = new URL("recorded", import.meta.url).pathname;

/** Reads the answers to random programs. Returns undefined if there are none. */
export function readPrograms(folder: string = recordedFolder): RecordedPrograms | undefined {
  return readJson(`${folder}/programs.json`) as RecordedPrograms | undefined;
}

/** Reads the answers to single operations. Returns undefined if there are none. */
export function readOperations(folder: string = recordedFolder): RecordedOperations | undefined {
  return readJson(`${folder}/operations.json`) as RecordedOperations | undefined;
}

/** Returns the recorded output of each operation, by name. */
export function readOperationResults(
  { answers }: RecordedOperations,
  folder: string = recordedFolder,
): Map<string, Uint8Array> {
  const all = new Uint8Array(brotliDecompressSync(readFileSync(`${folder}/operations.br`)));
  let at = 0;
  return new Map(
    Object.entries(answers).map(([name, answer]) => {
      const begin = at;
      at += Number(answer.split(" ")[2]);
      return [name, all.subarray(begin, at)];
    }),
  );
}

export function writePrograms(folder: string, recorded: RecordedPrograms): void {
  writeFileSync(`${folder}/programs.json`, JSON.stringify(recorded, null, 2) + "\n");
}

/** @param results The outputs, in the order of `recorded.answers`. */
export function writeOperations(
  folder: string,
  recorded: RecordedOperations,
  results: readonly Uint8Array[],
): void {
  writeFileSync(`${folder}/operations.json`, JSON.stringify(recorded, null, 2) + "\n");
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 };
  writeFileSync(`${folder}/operations.br`, brotliCompressSync(Buffer.concat(results), { params }));
}

/** The number of programs whose outputs are stored in one file. */
const programsPerFile = 1500;

/** Writes the complete outputs of programs, for locating differences without a GPU. They are large and are not kept. */
export function writeProgramOutputs(folder: string, outputs: readonly (Uint8Array | undefined)[]): void {
  for (let from = 0; from < outputs.length; from += programsPerFile) {
    const part = outputs.slice(from, from + programsPerFile).map((output) => output ?? new Uint8Array());
    const lengths = new Uint8Array(Uint32Array.from([part.length, ...part.map(({ length }) => length)]).buffer);
    writeFileSync(`${folder}/programs_${from}.gz`, gzipSync(Buffer.concat([lengths, ...part])));
  }
}

/** Reads the files of {@linkcode writeProgramOutputs}. Returns an empty array if there are none. */
export function readProgramOutputs(folder: string): Uint8Array[] {
  const outputs: Uint8Array[] = [];
  for (let from = 0;; from += programsPerFile) {
    const path = `${folder}/programs_${from}.gz`;
    if (!existsSync(path)) return outputs;
    const bytes = new Uint8Array(gunzipSync(readFileSync(path)));
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const count = view.getUint32(0, true);
    let at = 4 + 4 * count;
    for (let index = 0; index < count; index++) {
      const length = view.getUint32(4 + 4 * index, true);
      outputs.push(bytes.subarray(at, at + length));
      at += length;
    }
  }
}

function readJson(path: string): unknown {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}
