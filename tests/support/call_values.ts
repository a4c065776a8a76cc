/**
 * What calls of a driver in another process are passed and return, as bytes: JSON that has bigints and bytes too.
 *
 * @module
 */

/** Undefined becomes null, as JSON has nothing else for it. */
export function encodeValue(value: unknown): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(value ?? null, (_, part: unknown) => {
    if (typeof part === "bigint") return { bigint: String(part) };
    return part instanceof Uint8Array ? { bytes: part.toHex() } : part;
  });
  return new TextEncoder().encode(text);
}

/** What was encoded. */
export function decodeValue(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes), (_, part: { bigint?: string; bytes?: string } | null) => {
    if (part?.bigint !== undefined) return BigInt(part.bigint);
    return part?.bytes === undefined ? part : Uint8Array.fromHex(part.bytes);
  });
}
