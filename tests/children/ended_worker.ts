// Ends Workers that wait for a connection, and then lets their waits return: ended_worker.ts SOCKET. Prints what this
// thread receives afterwards and how many of the shim's libraries are loaded, and exits by itself. Runs in a process of
// its own, because a bug here would crash it.
import { readFileSync } from "node:fs";
import process from "node:process";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";

const workers = 10;

if (isMainThread) {
  const path = process.argv[2]!;
  for (let index = 0; index < workers; index++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: `${path}${index}` });
    await new Promise((resolve) => worker.once("message", resolve));
    await worker.terminate();
  }
  for (let index = 0; index < workers; index++) {
    await using socket = await UnixSocket.connect(`${path}${index}`);
    void socket;
  }
  await using listener = UnixListener.listen(path);
  await using socket = await UnixSocket.connect(path);
  await using accepted = await listener.accept();
  await socket.send(new Uint8Array([7]));
  console.log("received", (await accepted.receive(1)).bytes[0]);
  const mappings = readFileSync("/proc/self/maps", "utf8").matchAll(/ (\d+) +\/memfd:poolpass-shim/g);
  console.log("libraries", new Set([...mappings].map(([, inode]) => inode)).size);
} else {
  const listener = UnixListener.listen(workerData as string);
  void listener.accept();
  parentPort!.postMessage("waiting");
}
