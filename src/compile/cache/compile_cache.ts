/**
 * A cache of compiled programs in a folder that any number of processes use concurrently: the keys that identify
 * programs, the format of the files, and the cache itself.
 *
 * @module
 */
import { sha256 } from "../../support/sha256.ts";
import type { Compiler, CompilerInput, CompilerOutput, CompilerSearch } from "../compilers.ts";
import {
  closeDescriptor,
  describeDescriptor,
  openPath,
  readAt,
  writeAt,
} from "../../../ffi/native/shim/descriptors.ts";
import {
  createFile,
  createFolderPath,
  lastWrite,
  namesIn,
  openOwnFile,
  removeFile,
  renameFile,
  touchFile,
} from "../../../ffi/native/shim/folder_files.ts";
import { escapeControls } from "../../support/printing.ts";
import { shown } from "../../support/validation.ts";

/**
 * The version of the cache's file format. It must change whenever the format or the processing of compiled programs
 * changes.
 */
const formatVersion = 1;

const magic = new TextEncoder().encode(`poolpass-compiled-${formatVersion}\n`);
const digestByteLength = 32;

interface Header {
  readonly key: string;
  readonly log: string;
  readonly loweredNames: readonly (readonly [expression: string, name: string])[];
  /** The size of the PTX in bytes. If there is a cubin, it follows the PTX in the file. */
  readonly ptxByteLength: number;
  readonly hasCubin: boolean;
}

/** Encodes a compiler's output as the content of a cache file. `key` identifies the compiled program. */
function encodeEntry(key: string, { ptx, cubin, log, loweredNames }: CompilerOutput): Uint8Array {
  const encoder = new TextEncoder();
  const text = encoder.encode(ptx);
  const header: Header = {
    key,
    log,
    loweredNames: [...loweredNames],
    ptxByteLength: text.length,
    hasCubin: cubin !== undefined,
  };
  const content = concatenated([encoder.encode(`${JSON.stringify(header)}\n`), text, cubin ?? new Uint8Array()]);
  return concatenated([magic, sha256(content), content]);
}

/** Decodes a cache file. Returns undefined if the file is not exactly what `encodeEntry` returned for the same key. */
function decodeEntry(key: string, bytes: Uint8Array): CompilerOutput | undefined {
  if (!magic.every((byte, index) => bytes[index] === byte)) return undefined;
  const content = bytes.subarray(magic.length + digestByteLength);
  const digest = bytes.subarray(magic.length, magic.length + digestByteLength);
  if (!sha256(content).every((byte, index) => byte === digest[index])) return undefined;
  const decoder = new TextDecoder();
  const headerByteLength = content.indexOf(0x0a) + 1;
  const header = JSON.parse(decoder.decode(content.subarray(0, headerByteLength))) as Header;
  if (header.key !== key) return undefined;
  const end = headerByteLength + header.ptxByteLength;
  return {
    ptx: decoder.decode(content.subarray(headerByteLength, end)),
    cubin: header.hasCubin ? new Uint8Array(content.subarray(end)) : undefined,
    log: header.log,
    loweredNames: new Map(header.loweredNames),
  };
}

function concatenated(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Returns the key of a program and a compiler. Undefined if the result may depend on something that is not in the key:
 * files other than the compiler's own, or the time.
 */
export function cacheKey(compiler: Pick<Compiler, "name" | "build">, input: CompilerInput): string | undefined {
  if (compiler.build === undefined || !isSelfContained(input)) return undefined;
  const { headers, defines, ...rest } = input;
  const described = JSON.stringify([
    formatVersion,
    compiler.name,
    compiler.build,
    // The properties are sorted, so that the key does not depend on the order in which the caller has written them.
    Object.entries(rest).sort(([a], [b]) => a < b ? -1 : 1),
    [...headers].sort(([a], [b]) => a < b ? -1 : 1),
    [...defines],
  ]);
  return sha256(new TextEncoder().encode(described)).toHex();
}

/** Matches flags that make the compiler read or write other files, or that pass flags on to other programs. */
const flagsOfFiles =
  /^@|^-[IiLBM]\b|^-[IL]|^-X(?!ptxas)|^-+(?:i|optf|o$|time|trace|keep|save|dep|comp|cc)|include|file|path|dir\b|config|sysroot|plugin|pch/;

function isSelfContained({ source, headers, includePaths, defines, flags }: CompilerInput): boolean {
  if (includePaths.length > 0 || flags.some((flag) => flagsOfFiles.test(flag))) return false;
  return [source, ...headers.values(), ...defines.values()].every((text) => {
    const joined = text.replaceAll(/\\\r?\n/g, "");
    return !/__(?:DATE|TIME|TIMESTAMP)__/.test(joined) &&
      Array.from(joined.matchAll(inclusions)).every(({ groups }) => {
        const { directive, operand = "" } = groups!;
        if (directive !== "include" && directive !== "__has_include") return false;
        const [, quoted, angled] = /^(?:"([^"\n]*)"|<([^>\n]*)>)/.exec(operand) ?? [];
        if (headers.has(quoted ?? angled ?? "")) return true;
        // Headers with quoted names are also searched for in the working folder.
        return angled !== undefined && !/^\/|\.\./.test(angled);
      });
  });
}

