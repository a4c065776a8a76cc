/**
 * Detects the kind of a module image, extracts its PTX text, and finds the global symbols that it defines and
 * references.
 *
 * @module
 */
import { parsePtx } from "./parsing/parser.ts";
import { PtxError } from "./syntax.ts";

/**
 * The kinds of images that can be linked. An `object` or a `library` is a host file that contains device code; `ltoir`
 * is an intermediate representation that is compiled at link time. A `fatbin` contains images of other kinds.
 */
export type ImageKind = "ptx" | "cubin" | "fatbin" | "object" | "library" | "ltoir" | "unknown";

const elfMagic = 0x464c457f;
/** The value of `e_machine` in the ELF header of a cubin. */
export const cudaElfMachine: number = 190;
const fatbinMagic = 0xba55ed50;
/** The first byte of `fatbinMagic`. */
const fatbinBeginning = 0x50;
const ltoirMagic = 0x7f4e43ed;
/** The first four bytes of a static library, which begins with "!<arch>". */
const archiveMagic = 0x72613c21;
/** The kind field of a fatbin entry that contains LTO IR. */
const ltoirEntry = 8;

/** Detects the kind of an image by its first bytes. */
export function imageKind(image: string | Uint8Array): ImageKind {
  if (typeof image === "string" || ptxText(image) !== undefined) return "ptx";
  if (image.byteLength < 20) return "unknown";
  const view = viewOf(image);
  switch (view.getUint32(0, true)) {
    case elfMagic:
      return view.getUint16(18, true) === cudaElfMachine ? "cubin" : "object";
    case fatbinMagic:
      return "fatbin";
    case ltoirMagic:
      return "ltoir";
    case archiveMagic:
      return "library";
    default:
      return "unknown";
  }
}

/** Whether an image is LTO IR, a fatbin that contains LTO IR, or a host object or library with such a fatbin. */
export function hasLtoir(image: string | Uint8Array): boolean {
  const kind = imageKind(image);
  if (kind === "ltoir") return true;
  const bytes = image as Uint8Array;
  if (kind === "fatbin") return fatbinHasLtoir(bytes);
  if (kind !== "object" && kind !== "library") return false;
  const view = viewOf(bytes);
  for (let begin = bytes.indexOf(fatbinBeginning); begin >= 0; begin = bytes.indexOf(fatbinBeginning, begin + 1)) {
    if (begin + 16 > bytes.length) break;
    if (view.getUint32(begin, true) === fatbinMagic && fatbinHasLtoir(bytes.subarray(begin))) return true;
  }
  return false;
}

