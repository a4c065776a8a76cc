/**
 * Places in the sources of a program, read from call stacks.
 *
 * @module
 */
import type { SanitizerAccess, SanitizerReport } from "./sanitizer_report.ts";

/** A line of a call stack. */
export interface Place {
  /** The function, if it has a name. */
  readonly name: string | undefined;
  /** A path, or the URL of what is no file. */
  readonly file: string;
  readonly line: number;
  readonly column: number | undefined;
}

/** `at name (file:line:column)`, the same without a name, or `at name@file:line:column`. */
const frame = /^at (?:async )?(?:(?:(.*?) \(|([^\s/]*)@)(.*?):(\d+)(?::(\d+))?\)?|(.*?):(\d+)(?::(\d+))?)$/;

/** The places of a call stack, from the innermost on. */
export function placesOf(stack: string): Place[] {
  return stack.split("\n").flatMap((line) => {
    const match = frame.exec(line.trim());
    if (match === null) return [];
    const [, name, otherName, file = match[6]!, row = match[7]!, column = match[8]] = match;
    return [{
      name: name ?? (otherName || undefined),
      file: pathOf(file),
      line: Number(row),
      column: column === undefined ? undefined : Number(column),
    }];
  });
}

/** Where the program called what a report is about: the later access, unless that is not known. */
export function placeOf({ accesses }: SanitizerReport): Place | undefined {
  for (const { stack } of accesses) {
    const [place] = placesOf(stack);
    if (place !== undefined) return place;
  }
  return undefined;
}

/** `script.ts:14`, or a line of the kernel for what threads do. Undefined if no place is known. */
export function shortPlaceOf(report: SanitizerReport): string | undefined {
  const access: SanitizerAccess | undefined = report.accesses[0];
  if (access?.block !== undefined && access.source !== undefined) return access.source;
  const place = placeOf(report);
  return place && shortNameOf(place);
}

/** `script.ts:14`. */
export function shortNameOf({ file, line }: Place): string {
  return `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

function pathOf(file: string): string {
  if (!file.startsWith("file://")) return file;
  try {
    // On Windows, what follows the host is "/C:/...".
    return decodeURIComponent(new URL(file).pathname).replace(/^\/(?=[A-Za-z]:)/, "");
  } catch {
    return file;
  }
}
