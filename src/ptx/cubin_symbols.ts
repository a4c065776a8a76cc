/**
 * The names that an image defines for all other images, and those that others must define.
 *
 * @module
 */
import { parsePtx } from "./parsing/parser.ts";
import { PtxError } from "./syntax.ts";

/** `SHT_SYMTAB` */
const symbolTable = 2;
const symbolBytes = 24;
/** `STB_GLOBAL`; symbols that are weak, or the image's own, do no harm. */
const globalBinding = 1;
/** `STT_OBJECT`, `STT_FUNC`, and the type that CUDA has for variables before they are linked. */
const namedTypes: readonly number[] = [1, 2, 13];
/** The sections of symbols that are not defined, and from here on, of those in no section, such as common ones. */
const undefinedSection = 0;
const firstReservedSection = 0xff00;

/** `STO_CUDA_SHARED`: the launch gives it. */
const sharedMemory = 0x40;

interface Symbol {
  readonly name: string;
  readonly section: number;
  readonly other: number;
}

/** The names that a cubin defines for all others, and that no other may define. Empty if it cannot be read. */
export function cubinDefinitions(cubin: Uint8Array): readonly string[] {
  return globalSymbols(cubin)
    .filter(({ section }) => section !== undefinedSection && section < firstReservedSection)
    .map(({ name }) => name);
}

/** The functions and variables that a cubin uses and does not define. Empty if it cannot be read. */
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

/** The names that a PTX module defines for all others, and that no other may define. Empty if it cannot be parsed. */
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
