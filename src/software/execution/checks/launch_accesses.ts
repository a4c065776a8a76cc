/**
 * Records the accesses of launches to global memory.
 *
 * Compiled code records the common cases itself, in the same cells (`noteAccess`). The other cases are recorded here.
 *
 * @module
 */
import type { LaunchAccess, ThreadIndex } from "../../../kernel_checker.ts";
import { bytesOfPlace, lineOfPlace, operationOfPlace } from "../../abi/addresses.ts";
import { checkTable, note } from "../../abi/check_state.ts";
import { addressOfOffset } from "../../memory/memory_layout.ts";
import type { LaunchCells } from "../../memory/check_memory.ts";

/** The kinds of accesses, numbered from 1 as in compiled code. */
const operations = ["read", "write", "atomic"] as const;

const pageBytes = 1 << checkTable.pageShift;
const wordBytes = 4;
const wholeWord = 15;
/** The number of 32-bit fields of a word's access record; see `note`. */
const noteWords = 1 << note.wordsShift;
const noteBytes = pageBytes / wordBytes * noteWords * 4;

/** Converts between the different ways to identify a thread of the running launch. */
export interface NumberedThreads {
  /** Returns a thread's number in the grid, given the two values with which compiled code identifies the thread. */
  numberOf(place: number, thread: number): number;
  /** Returns the block index and thread index of a thread, given its number in the grid. */
  indexOf(number: number): ThreadIndex;
}

/** The recorded accesses of one kind: reads, writes, or atomic operations. */
class KindAccesses {
  /** The access records of the words of each accessed page, by the index of the page. */
  readonly pages = new Map<number, Int32Array>();
  /**
   * For each word whose bytes were first accessed by different PTX lines, the line of each byte's first access. The key
   * is the offset of the word.
   */
  readonly divided = new Map<number, number[]>();
}

/** The accesses of one launch. */
export class RecordedAccesses {
  readonly #cells: LaunchCells;
  readonly #kinds = operations.map(() => new KindAccesses());

  constructor(cells: LaunchCells) {
    this.#cells = cells;
  }

  /** Excludes a page from recording, so that compiled code skips accesses to the page. */
  ignore(offset: number): void {
    for (let operation = 1; operation <= operations.length; operation++) {
      this.#cells.setNotes(operation, offset >>> checkTable.pageShift, checkTable.ignored);
    }
  }

  /** Records that a thread accesses memory at `offset`. */
  note(offset: number, place: number, thread: number, threads: NumberedThreads): void {
    const end = offset + bytesOfPlace(place);
    const operation = operationOfPlace(place);
    const { pages, divided } = this.#kinds[operation - 1]!;
    const line = lineOfPlace(place);
    for (let at = offset; at < end;) {
      const word = at & ~(wordBytes - 1), next = Math.min(word + wordBytes, end);
      const notes = this.#notesOf(operation, pages, word);
      const index = (word & pageBytes - 1) / wordBytes * noteWords;
      const before = notes[index]!;
      const bits = (1 << next - word) - (1 << at - word);
      if ((before & bits) !== bits) {
        if (before === 0) {
          notes[index + 1] = threads.numberOf(place, thread);
          notes[index] = line << note.lineShift | bits;
        } else {
          notes[index] = before | bits;
          if (before >>> note.lineShift !== line) {
            notes[index] = note.divided | (before | bits) & wholeWord;
            divideNote(divided, word, { before, bits, line });
          }
        }
      }
      at = next;
    }
  }

  #notesOf(operation: number, pages: Map<number, Int32Array>, offset: number): Int32Array {
    const page = offset >>> checkTable.pageShift;
    let notes = pages.get(page);
    if (notes === undefined) {
      pages.set(page, notes = this.#cells.allocate(noteBytes));
      this.#cells.setNotes(operation, page, this.#cells.offsetOf(notes));
    }
    return notes;
  }

  /** Returns all accesses: reads first, then writes, then atomic operations, each kind ordered by address. */
  toArray(sourceOf: (place: number) => string, threads: NumberedThreads): LaunchAccess[] {
    const ranges: LaunchAccess[] = [];
    operations.forEach((operation, kind) => {
      const add = (begin: number, end: number, line: number, thread: number) => {
        const first = threads.indexOf(thread);
        ranges.push({
          address: addressOfOffset(begin),
          byteLength: end - begin,
          operation,
          source: sourceOf(line),
          first,
        });
      };
      forEachRange(this.#kinds[kind]!, add);
    });
    return ranges;
  }
}

/**
 * Records a separate PTX line for each byte of a word whose bytes were first accessed by different lines. Sets the
 * lines of the newly accessed bytes to `line`.
 */
function divideNote(
  divided: Map<number, number[]>,
  word: number,
  { before, bits, line }: { before: number; bits: number; line: number },
): void {
  let lines = divided.get(word);
  if (lines === undefined) divided.set(word, lines = new Array(wordBytes).fill(before >>> note.lineShift));
  for (let byte = 0; byte < wordBytes; byte++) {
    if ((bits & ~before & 1 << byte) !== 0) lines[byte] = line;
  }
}

/**
 * Calls `add` for each range of bytes that were first accessed by the same PTX line. Passes the thread that first
 * accessed the first word of the range.
 */
function forEachRange(
  { pages, divided }: KindAccesses,
  add: (begin: number, end: number, line: number, thread: number) => void,
): void {
  let begin = 0, end = 0, line = 0, thread = 0;
  for (const page of [...pages.keys()].sort((a, b) => a - b)) {
    const notes = pages.get(page)!;
    for (let index = 0; index < notes.length; index += noteWords) {
      // Fast path: if the current range ends at this word, extends the range over as many words as possible whose four
      // bytes were all first accessed by the PTX line of the range.
      if (end === page * pageBytes + index / noteWords * wordBytes) {
        const first = index, same = line << note.lineShift | wholeWord;
        while (notes[index] === same) index += noteWords;
        end += (index - first) / noteWords * wordBytes;
      }
      while (notes[index] === 0) index += noteWords;
      if (index >= notes.length) break;
      const noted = notes[index]!;
      const word = page * pageBytes + index / noteWords * wordBytes;
      const isDivided = (noted & note.divided) !== 0;
      for (let byte = 0; byte < wordBytes; byte++) {
        if ((noted & 1 << byte) === 0) continue;
        const at = word + byte;
        const its = isDivided ? divided.get(word)![byte]! : noted >>> note.lineShift;
        if (at !== end || its !== line) {
          if (begin !== end) add(begin, end, line, thread);
          begin = at;
          line = its;
          thread = notes[index + 1]! >>> 0;
        }
        end = at + 1;
      }
    }
  }
  if (begin !== end) add(begin, end, line, thread);
}
