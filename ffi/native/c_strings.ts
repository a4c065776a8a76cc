/**
 * Strings that C functions return.
 *
 * @module
 */
import { addressOf, dlopen, foreignBuffer, type NativeFunction } from "./host.ts";

const symbols = { strlen: { parameters: ["u64" /* const char *s */], result: "u64" } } as const;
let strlen: NativeFunction<typeof symbols.strlen> | undefined;

/** The string at an address, which ends with a NUL. */
export function stringAt(address: bigint): string {
  strlen ??= dlopen("libc.so.6", symbols).symbols.strlen!;
  return new TextDecoder().decode(foreignBuffer(address, Number(strlen(address))));
}

/**
 * The addresses of C strings as `const char **`, and behind them in the same memory the strings: whatever holds the
 * addresses holds the strings. Null if there are none.
 */
export function cStringArray(strings: readonly string[]): Uint8Array<ArrayBuffer> | null {
  if (strings.length === 0) return null;
  const encoded = strings.map((string) => new TextEncoder().encode(`${string}\0`));
  const pointerBytes = encoded.length * BigUint64Array.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(new ArrayBuffer(encoded.reduce((sum, { length }) => sum + length, pointerBytes)));
  const pointers = new BigUint64Array(bytes.buffer, 0, encoded.length);
  const base = addressOf(bytes);
  let end = pointerBytes;
  encoded.forEach((string, index) => {
    bytes.set(string, end);
    pointers[index] = base + BigInt(end);
    end += string.length;
  });
  return bytes;
}
