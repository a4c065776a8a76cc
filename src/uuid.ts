/** The text that CUDA's tools show for a device's 16-byte UUID: `GPU-14e79943-d9b5-ef5b-1063-3010823d4b49`. */
export function formatUuid(uuid: Uint8Array): string {
  const digits = uuid.toHex();
  const parts = [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)];
  return `GPU-${parts.join("-")}`;
}

/** The 16 bytes of a UUID as `formatUuid` writes it. */
export function parseUuid(uuid: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(uuid.slice("GPU-".length).replaceAll("-", ""));
}
