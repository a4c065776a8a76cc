/**
 * Encodes the arguments and results of driver calls in another process: as JSON, extended with bigints and bytes.
 *
 * @module
 */

/** Encodes a value. Undefined becomes null, because JSON has no undefined. */
export function encodeValue(value: unknown): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(value ?? null, (_, part: unknown) => {
    if (typeof part === "bigint") return { bigint: String(part) };
    return part instanceof Uint8Array ? { bytes: part.toHex() } : part;
  });
  return new TextEncoder().encode(text);
}

/** Decodes a value. */
export function decodeValue(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes), (_, part: { bigint?: string; bytes?: string } | null) => {
    if (part?.bigint !== undefined) return BigInt(part.bigint);
    return part?.bytes === undefined ? part : Uint8Array.fromHex(part.bytes);
  });
}
