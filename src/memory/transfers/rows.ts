/**
 * Rows of bytes at equal distances, in slices at equal distances: their size, their bounds, and whether two of them
 * overlap.
 *
 * @module
 */

/** The number and the length of rows. */
export interface RowsShape {
  /** The length of a row in bytes. */
  readonly width: number;
  /** The number of rows in a slice. */
  readonly height: number;
  /** The number of slices. */
  readonly depth: number;
}

/** The distances of rows and slices. */
export interface RowsDistances {
  /** Bytes from row to row. */
  readonly pitch: number;
  /** Bytes from slice to slice. */
  readonly slicePitch: number;
}

/** A part of rows. */
export interface RowsPart extends RowsShape {
  /** The offset of the part in its rows, in bytes. */
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

/** The largest pitch that CUDA copies: `CU_DEVICE_ATTRIBUTE_MAX_PITCH` of all devices. */
export const maximumPitch: number = 2 ** 31 - 1;

/** Returns the distances of rows without gaps. */
export function withoutGaps({ width, height }: RowsShape): RowsDistances {
  return { pitch: width, slicePitch: width * height };
}

/** Returns the number of bytes from the beginning of the first row to the end of the last one. */
export function spanOf({ width, height, depth }: RowsShape, { pitch, slicePitch }: RowsDistances): number {
  if (width === 0 || height === 0 || depth === 0) return 0;
  return (depth - 1) * slicePitch + (height - 1) * pitch + width;
}

/** Returns the offset of a part from the beginning of the first row. */
export function offsetOf({ x, y, z }: Pick<RowsPart, "x" | "y" | "z">, { pitch, slicePitch }: RowsDistances): number {
  return z * slicePitch + y * pitch + x;
}

/**
 * Returns an equal description of one or several memories in as few dimensions as possible. Rows without gaps in all of
 * them become one row, which a copy in one dimension copies.
 */
export function simplifiedRows<Ends extends readonly RowsDistances[]>(
  size: RowsShape,
  ends: Ends,
): { size: RowsShape; ends: { readonly [Index in keyof Ends]: RowsDistances } } {
  let { width, height, depth } = size;
  // The usual case costs no more than a look: two dimensions, and gaps.
  if (depth === 1 && height > 1 && ends.some(({ pitch }) => pitch !== width)) return { size, ends: ends as never };
  let pitches = ends.map(({ pitch }) => pitch), slicePitches = ends.map(({ slicePitch }) => slicePitch);
  const mergeSlices = () => {
    [height, depth, pitches] = [depth, 1, slicePitches];
  };
  const areSmall = slicePitches.every((slicePitch) => slicePitch <= maximumPitch);
  if (depth > 1) {
    if (slicePitches.every((slicePitch, index) => slicePitch === pitches[index]! * height)) {
      [height, depth] = [height * depth, 1];
    } else if (height === 1 && areSmall) mergeSlices();
    else if (pitches.every((pitch) => pitch === width) && areSmall) {
      width *= height;
      mergeSlices();
    }
  }
  if (depth === 1 && pitches.every((pitch) => pitch === width)) [width, height] = [width * height, 1];
  if (depth === 1 && height === 1) pitches = pitches.map(() => width);
  if (depth === 1) slicePitches = pitches.map((pitch) => pitch * height);
  const distances = pitches.map((pitch, index) => ({ pitch, slicePitch: slicePitches[index]! }));
  return { size: { width, height, depth }, ends: distances as never };
}

/** Yields parts of rows of at most `maximum` bytes each, in the order of the bytes. */
export function* rowsPartsOf({ width, height, depth }: RowsShape, maximum: number): Generator<RowsPart> {
  const sliceLength = width * height;
  if (sliceLength === 0) return;
  const slices = Math.max(1, Math.floor(maximum / sliceLength));
  for (let z = 0; z < depth; z += slices) {
    if (sliceLength <= maximum) {
      yield { x: 0, y: 0, z, width, height, depth: Math.min(slices, depth - z) };
      continue;
    }
    const rows = Math.max(1, Math.floor(maximum / width));
    for (let y = 0; y < height; y += rows) {
      if (width <= maximum) {
        yield { x: 0, y, z, width, height: Math.min(rows, height - y), depth: 1 };
        continue;
      }
      for (let x = 0; x < width; x += maximum) {
        yield { x, y, z, width: Math.min(maximum, width - x), height: 1, depth: 1 };
      }
    }
  }
}

/** Copies rows in host memory. Both ends begin with the first row. */
export function copyRows(
  to: Uint8Array,
  toDistances: RowsDistances,
  from: Uint8Array,
  fromDistances: RowsDistances,
  { width, height, depth }: RowsShape,
): void {
  for (let z = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) {
      const begin = offsetOf({ x: 0, y, z }, fromDistances);
      to.set(from.subarray(begin, begin + width), offsetOf({ x: 0, y, z }, toDistances));
    }
  }
}

/**
 * Returns whether two sets of rows of the same size overlap. `distance` is the number of bytes from the beginning of
 * the first set to that of the second one.
 */
export function doOverlap(size: RowsShape, first: RowsDistances, second: RowsDistances, distance: number): boolean {
  const [before, after] = distance >= 0 ? [first, second] : [second, first];
  const offset = Math.abs(distance);
  if (offset >= spanOf(size, before) || spanOf(size, after) === 0) return false;
  if (before.pitch === after.pitch && before.slicePitch === after.slicePitch) {
    return haveCommonRow(size, before, offset);
  }
  const { width, height, depth } = size;
  // Looks for each row of the set that begins later among the rows of the other one.
  for (let z = 0; z < depth; z++) {
    for (let y = 0; y < height; y++) {
      if (hasBytes(size, before, offset + offsetOf({ x: 0, y, z }, after), width)) return true;
    }
  }
  return false;
}

/** Returns whether `length` bytes from an offset on overlap a set of rows. */
function hasBytes(size: RowsShape, distances: RowsDistances, begin: number, length: number): boolean {
  const { width, height, depth } = size;
  const { pitch, slicePitch } = distances;
  const end = begin + length;
  // A slice ends where the next one begins, at the latest, and so does a row.
  const firstSlice = Math.max(0, Math.floor(begin / slicePitch));
  for (let z = firstSlice; z < depth && z * slicePitch < end; z++) {
    const inSlice = begin - z * slicePitch;
    const firstRow = Math.max(0, Math.floor(inSlice / pitch));
    for (let y = firstRow; y < height && z * slicePitch + y * pitch < end; y++) {
      const row = z * slicePitch + y * pitch;
      if (row < end && begin < row + width) return true;
    }
  }
  return false;
}

/** Returns whether two sets of rows with the same distances overlap, of which the second begins `offset` bytes later. */
function haveCommonRow(
  { width, height, depth }: RowsShape,
  { pitch, slicePitch }: RowsDistances,
  offset: number,
): boolean {
  for (const z of nearest(offset, slicePitch)) {
    if (Math.abs(z) >= depth) continue;
    const inSlice = offset - z * slicePitch;
    for (const y of nearest(inSlice, pitch)) {
      if (Math.abs(y) < height && Math.abs(inSlice - y * pitch) < width) return true;
    }
  }
  return false;
}

/** The multiples of a distance around an offset. */
function nearest(offset: number, distance: number): readonly [number, number] {
  const multiple = Math.floor(offset / distance);
  return [multiple, multiple + 1];
}
