import process from "node:process";
import type { UnixSocket } from "../mod.ts";
import { say } from "./command_line.ts";

/**
 * Ends the process as soon as the process at the other end of a socket is gone, or Ctrl-C comes, until disposed: unwinding
 * would wait for all that the devices have been given, which may wait for that process. It must send nothing meanwhile.
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
