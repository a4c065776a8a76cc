/**
 * Strings that C functions return.
 *
 * @module
 */
import { dlopen, foreignBuffer, type NativeFunction } from "./host.ts";

const symbols = { strlen: { parameters: ["u64" /* const char *s */], result: "u64" } } as const;
let strlen: NativeFunction<typeof symbols.strlen> | undefined;

/** The string at an address, which ends with a NUL. */
export function stringAt(address: bigint): string {
  strlen ??= dlopen("libc.so.6", symbols).symbols.strlen!;
  return new TextDecoder().decode(foreignBuffer(address, Number(strlen(address))));
}
