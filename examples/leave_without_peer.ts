import process from "node:process";
import type { UnixSocket } from "../mod.ts";
import { say } from "./command_line.ts";

/**
 * Ends this process as soon as the peer at the other end of a socket dies, or on Ctrl-C, until disposed. Unwinding
 * instead would wait for all queued device work, which may itself wait for the dead peer. The peer must send nothing
 * meanwhile.
 */
export function leaveWithoutPeer(
  socket: UnixSocket,
  { name, signal }: { name: string; signal: AbortSignal },
): Disposable {
  const done = new AbortController();
  const leave = (message: string, code: number) => {
    if (done.signal.aborted) return;
    say(name, message);
    process.exit(code);
  };
  signal.addEventListener("abort", () => leave("Interrupted", 130));
  socket.receive(1, { signal: done.signal }).then(
    () => leave("Error: the other process sent a byte that belongs to no message", 1),
    (error) => leave(`Error: ${error.message}`, 1),
  );
  return { [Symbol.dispose]: () => done.abort() };
}
