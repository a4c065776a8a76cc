/**
 * Matrices that the threads of a warp load, store and transpose together. PTX ISA, sections 9.7.14.5.15 to 9.7.14.5.17.
 *
 * A matrix has 8 rows of 8 elements of 16 bits. Lane 4 r + c holds the elements 2 c and 2 c + 1 of row r, or, if the
 * matrix is transposed, of column r.
 *
 * @module
 */
import { threadRecord } from "../../abi/launch_record.ts";
import { forEachLane, type WarpRecords } from "./warp_records.ts";

interface Matrices {
  readonly matrices: number;
  readonly transposed: boolean;
}

interface MovedMatrices {
  readonly fragments?: WarpRecords;
  readonly distance?: number;
}

/**
 * `ldmatrix`: loads every lane's fragments from the rows that the lanes name. An absent lane's row is 0.
 *
 * @param options where the fragments go, and how many bytes behind the rows to read. Default: to the records themselves
 */
export function loadMatrices(
  records: WarpRecords,
  group: number,
  { matrices, transposed, fragments = records, distance = 0 }: Matrices & MovedMatrices,
): void {
  const { memory } = records;
  const read = (place: number) => place === 0 ? 0 : memory[place + distance / 2]!;
  forEachLane(group, (lane) => {
    for (let matrix = 0; matrix < matrices; matrix++) {
      const [low, high] = elementsOf(records, { lane, matrix, group, transposed });
      fragments.set(lane, threadRecord.result + 4 * matrix, read(low) | read(high) << 16);
    }
  });
}

/** `stmatrix`: stores every lane's fragments to the rows that the lanes name. */
export function storeMatrices(
  records: WarpRecords,
  group: number,
  { matrices, transposed, fragments = records, distance = 0 }: Matrices & MovedMatrices,
): void {
  const { memory } = records;
  forEachLane(group, (lane) => {
    for (let matrix = 0; matrix < matrices; matrix++) {
      const word = fragments.get(lane, threadRecord.result + 4 * matrix);
      const [low, high] = elementsOf(records, { lane, matrix, group, transposed });
      if (low !== 0) memory[low + distance / 2] = word;
      if (high !== 0) memory[high + distance / 2] = word >>> 16;
    }
  });
}

/** `movmatrix` */
export function transposeMatrix(records: WarpRecords, group: number): void {
  const element = (row: number, column: number) => {
    const lane = row * 4 + (column >> 1);
    const word = (group >>> lane & 1) === 1 ? records.get(lane, threadRecord.value) : 0;
    return word >>> 16 * (column & 1) & 0xffff;
  };
  forEachLane(group, (lane) => {
    const [row, column] = [lane >> 2, 2 * (lane & 3)];
    records.set(lane, threadRecord.result, element(column, row) | element(column + 1, row) << 16);
  });
}

/** The places in memory, counted in elements, of a lane's two elements of a matrix: 0 where no lane names the row. */
function elementsOf(
  records: WarpRecords,
  { lane, matrix, group, transposed }: {
    readonly lane: number;
    readonly matrix: number;
    readonly group: number;
    readonly transposed: boolean;
  },
): [low: number, high: number] {
  const [major, minor] = [lane >> 2, 2 * (lane & 3)];
  const place = (row: number, column: number) => {
    const named = matrix * 8 + row;
    const begin = (group >>> named & 1) === 1 ? records.get(named, threadRecord.value) >>> 1 : 0;
    return begin === 0 ? 0 : begin + column;
  };
  return transposed ? [place(minor, major), place(minor + 1, major)] : [place(major, minor), place(major, minor + 1)];
}