function fatbinHasLtoir(bytes: Uint8Array): boolean {
  const view = viewOf(bytes);
  const end = Math.min(view.byteLength, view.getUint16(6, true) + Number(view.getBigUint64(8, true)));
  // Each entry consists of a header and a payload; the header contains the sizes of both.
  for (let entry = view.getUint16(6, true); entry + 16 <= end;) {
    if (view.getUint16(entry, true) === ltoirEntry) return true;
    const length = view.getUint32(entry + 4, true) + Number(view.getBigUint64(entry + 8, true));
    if (length === 0) return false;
    entry += length;
  }
  return false;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

const pass = "pass PTX text, or the bytes of an image as a Uint8Array";

/** `ET_REL`: the value of `e_type` in the ELF header of an object. */
const relocatableElf = 1;

/**
 * For error messages: how to obtain an image from a value that is neither a string nor bytes, keyed by the value's
 * class name.
 */
const remedies: Readonly<Record<string, string>> = {
  Promise: "await the promise first",
  Response: "pass await response.text(), or await response.bytes() for a binary image",
  Request: "fetch it first, and pass await response.text()",
  Blob: "pass await blob.text(), or await blob.bytes() for a binary image",
  File: "pass await file.text(), or await file.bytes() for a binary image",
  ArrayBuffer: "pass a Uint8Array of it",
  URL: "read the file first, and pass its contents",
};

/**
 * Throws a `TypeError` with an explanation if a value cannot be an image, for example if it is a path, source code or a
 * promise. Accepts all other text, and leaves errors in it to the driver's compiler.
 *
 * @param options.isLinked Whether host objects, which can only be linked, are accepted, too.
 */
export function checkImage(image: unknown, { isLinked = false }: { isLinked?: boolean } = {}): void {
  const type = Object.prototype.toString.call(image).slice("[object ".length, -1);
  if (typeof image !== "string" && type !== "Uint8Array") {
    throw new TypeError(`Cannot load a module from a value of type ${type}: ${remedies[type] ?? pass}`);
  }
  if (typeof image !== "string" && isHostProgram(image as Uint8Array, isLinked)) {
    throw new TypeError(
      "Cannot load a program or a library of the host as a module: pass PTX text, or the bytes of a cubin or a fatbin",
    );
  }
  const text = typeof image === "string" ? image : beginningOf(image as Uint8Array);
  if (text === undefined || isPtx(text)) return;
  const mistake = typeof image === "string" && pathMistake(image) || contentMistake(text);
  if (mistake !== undefined) throw new TypeError(mistake);
}

/** Whether an image is an ELF file for the host. With `exceptObjects`, returns false for relocatable objects. */
function isHostProgram(bytes: Uint8Array, exceptObjects: boolean): boolean {
  const isElf = bytes[0] === 0x7f && bytes[1] === 0x45 && bytes[2] === 0x4c && bytes[3] === 0x46;
  return isElf && bytes[18] !== cudaElfMachine && !(exceptObjects && bytes[16] === relocatableElf);
}

/**
 * Returns the first 64 KiB of an image as text; undefined if it is binary. Each byte becomes a character, because only
 * ASCII matters to the caller.
 */
function beginningOf(bytes: Uint8Array): string | undefined {
  const isUtf16 = bytes[0] === 0xff && bytes[1] === 0xfe;
  const begin = bytes.subarray(0, 64 * 1024);
  if (!isUtf16 && begin.subarray(0, -1).includes(0)) return undefined;
  return Array.from(begin, (byte) => String.fromCharCode(byte)).join("");
}

function pathMistake(text: string): string | undefined {
  if (text.length > 4096 || !/^[^\n]*\.\w+$/.test(text)) return undefined;
  if (/\.(cu|cuh|c|cc|cpp|h)$/i.test(text)) {
    return `Cannot load "${text}" as a module: pass its text to compile, as in gpu.compile(readFileSync("${text}", "utf8"))`;
  }
  if (/\.(cubin|fatbin)$/i.test(text)) {
    return `Cannot load "${text}" as a module: pass the bytes of the file, not a path, as in readFileSync("${text}")`;
  }
  if (!/\.(ptx|txt)$/i.test(text)) return undefined;
  if (/^https?:/i.test(text)) {
    return `Cannot load "${text}" as a module: pass the text of the PTX, as in await (await fetch("${text}")).text()`;
  }
  return `Cannot load "${text}" as a module: pass the text of the PTX, not a path, as in readFileSync("${text}", "utf8")`;
}

function contentMistake(text: string): string | undefined {
  if (text.trim() === "") return "Cannot load an empty image as a module: pass the text of the PTX";
  // In a string whose characters each hold one byte, the UTF-8 byte order mark consists of three characters.
  if (/^(?:\uFEFF|\u00EF\u00BB\u00BF)/.test(text)) {
    return "Cannot load PTX that begins with a byte order mark: save the file as UTF-8 without it";
  }
  if (text.startsWith("\u00FF\u00FE")) return "Cannot load PTX in UTF-16: save the file as UTF-8";
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(text)) {
    return "Cannot load an HTML or XML document as a module: the address of the download may be that of a page, not of the file";
  }
  if (text.startsWith("\x7fELF")) return "Cannot load a cubin that was read as text: pass its bytes, as a Uint8Array";
  if (
    !/^\s*\.(?:target|visible|entry)\b/m.test(text) &&
    /__global__|^\s*#\s*(?:include|define|pragma)\b|extern\s*"C"/m.test(text)
  ) {
    return "Cannot load CUDA C++ as a module: pass it to compile instead of loadModule, as in gpu.compile(source), or " +
      "compile it with nvcc -ptx, and pass the text of the PTX";
  }
  if (/^\s*"/.test(text) && text.includes(".version")) {
    return "Cannot load PTX that is quoted as JSON: pass the result of JSON.parse";
  }
  if (/^\s*(?:; ModuleID|source_filename|target (?:triple|datalayout))\b/m.test(text)) {
    return "Cannot load LLVM IR as a module: compile it with llc -mcpu=sm_75, and pass the text of the PTX";
  }
  if (/@(?:compute|workgroup_size)\b|^\s*#version\b/m.test(text)) {
    return "Cannot load a shader as a module: write the kernel in CUDA C++, and pass the PTX that nvcc -ptx makes of it";
  }
  if (/^\s*(?:\.visible\s+|\.weak\s+)?\.(?:entry|func|target|address_size)\b/m.test(text)) {
    return "Cannot load PTX without its header: begin it with .version 7.0, .target sm_60 and .address_size 64";
  }
  return undefined;
}

/** `SHT_SYMTAB`: the type of the section with the symbol table. */
const symbolTable = 2;
const symbolBytes = 24;
/**
 * `STB_GLOBAL`: the binding of global symbols. Weak and local symbols are ignored, because they do not conflict with
 * symbols of other images.
 */
const globalBinding = 1;
/**
 * The symbol types of variables and functions: `STT_OBJECT`, `STT_FUNC`, and CUDA's own type for variables in unlinked
 * images.
 */
const namedTypes: readonly number[] = [1, 2, 13];
/** `SHN_UNDEF`: the section index of undefined symbols. */
const undefinedSection = 0;
/**
 * `SHN_LORESERVE`: the lowest section index that is reserved for symbols outside of all sections, such as common
 * symbols.
 */
const firstReservedSection = 0xff00;

/** `STO_CUDA_SHARED`: the flag of symbols in dynamic shared memory, which the launch provides. */
const sharedMemory = 0x40;

interface Symbol {
  readonly name: string;
  readonly section: number;
  readonly other: number;
}

