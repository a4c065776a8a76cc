/**
 * The names that a cubin defines for all other images.
 *
 * @module
 */

/** `SHT_SYMTAB` */
const symbolTable = 2;
const symbolBytes = 24;
/** `STB_GLOBAL`; symbols that are weak, or the image's own, do no harm. */
const globalBinding = 1;
/** `STT_OBJECT`, `STT_FUNC`, and the type that CUDA has for variables before they are linked. */
const definedTypes: readonly number[] = [1, 2, 13];
/** The sections of symbols that are not defined, and from here on, of those in no section, such as common ones. */
const undefinedSection = 0;
const firstReservedSection = 0xff00;

/** The names that a cubin defines for all others, and that no other may define. Empty if it cannot be read. */
export function cubinDefinitions(cubin: Uint8Array): readonly string[] {
  try {
    return readDefinitions(cubin);
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function readDefinitions(cubin: Uint8Array): string[] {
  const view = new DataView(cubin.buffer, cubin.byteOffset, cubin.byteLength);
  const offsetAt = (position: number) => Number(view.getBigUint64(position, true));
  const sections = offsetAt(40);
  const [sectionBytes, sectionCount] = [view.getUint16(58, true), view.getUint16(60, true)];
  const sectionAt = (index: number) => sections + index * sectionBytes;
  const names: string[] = [];
  for (let index = 0; index < sectionCount; index++) {
    const section = sectionAt(index);
    if (view.getUint32(section + 4, true) !== symbolTable) continue;
    const strings = offsetAt(sectionAt(view.getUint32(section + 40, true)) + 24);
    const [begin, byteLength] = [offsetAt(section + 24), offsetAt(section + 32)];
    for (let symbol = begin; symbol + symbolBytes <= begin + byteLength; symbol += symbolBytes) {
      const info = view.getUint8(symbol + 4);
      const definedIn = view.getUint16(symbol + 6, true);
      if (info >> 4 !== globalBinding || !definedTypes.includes(info & 15)) continue;
      if (definedIn === undefinedSection || definedIn >= firstReservedSection) continue;
      const name = strings + view.getUint32(symbol, true);
      const end = cubin.indexOf(0, name);
      names.push(new TextDecoder().decode(cubin.subarray(name, end < 0 ? undefined : end)));
    }
  }
  return names;
}
