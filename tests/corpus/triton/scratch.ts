/** The last two arguments of each kernel: the addresses of Triton's scratch memory, which these kernels do not use. */
export const scratch: readonly bigint[] = [0n, 0n];

/** Returns an array of `length` results. */
export function upTo<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => make(index));
}
