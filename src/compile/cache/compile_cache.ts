/**
 * Compiled programs in a folder, which any number of processes use at once.
 *
 * @module
 */
import { shown } from "../../support/validation.ts";
import type { Compiler, CompilerInput, CompilerOutput } from "../compiler.ts";
import type { CompilerSearch } from "../compilers.ts";
import { decodeEntry, encodeEntry } from "./cache_entry.ts";
import { cacheKey } from "./cache_key.ts";
import { type FileSystem, type FolderFile, openFileSystem } from "./file_system.ts";

const defaultByteLimit = 256 * 2 ** 20;
const entryPrefix = "poolpass-";
const temporarySuffix = ".tmp";
/** A file that is being written for so many milliseconds belongs to a process that was killed. */
const abandonedAfter = 60_000;
/** Other processes write too: the folder is measured again after so many entries. */
const writesPerMeasurement = 64;
/** What is left when a cache that is full was cut back, so that not every write has to. */
const remainingShare = 0.75;

/** A search whose compiler looks into a cache first. */
export function cachedSearch(search: CompilerSearch, cache: CompileCache): CompilerSearch {
  return () => {
    const found = search();
    return "reason" in found ? found : cachedCompiler(found, cache);
  };
}

/** A compiler that looks into a cache first. */
export function cachedCompiler(compiler: Compiler, cache: CompileCache): Compiler {
  return {
    name: compiler.name,
    build: compiler.build,
    cudaVersion: compiler.cudaVersion,
    get architectures() {
      return compiler.architectures;
    },
    compile(input: CompilerInput): CompilerOutput {
      const key = cacheKey(compiler, input);
      if (key === undefined) return compiler.compile(input);
      const known = cache.get(key);
      if (known !== undefined) return known;
      const output = compiler.compile(input);
      cache.set(key, output);
      return output;
    },
  };
}

/** Compiled programs by their keys. */
export class CompileCache {
  readonly #folder: string;
  readonly #files: FileSystem;
  readonly #byteLimit: number;
  /** Bytes in the folder as far as this process knows; undefined if it has to look. */
  #bytes: number | undefined;
  #writes = 0;
  #hasWarned = false;

  /**
   * Opens a folder, and creates it if it does not exist.
   *
   * @throws {Error} If the folder may not be used, or is none
   */
  constructor(folder: string, { byteLimit = defaultByteLimit }: { readonly byteLimit?: number } = {}) {
    this.#folder = folder;
    this.#byteLimit = byteLimit;
    this.#files = openFileSystem();
    const refusal = this.#files.refusal(folder);
    if (refusal !== undefined) throw new Error(`Cannot use the compile cache ${shown(folder)}: ${refusal}`);
    try {
      this.#files.createFolder(folder);
    } catch (cause) {
      throw new Error(`Cannot use the compile cache ${shown(folder)}: ${messageOf(cause)}`, { cause });
    }
  }

  /** What was compiled; undefined if it is not known, or its file is damaged. */
  get(key: string): CompilerOutput | undefined {
    const path = this.#pathOf(key);
    try {
      const output = decodeEntry(key, this.#files.read(path));
      if (output !== undefined) this.#touch(path);
      return output;
    } catch {
      return undefined;
    }
  }

  /** Keeps what was compiled, unless the folder cannot be written: then a warning is printed, once. */
  set(key: string, output: CompilerOutput): void {
    const bytes = encodeEntry(key, output);
    if (bytes.length > this.#byteLimit) return;
    const path = this.#pathOf(key);
    const temporary = `${path}.${crypto.randomUUID()}${temporarySuffix}`;
    try {
      this.#files.create(temporary, bytes);
      this.#files.rename(temporary, path);
      this.#bound(bytes.length);
    } catch (error) {
      this.#remove(temporary);
      if (this.#hasWarned) return;
      this.#hasWarned = true;
      console.warn(`poolpass: cannot write the compile cache ${shown(this.#folder)}: ${messageOf(error)}`);
    }
  }

  #pathOf(key: string): string {
    return `${this.#folder}/${entryPrefix}${key}`;
  }

  #touch(path: string): void {
    try {
      this.#files.touch(path);
    } catch {
      // Another process has removed it, or the file is another user's: it is only forgotten earlier.
    }
  }

  #remove(path: string): void {
    try {
      this.#files.remove(path);
    } catch {
      // Another process was faster.
    }
  }

  /** Removes what was not used for the longest time, if there is too much. */
  #bound(added: number): void {
    if (this.#bytes !== undefined) this.#bytes += added;
    const isKnown = this.#bytes !== undefined && this.#writes++ % writesPerMeasurement !== 0;
    if (isKnown && this.#bytes! <= this.#byteLimit) return;
    const now = Date.now();
    const entries: FolderFile[] = [];
    for (const file of this.#files.list(this.#folder)) {
      // What is not the cache's own is left alone.
      if (!file.name.startsWith(entryPrefix)) continue;
      const isAbandoned = file.name.endsWith(temporarySuffix) && now - file.modified > abandonedAfter;
      if (isAbandoned) this.#remove(`${this.#folder}/${file.name}`);
      else entries.push(file);
    }
    let bytes = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const wanted = bytes <= this.#byteLimit ? bytes : this.#byteLimit * remainingShare;
    for (const { name, byteLength } of entries.sort((a, b) => a.modified - b.modified)) {
      if (bytes <= wanted) break;
      // Somebody is writing it.
      if (name.endsWith(temporarySuffix)) continue;
      this.#remove(`${this.#folder}/${name}`);
      bytes -= byteLength;
    }
    this.#bytes = bytes;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
