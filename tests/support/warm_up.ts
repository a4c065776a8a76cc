/**
 * Creates what the runtime and the library create once and keep, before a test counts its resources.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";

/** Sends a byte over a socket to a waiting receiver. */
export async function warmUpSockets(): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    const accepted = listener.accept();
    await using near = await UnixSocket.connect(listener.path);
    await using far = await accepted;
    const received = far.receive(1);
    await new Promise((resolve) => setTimeout(resolve));
    await near.send(Uint8Array.of(1));
    await received;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
