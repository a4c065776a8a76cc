// Uses sockets while few descriptors are free: node tests/children/sharing/few_descriptors.ts FOLDER. Prints what
// happened without free descriptors, and exits with 0 if everything works again afterwards.
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const path = `${process.argv[2]}/few`;
await using listener = UnixListener.listen(path);
await using waiting = await UnixSocket.connect(path);
await using accepted = await listener.accept();
using handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 4096));
await waiting.send(new Uint8Array(8), { handles: [handle] });
await accepted.receive(4, { handles: 1 }).then(({ handles }) => handles[0]![Symbol.dispose]());
await accepted.receive(4);
await using unaccepted = await UnixSocket.connect(path);

const taken = takeAllDescriptors(handle.fd);
console.log("connect:", await codeOf(UnixSocket.connect(path)));
console.log("listen:", await codeOf((async () => await Promise.resolve(UnixListener.listen(`${path}2`)))()));
console.log("accept:", await codeOf(listener.accept()));
await waiting.send(new Uint8Array(4), { handles: [handle, handle] });
console.log("receive:", await codeOf(accepted.receive(4, { handles: 2 })));
console.log("receive again:", await codeOf(accepted.receive(4)));
const pending = unaccepted.receive(1);
const free = takeAllDescriptors(handle.fd).length;
for (const fd of taken) closeDescriptor(fd);

await using late = await listener.accept();
await late.send(new Uint8Array([7]));
const { bytes } = await pending;
console.log("free meanwhile:", free);
console.log("after:", bytes[0]);

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "nothing";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
