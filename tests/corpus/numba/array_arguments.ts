/**
 * What Numba's kernels take for an array: where it is managed, which is nowhere here, its length, the bytes of an
 * element, its address, and the length and the stride in bytes of each dimension.
 */
export function array(buffer: string, elementBytes: number, ...shape: readonly number[]): (string | number | bigint)[] {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((bytes, length) => bytes * length, elementBytes));
  return [0n, 0n, shape.reduce((a, b) => a * b, 1), elementBytes, buffer, ...shape, ...strides];
}

/** Returns an array of `length` results. */
export function upTo<T>(length: number, make: (index: number) => T): T[] {
  return Array.from({ length }, (_, index) => make(index));
}
