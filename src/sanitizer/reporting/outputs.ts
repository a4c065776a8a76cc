/**
 * Where reports go beside the listener and standard error, and which are left out: what the environment asks for.
 *
 * @module
 */
import { environmentVariable } from "../../../ffi/native/environment.ts";
import { appendToFile, readTextFile } from "../../../ffi/native/shim/text_files.ts";
import { shown } from "../../support/validation.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";
import { annotationOf } from "./annotations.ts";
import { type LogFile, ReportLog } from "./report_log.ts";
import { Suppressions } from "./suppressions.ts";

/** What a sanitizer does with its reports. */
export interface Outputs {
  /** Which reports are left out. */
  readonly suppressions?: Suppressions | undefined;
  /** The file of `POOLPASS_SANITIZE_REPORT`. */
  readonly log?: ReportLog | undefined;
  /** What is printed of a report beside its message. */
  readonly annotate?: ((report: SanitizerReport) => string) | undefined;
}

/** By path: a process reads a file once, and tells once what of it was of no use. */
const known = new Map<string, Suppressions>();
const refused = new Set<string>();

/**
 * What the environment asks for.
 *
 * @throws {RangeError} If the suppressions cannot be used
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

/** A file that cannot be written costs a warning: the program has not asked for it. */
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
