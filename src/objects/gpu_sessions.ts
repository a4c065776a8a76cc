/**
 * The sessions of this process that use GPUs. They share the devices' contexts: some calls of one wait for the work of all.
 *
 * @module
 */
import type { Session } from "../session.ts";

const sessions = new Set<WeakRef<Session>>();
let action: ((session: Session) => void) | undefined;

/** To be called for each session when it is opened. */
export function noteSession(session: Session): void {
  if (session.driver.kind !== "cuda") return;
  for (const each of sessions) if (each.deref()?.hasEnded !== false) sessions.delete(each);
  sessions.add(new WeakRef(session));
  action?.(session);
}

/** Calls a function for each session, and for those that are opened later. The first call of this function decides. */
export function forEachGpuSession(call: (session: Session) => void): void {
  if (action !== undefined) return;
  action = call;
  for (const each of sessions) {
    const session = each.deref();
    if (session?.hasEnded === false) call(session);
  }
}
