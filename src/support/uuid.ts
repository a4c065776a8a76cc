/**
 * Formats a device's 16-byte UUID as CUDA's tools do: `GPU-14e79943-d9b5-ef5b-1063-3010823d4b49`, or with `MIG-` for a
 * part of a partitioned GPU.
 */
export function formatUuid(uuid: Uint8Array, kind: "GPU" | "MIG" = "GPU"): string {
  const digits = uuid.toHex();
  const parts = [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)];
  return `${kind}-${parts.join("-")}`;
}

/** Parses a UUID that `formatUuid` has formatted. Returns the 16 bytes. */
export function parseUuid(uuid: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(uuid.slice("GPU-".length).replaceAll("-", ""));
}

/**
 * Returns whether two formatted UUIDs have the same 16 bytes. Ignores the prefix (`GPU-` or `MIG-`), which is not part
 * of the bytes.
 */
export function isSameUuid(one: string, other: string): boolean {
  return one.slice("GPU-".length) === other.slice("GPU-".length);
}
