/**
 * Compiled programs in a folder, which any number of processes use at once.
 *
 * @module
 */
import {
  closeDescriptor,
  describeDescriptor,
  openPath,
  readAt,
  writeAt,
} from "../../../ffi/native/shim/descriptors.ts";
import {
  createFile,
  lastWrite,
  namesIn,
  removeFile,
  renameFile,
  touchFile,
} from "../../../ffi/native/shim/folder_files.ts";
import { createFolderPath, openOwnFile } from "../../../ffi/native/shim/judged_paths.ts";
import { escapeControls } from "../../support/escape_controls.ts";
import { shown } from "../../support/validation.ts";
import type { Compiler, CompilerInput, CompilerOutput } from "../compiler.ts";
import type { CompilerSearch } from "../compilers.ts";
import { decodeEntry, encodeEntry } from "./cache_entry.ts";
import { cacheKey } from "./cache_key.ts";

const defaultByteLimit = 256 * 2 ** 20;
const entryPrefix = "poolpass-";
const temporarySuffix = ".tmp";
/** A file that is being written for so many milliseconds belongs to a process that was killed. */
const abandonedAfter = 60_000;
/** Other processes write too: the folder is measured again after so many entries. */
const writesPerMeasurement = 64;
/** What is left when a cache that is full was cut back, so that not every write has to. */
const remainingShare = 0.75;

/** An entry, or one that is being written. */
interface Entry {
  readonly path: string;
  readonly byteLength: number;
  /** When it was written or used last, in milliseconds since 1970. */
  readonly modified: number;
}

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
  readonly #byteLimit: number;
  /** Bytes in the folder as far as this process knows; undefined if it has to look. */
  #bytes: number | undefined;
  #writes = 0;
  #hasWarned = false;

  /**
   * Opens a folder, and creates it if it does not exist. Whoever can write to it chooses the code that runs, so that must
   * be this user and root alone.
   *
   * @throws {Error} If the folder cannot be used, or another user can change what it has
   */
  constructor(folder: string, { byteLimit = defaultByteLimit }: { readonly byteLimit?: number } = {}) {
    this.#byteLimit = byteLimit;
    try {
      this.#folder = createFolderPath(folder, { content: "programs of their own", mayBeSticky: false });
    } catch (cause) {
      throw new Error(`Cannot use the compile cache ${shown(folder)}: ${messageOf(cause)}`, { cause });
    }
  }

  /** What was compiled; undefined if it is not known, or its file is damaged or not this user's. */
  get(key: string): CompilerOutput | undefined {
    try {
      const file = openOwnFile(this.#pathOf(key));
      if (file === undefined) return undefined;
      const { fd, byteLength } = file;
      try {
        if (byteLength > this.#byteLimit) return undefined;
        const bytes = new Uint8Array(byteLength);
        const output = decodeEntry(key, bytes.subarray(0, readAt(fd, bytes)));
        if (output !== undefined) touchFile(fd);
        return output;
      } finally {
        closeDescriptor(fd);
      }
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
      writeFile(temporary, bytes);
      renameFile(temporary, path);
      this.#bound(bytes.length);
    } catch (error) {
      removeFile(temporary);
      if (this.#hasWarned) return;
      this.#hasWarned = true;
      console.warn(`poolpass: cannot write the compile cache ${shown(this.#folder)}: ${messageOf(error)}`);
    }
  }

  #pathOf(key: string): string {
    return `${this.#folder}/${entryPrefix}${key}`;
  }

  /** Removes what was not used for the longest time, if there is too much. */
  #bound(added: number): void {
    if (this.#bytes !== undefined) this.#bytes += added;
    const isKnown = this.#bytes !== undefined && this.#writes++ % writesPerMeasurement !== 0;
    if (isKnown && this.#bytes! <= this.#byteLimit) return;
    const now = Date.now();
    const entries: Entry[] = [];
    for (const name of namesIn(this.#folder)) {
      // What is not the cache's own is left alone.
      const entry = name.startsWith(entryPrefix) ? entryAt(`${this.#folder}/${name}`) : undefined;
      if (entry === undefined) continue;
      if (name.endsWith(temporarySuffix) && now - entry.modified > abandonedAfter) removeFile(entry.path);
      else entries.push(entry);
    }
    let bytes = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const wanted = bytes <= this.#byteLimit ? bytes : this.#byteLimit * remainingShare;
    for (const { path, byteLength } of entries.sort((a, b) => a.modified - b.modified)) {
      if (bytes <= wanted) break;
      // Somebody is writing it.
      if (path.endsWith(temporarySuffix)) continue;
      removeFile(path);
      bytes -= byteLength;
    }
    this.#bytes = bytes;
  }
}

function writeFile(path: string, bytes: Uint8Array): void {
  const fd = createFile(path);
  try {
    writeAt(fd, bytes);
  } finally {
    closeDescriptor(fd);
  }
}

/** Undefined if there is no file, for another process may have removed it. */
function entryAt(path: string): Entry | undefined {
  let fd: number | undefined;
  try {
    fd = openPath(path);
    const { type, byteLength } = describeDescriptor(fd);
    return type === "file" ? { path, byteLength, modified: lastWrite(fd) ?? 0 } : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeDescriptor(fd);
  }
}

/** What the runtime says, which quotes the path as it is. */
function messageOf(error: unknown): string {
  return escapeControls(error instanceof Error ? error.message : String(error));
}
