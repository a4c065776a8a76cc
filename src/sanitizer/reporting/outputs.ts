/**
 * The outputs that environment variables configure: suppressions, a file of reports in JSON lines, and annotations for
 * GitHub Actions.
 *
 * @module
 */
import { environmentVariable } from "../../../ffi/native/environment.ts";
import { appendToFile, readTextFile } from "../../../ffi/native/shim/text_files.ts";
import { shown } from "../../support/validation.ts";
import { frameOfReport } from "./call_stacks.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";
import { Suppressions, type UsedSuppression } from "./suppressions.ts";

/** A file to which lines are appended. */
export interface LogFile {
  /** The file's name in messages. */
  readonly name: string;
  /**
   * Appends a line, which must end with a newline.
   *
   * @throws {Error} If the line cannot be written; its message is the reason
   */
  append(line: string): void;
}

/** Appends the reports of one `Cuda` object to a file, each as a line of JSON. */
export class ReportLog {
  readonly #file: LogFile;
  readonly #pid: number;
  /**
   * A random identifier of the `Cuda` object, which each line contains. The process ID does not suffice: it may be
   * reused, and Workers share it.
   */
  readonly #run: string = crypto.randomUUID();
  /** The number of each appended report, counted from 1. */
  readonly #numbers = new Map<SanitizerReport, number>();
  #hasFailed = false;

  constructor(file: LogFile, pid: number) {
    this.#file = file;
    this.#pid = pid;
  }

  /** Appends a report immediately, so that the report is not lost if the process crashes. */
  add(report: SanitizerReport): void {
    const number = this.#numbers.size + 1;
    this.#numbers.set(report, number);
    const { check, kind, message, accesses } = report;
    this.#append({ type: "report", pid: this.#pid, run: this.#run, number, check, kind, message, accesses });
  }

  /** Appends the last line, which has the final counts of all reports and the suppressions that were used. */
  end(suppressed: readonly UsedSuppression[]): void {
    const counts = Array.from(this.#numbers.keys(), ({ count }) => count);
    this.#append({
      type: "end",
      pid: this.#pid,
      run: this.#run,
      counts,
      suppressed: suppressed.map(({ suppression: { text, line }, count }) => ({ suppression: text, line, count })),
    });
  }

  #append(record: object): void {
    if (this.#hasFailed) return;
    try {
      this.#file.append(`${JSON.stringify(record)}\n`);
    } catch (error) {
      this.#hasFailed = true;
      console.warn(`poolpass: cannot write the sanitizer's reports to ${this.#file.name}: ${(error as Error).message}`);
    }
  }
}

/** What a sanitizer does with reports in addition to calling its listener. */
export interface Outputs {
  /** Called with each new report before anyone else gets it. */
  readonly prepare?: ((report: SanitizerReport) => void) | undefined;
  /** The suppressions: mistakes that match one are counted but not reported. */
  readonly suppressions?: Suppressions | undefined;
  /** The log in the file that `POOLPASS_SANITIZE_REPORT` names. */
  readonly log?: ReportLog | undefined;
  /** Returns an annotation for a report, which is printed after the report's message. */
  readonly annotate?: ((report: SanitizerReport) => string) | undefined;
}

/** The parsed suppression files, keyed by path. A process reads each file, and lists its unused entries, only once. */
const known = new Map<string, Suppressions>();
/** The paths of report files that cannot be written. A warning has been printed for each of them. */
const refused = new Set<string>();

/**
 * Returns the outputs that the environment variables configure.
 *
 * @throws {RangeError} If the suppressions cannot be read or are malformed
 */
export function outputsOfEnvironment(): Outputs {
  return { suppressions: suppressionsOfEnvironment(), log: logOfEnvironment(), annotate: annotationsOfEnvironment() };
}

function suppressionsOfEnvironment(): Suppressions | undefined {
  const path = environmentVariable("POOLPASS_SANITIZE_SUPPRESS");
  if (path === undefined || path === "") return undefined;
  let suppressions = known.get(path);
  if (suppressions === undefined) {
    let text: string;
    try {
      text = readTextFile(path);
    } catch (error) {
      const { message } = error as Error;
      throw new RangeError(`Cannot use POOLPASS_SANITIZE_SUPPRESS=${shown(path)}: the file cannot be read: ${message}`);
    }
    known.set(path, suppressions = new Suppressions(path, text));
  }
  return suppressions;
}

/**
 * Opens the file that `POOLPASS_SANITIZE_REPORT` names. If the file cannot be written, prints a warning instead of
 * throwing, because the variable is set outside of the program.
 */
function logOfEnvironment(): ReportLog | undefined {
  const pattern = environmentVariable("POOLPASS_SANITIZE_REPORT");
  if (pattern === undefined || pattern === "") return undefined;
  const { pid } = (globalThis as unknown as { process: { pid: number } }).process;
  const path = pattern.replaceAll("%p", `${pid}`);
  const file: LogFile = { name: shown(path), append: (line) => appendToFile(path, line) };
  try {
    file.append("");
    return new ReportLog(file, pid);
  } catch (error) {
    if (!refused.has(path)) {
      console.warn(
        `poolpass: POOLPASS_SANITIZE_REPORT does nothing: cannot write ${file.name}: ${(error as Error).message}`,
      );
    }
    refused.add(path);
    return undefined;
  }
}

function annotationsOfEnvironment(): Outputs["annotate"] {
  const value = environmentVariable("GITHUB_ACTIONS");
  if (value === undefined || value === "" || value === "false") return undefined;
  const workspace = environmentVariable("GITHUB_WORKSPACE");
  return (report) => annotationOf(report, workspace);
}

/**
 * Returns a GitHub Actions workflow command that annotates the source line of a report's later access.
 *
 * @param workspace the folder of the repository; paths in annotations are relative to it
 */
export function annotationOf(report: SanitizerReport, workspace: string | undefined): string {
  const place = frameOfReport(report);
  const properties = Object.entries({
    // A module loaded from the network is not in the repository, so its annotation has no file and line.
    ...place === undefined || /^\w+:\/\//.test(place.file)
      ? {}
      : { file: relativeTo(workspace, place.file), line: `${place.line}`, col: place.column?.toString() },
    title: `poolpass sanitizer: ${report.kind}`,
  }).filter(([, value]) => value !== undefined);
  const list = properties.map(([name, value]) => `${name}=${escapedProperty(value!)}`).join(",");
  return `::error ${list}::${escapedMessage(report.message)}`;
}

function relativeTo(workspace: string | undefined, file: string): string {
  if (workspace === undefined || workspace === "") return file;
  const folder = workspace.endsWith("/") ? workspace : `${workspace}/`;
  return file.startsWith(folder) ? file.slice(folder.length) : file;
}

function escapedMessage(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escapedMessage(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
