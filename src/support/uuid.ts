/**
 * The text that CUDA's tools show for a device's 16-byte UUID: `GPU-14e79943-d9b5-ef5b-1063-3010823d4b49`, and with `MIG-`
 * for a part of a GPU.
 */
export function formatUuid(uuid: Uint8Array, kind: "GPU" | "MIG" = "GPU"): string {
  const digits = uuid.toHex();
  const parts = [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)];
  return `${kind}-${parts.join("-")}`;
}

/** The 16 bytes of a UUID as `formatUuid` writes it. */
export function parseUuid(uuid: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromHex(uuid.slice("GPU-".length).replaceAll("-", ""));
}

/** Whether two texts are of the same 16 bytes: who is told the bytes alone cannot know of which kind the device is. */
export function isSameUuid(one: string, other: string): boolean {
  return one.slice("GPU-".length) === other.slice("GPU-".length);
}
