/**
 * Copies and fills of linear memory as jobs: each block of a job is a part of the range. Changes of a device's access are
 * jobs of one block.
 *
 * @module
 */
import { boundsTable } from "../../abi/addresses.ts";
import { changeAccess } from "../../memory/access.ts";
import { granuleByteLength, linearMemoryByteLength } from "../../memory/memory_layout.ts";
import { type Job, type JobFields, jobKinds } from "./job_board.ts";

/** The size in bytes of the part of a copy or a fill that a thread claims at once. */
const partBytes = 2 ** 20;

const granuleCount = linearMemoryByteLength / granuleByteLength;

/** Returns the number of rows of a copy or a fill of rows that a thread claims at once. */
function rowsPerPart({ byteLength }: Pick<JobFields, "byteLength">): number {
  return Math.max(1, Math.floor(partBytes / byteLength));
}

/** Returns the number of parts of a job that transferParts runs. */
export function partCount(transfer: Pick<JobFields, "kind" | "byteLength"> & { readonly rows?: number }): number {
  const { kind, byteLength, rows } = transfer;
  if (kind === jobKinds.access) return 1;
  return rows === undefined ? Math.ceil(byteLength / partBytes) : Math.ceil(rows / rowsPerPart(transfer));
}

/** Returns where a row begins, in bytes behind the first one. */
export function beginOfRow(
  row: number,
  height: number,
  { pitch, rows }: { readonly pitch: number; readonly rows: number },
): number {
  return (Math.floor(row / height) * rows + row % height) * pitch;
}

/** Copies or fills the parts that the calling thread has claimed of a job, or makes its change of access. */
export function transferParts(
  memory: WebAssembly.Memory,
  fields: JobFields,
  { first, last }: Pick<Job, "first" | "last">,
): void {
  const buffer = memory.buffer as ArrayBuffer;
  const { kind, from, to, byteLength, value, bounds } = fields;
  if (kind === jobKinds.access) {
    const allocations = new Uint32Array(buffer, bounds, granuleCount);
    const lengths = new Uint32Array(buffer, bounds + boundsTable.lengths, granuleCount);
    return changeAccess({ allocations, lengths }, { begin: to, byteLength, isAllowed: value === 1 });
  }
  if (kind === jobKinds.copyRows || kind === jobKinds.fillRows) {
    const perPart = rowsPerPart(fields);
    return transferRows(buffer, fields, { begin: first * perPart, end: Math.min(last * perPart, fields.rows) });
  }
  const begin = first * partBytes, length = Math.min(last * partBytes, byteLength) - begin;
  if (kind === jobKinds.copy) copyBytes(buffer, { from: from + begin, to: to + begin, length });
  else fillElements(buffer, { ...fields, to: to + begin, byteLength: length });
}

function transferRows(
  buffer: ArrayBuffer,
  { kind, from, to, byteLength, elementBytes, value, height, fromPitch, fromRows, toPitch, toRows }: JobFields,
  { begin, end }: { readonly begin: number; readonly end: number },
): void {
  for (let row = begin; row < end; row++) {
    const at = to + beginOfRow(row, height, { pitch: toPitch, rows: toRows });
    if (kind === jobKinds.fillRows) {
      fillElements(buffer, { to: at, byteLength, elementBytes, value });
    } else {
      const source = from + beginOfRow(row, height, { pitch: fromPitch, rows: fromRows });
      copyBytes(buffer, { from: source, to: at, length: byteLength });
    }
  }
}

function copyBytes(
  buffer: ArrayBuffer,
  { from, to, length }: { readonly from: number; readonly to: number; readonly length: number },
): void {
  new Uint8Array(buffer, to, length).set(new Uint8Array(buffer, from, length));
}

function fillElements(
  buffer: ArrayBuffer,
  { to, byteLength, elementBytes, value }: Pick<JobFields, "to" | "byteLength" | "elementBytes" | "value">,
): void {
  const type = elementBytes === 4 ? Uint32Array : elementBytes === 2 ? Uint16Array : Uint8Array;
  new type(buffer, to, byteLength / elementBytes).fill(value);
}