/** Matches everything that may be an inclusion, even in comments. */
const inclusions =
  /(?:(?:#|%:|\?\?=)(?:\s|\/\*(?:[^*]|\*(?!\/))*\*\/)*(?=[ie])|\b(?=__has_))(?<directive>include_next|include|import|embed|__has_include_next|__has_include|__has_embed)\b(?:\s|\/\*(?:[^*]|\*(?!\/))*\*\/|\()*(?<operand>[^\n]*)/g;

const defaultByteLimit = 256 * 2 ** 20;
const entryPrefix = "poolpass-";
const temporarySuffix = ".tmp";
/**
 * Age in milliseconds after which a file that is still being written is assumed to belong to a process that was killed.
 */
const abandonedAfter = 60_000;
/** The number of writes after which the folder's size is measured again, because other processes write to it too. */
const writesPerMeasurement = 64;
/**
 * The fraction of its size limit to which a full cache is reduced, so that the next writes need not reduce it again.
 */
const remainingShare = 0.75;

/** A file of the cache: a complete entry, or one that is being written. */
interface Entry {
  readonly path: string;
  readonly byteLength: number;
  /** The time of the last write or use, in milliseconds since 1970. */
  readonly modified: number;
}

/** Wraps a compiler search, so that the compiler that it finds uses a cache. */
export function cachedSearch(search: CompilerSearch, cache: CompileCache): CompilerSearch {
  return () => {
    const found = search();
    return "reason" in found ? found : cachedCompiler(found, cache);
  };
}

/** Returns a compiler that looks up programs in a cache before it compiles them. */
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

/** The cached programs, keyed by program and compiler. */
export class CompileCache {
  readonly #folder: string;
  readonly #byteLimit: number;
  /** The size of the folder's files in bytes, as far as this process knows; undefined if it must be measured. */
  #bytes: number | undefined;
  #writes = 0;
  #hasWarned = false;

  /**
   * Opens a folder, and creates it if it does not exist. A user who can write to the folder controls the code that
   * runs, so only this user and root may have write access.
   *
   * @throws {Error} If the folder cannot be used, or another user can change its contents
   */
  constructor(folder: string, { byteLimit = defaultByteLimit }: { readonly byteLimit?: number } = {}) {
    this.#byteLimit = byteLimit;
    try {
      this.#folder = createFolderPath(folder, { content: "programs of their own", mayBeSticky: false });
    } catch (cause) {
      throw new Error(`Cannot use the compile cache ${shown(folder)}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Returns the cached result. Undefined if there is none, or if its file is damaged or belongs to another user. */
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

  /** Caches a result. If the folder cannot be written to, prints a warning once. */
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

  /**
   * Records that `added` bytes were written, and removes the least recently used entries if the cache exceeds its size
   * limit.
   */
  #bound(added: number): void {
    if (this.#bytes !== undefined) this.#bytes += added;
    const isKnown = this.#bytes !== undefined && this.#writes++ % writesPerMeasurement !== 0;
    if (isKnown && this.#bytes! <= this.#byteLimit) return;
    const now = Date.now();
    const entries: Entry[] = [];
    for (const name of namesIn(this.#folder)) {
      // Files that do not belong to the cache are ignored.
      const entry = name.startsWith(entryPrefix) ? entryAt(`${this.#folder}/${name}`) : undefined;
      if (entry === undefined) continue;
      if (name.endsWith(temporarySuffix) && now - entry.modified > abandonedAfter) removeFile(entry.path);
      else entries.push(entry);
    }
    let bytes = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
    const wanted = bytes <= this.#byteLimit ? bytes : this.#byteLimit * remainingShare;
    for (const { path, byteLength } of entries.sort((a, b) => a.modified - b.modified)) {
      if (bytes <= wanted) break;
      // Skips a file that another process is writing.
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

/** Returns the entry at a path. Undefined if there is no file, because another process may have removed it. */
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

/**
 * Returns the message of a runtime's error. Escapes control characters, because the message may quote a path that
 * contains them.
 */
function messageOf(error: unknown): string {
  return escapeControls(error instanceof Error ? error.message : String(error));
}