/**
 * Returns the global symbols that a cubin defines, which no other linked image may define. Empty for a malformed cubin.
 */
export function cubinDefinitions(cubin: Uint8Array): readonly string[] {
  return globalSymbols(cubin)
    .filter(({ section }) => section !== undefinedSection && section < firstReservedSection)
    .map(({ name }) => name);
}

/** Returns the functions and variables that a cubin references but does not define. Empty for a malformed cubin. */
export function cubinReferences(cubin: Uint8Array): readonly string[] {
  return globalSymbols(cubin)
    .filter(({ section, other }) => section === undefinedSection && (other & sharedMemory) === 0)
    .map(({ name }) => name);
}

function globalSymbols(cubin: Uint8Array): readonly Symbol[] {
  try {
    return readSymbols(cubin);
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function readSymbols(cubin: Uint8Array): Symbol[] {
  const view = new DataView(cubin.buffer, cubin.byteOffset, cubin.byteLength);
  const offsetAt = (position: number) => Number(view.getBigUint64(position, true));
  const sections = offsetAt(40);
  const [sectionBytes, sectionCount] = [view.getUint16(58, true), view.getUint16(60, true)];
  const sectionAt = (index: number) => sections + index * sectionBytes;
  const symbols: Symbol[] = [];
  for (let index = 0; index < sectionCount; index++) {
    const section = sectionAt(index);
    if (view.getUint32(section + 4, true) !== symbolTable) continue;
    const strings = offsetAt(sectionAt(view.getUint32(section + 40, true)) + 24);
    const [begin, byteLength] = [offsetAt(section + 24), offsetAt(section + 32)];
    for (let symbol = begin; symbol + symbolBytes <= begin + byteLength; symbol += symbolBytes) {
      const info = view.getUint8(symbol + 4);
      if (info >> 4 !== globalBinding || !namedTypes.includes(info & 15)) continue;
      const name = strings + view.getUint32(symbol, true);
      const end = cubin.indexOf(0, name);
      symbols.push({
        name: new TextDecoder().decode(cubin.subarray(name, end < 0 ? undefined : end)),
        section: view.getUint16(symbol + 6, true),
        other: view.getUint8(symbol + 5),
      });
    }
  }
  return symbols;
}

/**
 * Returns the `.visible` symbols that a PTX module defines, which no other linked module may define. Empty if the PTX
 * cannot be parsed.
 */
export function strongDefinitions(ptx: string): readonly string[] {
  try {
    const { functions, variables } = parsePtx(ptx);
    const defined = functions.filter(({ linkage, body }) => linkage === "visible" && body !== undefined);
    return [...defined, ...variables.filter(({ linkage }) => linkage === "visible")].map(({ name }) => name);
  } catch (error) {
    if (error instanceof PtxError) return [];
    throw error;
  }
}

/**
 * Returns the PTX text of a module's image, given as a string or as bytes. Undefined for a binary image. Throws a
 * `TypeError` if the argument is not an image.
 */
export function ptxText(image: string | Uint8Array): string | undefined {
  if (typeof image === "string") {
    if (isPath(image)) throw new TypeError(`Cannot load "${image}" as a module: pass the text of the PTX, not a path`);
    return image;
  }
  // Also accepts a Uint8Array of another realm.
  if (Object.prototype.toString.call(image) !== "[object Uint8Array]") {
    const given = Object.prototype.toString.call(image).slice("[object ".length, -1);
    throw new TypeError(
      `Cannot load a module from a value of type ${given}: pass PTX text, or the bytes of an image as a Uint8Array`,
    );
  }
  const text = image.at(-1) === 0 ? image.subarray(0, -1) : image;
  return text.includes(0) ? undefined : new TextDecoder().decode(text);
}

/**
 * Returns the names of a module's `.global` and `.const` variables, to suggest one for a mistyped name. For speed,
 * finds only declarations at the start of a line, where compilers put them.
 */
export function ptxVariableNames(text: string): string[] {
  const declaration = /^[ \t]*(?:\.(?:visible|extern|weak|common)[ \t]+)?\.(?:global|const)\b([^\n;={[]*)[[=;]/gm;
  // The name is the last word, after the alignment, attributes and the type.
  return Array.from(text.matchAll(declaration), (match) => match[1]!.trimEnd().split(/[ \t)]/).at(-1)!);
}

/** Whether a string is the path of a PTX, cubin or fatbin file. PTX text never ends with such an extension. */
function isPath(text: string): boolean {
  return /^[^\n]+\.(ptx|cubin|fatbin)$/i.test(text);
}

/** Whether text is PTX: its first token, after white space and comments, is `.version`. */
export function isPtx(text: string): boolean {
  // Matches one comment or run of white space at a time: a repeated group would overflow the stack on thousands of
  // them.
  const spaceOrComment = /[ \t\r\n\f\v]+|\/\/[^\n]*|\/\*[^]*?\*\//y;
  let begin = 0;
  while (spaceOrComment.test(text)) begin = spaceOrComment.lastIndex;
  return text.startsWith(".version", begin);
}
