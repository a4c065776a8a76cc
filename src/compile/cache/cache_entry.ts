/**
 * The files of a cache.
 *
 * @module
 */
import { sha256 } from "../../support/sha256.ts";
import type { CompilerOutput } from "../compiler.ts";

/** Changes with the format, and with what is made of a program. */
export const formatVersion = 1;

const magic = new TextEncoder().encode(`poolpass-compiled-${formatVersion}\n`);
const digestByteLength = 32;

interface Header {
  readonly key: string;
  readonly log: string;
  readonly loweredNames: readonly (readonly [expression: string, name: string])[];
  /** The bytes of the PTX, which the cubin follows. */
  readonly ptxByteLength: number;
  readonly hasCubin: boolean;
}

/** Writes what a compiler has made of the program with a key. */
export function encodeEntry(key: string, { ptx, cubin, log, loweredNames }: CompilerOutput): Uint8Array {
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

/** Reads a file. Undefined if it is not what was written for the key, all of it. */
export function decodeEntry(key: string, bytes: Uint8Array): CompilerOutput | undefined {
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
