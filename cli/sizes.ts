import { UsageError } from "./command_line.ts";

const units: Readonly<Record<string, number>> = { "": 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

/**
 * Parses a size such as `64GiB`, and returns the number of bytes.
 *
 * @throws {UsageError} If the size is not a positive whole number of bytes, KiB, MiB, GiB or TiB
 */
export function parseByteLength(size: string, option: string): number {
  const [, digits, unit] = /^(\d{1,16})(|KiB|MiB|GiB|TiB)$/.exec(size) ?? [];
  const byteLength = digits === undefined ? 0 : Number(digits) * units[unit!]!;
  if (byteLength >= 1 && Number.isSafeInteger(byteLength)) return byteLength;
  throw new UsageError(`${option} takes a size such as 64GiB or 512MiB, and "${size}" was given`);
}
