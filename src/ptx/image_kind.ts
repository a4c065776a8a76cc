import { ptxText } from "./ptx_text.ts";

/**
 * The kinds of images that can be linked. An `object` or a `library` is the host's, with device code in it; `ltoir` is
 * code that is compiled when it is linked. A `fatbin` has images of other kinds in it.
 */
export type ImageKind = "ptx" | "cubin" | "fatbin" | "object" | "library" | "ltoir" | "unknown";

const elfMagic = 0x464c457f;
/** The machine in the ELF header of a cubin. */
export const cudaElfMachine: number = 190;
const fatbinMagic = 0xba55ed50;
/** The first byte of `fatbinMagic`. */
const fatbinBeginning = 0x50;
const ltoirMagic = 0x7f4e43ed;
/** How an archive begins: "!<arch>". */
const archiveMagic = 0x72613c21;
/** The kind of an entry of a fatbin that is LTO IR. */
const ltoirEntry = 8;

/** The kind of an image, by how it begins. */
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

/** Whether an image is LTO IR, or a fatbin that has some, alone or in an object or a library of the host. */
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
  // Each entry has a header, whose size stands in it, and a payload.
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
