import { escapeControls } from "../escape_controls.ts";

/**
 * The error that a wait rejects with when its signal is aborted.
 *
 * An application that aborts with an error of its own gets that error, as from every web API. The runtime's own reasons,
 * `AbortError` and `TimeoutError`, do not say what was awaited, and one signal often ends several waits. In their place
 * comes a new error of the same name that says it, whose `cause` is the signal's reason, as Node's own APIs do. The
 * signal's reason itself is never changed: others wait with the same signal.
 *
 * @param awaited what was awaited, such as `"offer \"weights\" of process 12"`; if undefined, the result is the reason
 * @param why returns why it had not come, if that is known
 */
export function abortError(reason: unknown, awaited: string | undefined, why?: () => string | undefined): unknown {
  if (
    awaited === undefined || !(reason instanceof DOMException) ||
    (reason.name !== "AbortError" && reason.name !== "TimeoutError")
  ) {
    return reason;
  }
  const what = reason.name === "TimeoutError" ? "timed out" : "was aborted";
  const because = why?.();
  const text = `Waiting for ${awaited} ${what}${because === undefined ? "" : `: ${because}`}`;
  const error = new DOMException(escapeControls(text), reason.name);
  return Object.defineProperty(error, "cause", { value: reason, configurable: true, writable: true });
}
