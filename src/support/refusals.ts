/**
 * Counts the memory and events of other processes that this process refuses before they are passed to NVIDIA's driver,
 * which does not validate them.
 *
 * @module
 */
import { logEvent } from "./event_log.ts";

/**
 * The reason why an import was refused: the code of its `SharingError`, or `cudaErrorInvalidValue` for the handle of
 * `CudaDevice.openMemory`.
 */
export type ImportRefusal = "bad-message" | "size-mismatch" | "too-large" | "cudaErrorInvalidValue";

/**
 * The reason why an event of another process was not opened:
 * - `"forged"`: the handle was not created by a driver, or not by the driver of the process from which it came;
 * - `"unknown-layout"`: the layout of the driver's handles is unknown, so a forged handle could not be detected;
 * - `"other-user"`: the event's process runs as another user;
 * - `"other-namespace"`: the event's process is in another PID namespace.
 */
export type EventRefusal = "forged" | "unknown-layout" | "other-user" | "other-namespace";

/**
 * The result of `refusalStatistics`: plain data. All numbers are totals of the process, or of the Worker, and never
 * decrease. They are not specific to one exporter or importer.
 */
export interface RefusalStatistics {
  /** The number of refused imports of other processes' memory for each error code. */
  readonly imports: Readonly<Partial<Record<ImportRefusal, number>>>;
  /** For each error code, the number of exports that were refused because no process could import the memory. */
  readonly exports: Readonly<Partial<Record<"too-large", number>>>;
  /**
   * The number of events of other processes that were not opened, by the reason. Only `"forged"` is an error. For the
   * other reasons, the state of the event is requested from the event's process instead, which costs a message.
   */
  readonly events: Readonly<Partial<Record<EventRefusal, number>>>;
}

const totals = {
  imports: { "bad-message": 0, "size-mismatch": 0, "too-large": 0, cudaErrorInvalidValue: 0 },
  exports: { "too-large": 0 },
  events: { forged: 0, "unknown-layout": 0, "other-user": 0, "other-namespace": 0 },
};

/**
 * Returns how many imports and events of other processes, and how many exports, this process has refused. The
 * statistics of an exporter, which operators can request, include the same numbers. A process that only imports can
 * pass the result to `prometheusText`.
 *
 * @example
 * ```ts
 * import { prometheusText, refusalStatistics } from "./mod.ts";
 *
 * console.log(refusalStatistics().imports["too-large"]); // 0
 * const [, , line] = prometheusText(refusalStatistics()).split("\n");
 * console.log(line); // poolpass_imports_refused_total{code="bad-message"} 0
 * ```
 */
export function refusalStatistics(): RefusalStatistics {
  const { imports, exports, events } = totals;
  return { imports: { ...imports }, exports: { ...exports }, events: { ...events } };
}

/** Counts and logs the error of a refused import, and returns it. */
export function refusedImport<Refusal extends Error & { readonly code: string }>(error: Refusal): Refusal {
  totals.imports[error.code as ImportRefusal]++;
  logEvent("refuse-import", { code: error.code, error: error.message });
  return error;
}

/** Counts and logs the error of a refused export, and returns it. */
export function refusedExport<Refusal extends Error & { readonly code: string }>(error: Refusal): Refusal {
  totals.exports[error.code as "too-large"]++;
  logEvent("refuse-export", { code: error.code, error: error.message });
  return error;
}

/**
 * Counts an event that is not opened. Logs only events with forged handles, because there may be many events that are
 * not opened for other reasons.
 *
 * @param processId the ID of the process that sent the handle, if it is known
 */
export function countRefusedEvent(reason: EventRefusal, processId?: number): void {
  totals.events[reason]++;
  if (reason === "forged") logEvent("refuse-event", { peer: processId, reason });
}
