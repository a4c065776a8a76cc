/**
 * Counts what this process refuses of other processes' memory and events before its driver sees it, because NVIDIA's
 * driver believes what they state.
 *
 * @module
 */
import { logEvent } from "./event_log.ts";

/**
 * Why an import was refused: the code of its `SharingError`, or `cudaErrorInvalidValue` for the handle of
 * `CudaDevice.openMemory`.
 */
export type ImportRefusal = "bad-message" | "size-mismatch" | "too-large" | "cudaErrorInvalidValue";

/**
 * Why an event of another process was not opened:
 * - `"forged"`: no driver has made its handle, or that of another process has;
 * - `"unknown-layout"`: the driver's handles have a layout that is not known, so that a forged one could not be told;
 * - `"other-user"`: its process runs as another user;
 * - `"other-namespace"`: its process lives in another PID namespace.
 */
export type EventRefusal = "forged" | "unknown-layout" | "other-user" | "other-namespace";

/**
 * What `refusalStatistics` returns: plain data. All numbers are totals of the process, or of the Worker, and never
 * decrease. They belong to no exporter and no importer in particular.
 */
export interface RefusalStatistics {
  /** Imports of other processes' memory that were refused, by the code of the error. */
  readonly imports: Readonly<Partial<Record<ImportRefusal, number>>>;
  /** Exports that were refused because no process could import the memory, by the code of the error. */
  readonly exports: Readonly<Partial<Record<"too-large", number>>>;
  /**
   * Events of other processes that were not opened, by the reason. Except for forged ones, nothing is wrong: their
   * processes are asked, which costs a message.
   */
  readonly events: Readonly<Partial<Record<EventRefusal, number>>>;
}

const totals = {
  imports: { "bad-message": 0, "size-mismatch": 0, "too-large": 0, cudaErrorInvalidValue: 0 },
  exports: { "too-large": 0 },
  events: { forged: 0, "unknown-layout": 0, "other-user": 0, "other-namespace": 0 },
};

/**
 * Returns how much of other processes' memory and events this process has refused, and how many exports. An exporter's
 * statistics and its operators have the same numbers; a process that only imports can pass them to `prometheusText`.
 *
 * @example
 * ```ts
 * import { prometheusText, refusalStatistics } from "./mod.ts";
 *
 * console.log(refusalStatistics().imports["too-large"]); // 0
 * console.log(prometheusText(refusalStatistics()).split("\n")[2]); // poolpass_imports_refused_total{code="bad-message"} 0
 * ```
 */
export function refusalStatistics(): RefusalStatistics {
  const { imports, exports, events } = totals;
  return { imports: { ...imports }, exports: { ...exports }, events: { ...events } };
}

/** Counts and logs the error of an import. Returns it. */
export function refusedImport<Refusal extends Error & { readonly code: string }>(error: Refusal): Refusal {
  totals.imports[error.code as ImportRefusal]++;
  logEvent("refuse-import", { code: error.code, error: error.message });
  return error;
}

/** Counts and logs the error of an export. Returns it. */
export function refusedExport<Refusal extends Error & { readonly code: string }>(error: Refusal): Refusal {
  totals.exports[error.code as "too-large"]++;
  logEvent("refuse-export", { code: error.code, error: error.message });
  return error;
}

/**
 * Counts an event that is not opened. Logs forged ones, and none of the others: there may be many.
 *
 * @param processId that of the process that sent the handle, if it is known
 */
export function countRefusedEvent(reason: EventRefusal, processId?: number): void {
  totals.events[reason]++;
  if (reason === "forged") logEvent("refuse-event", { peer: processId, reason });
}
