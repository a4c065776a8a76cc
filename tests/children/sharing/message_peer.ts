// The other process in tests of message streams: node tests/children/sharing/message_peer.ts MODE PATH. Connects,
// greets, and does what the mode says.
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { greet } from "../../../src/sharing/protocol/handshake.ts";
import { MessageStream } from "../../../src/sharing/protocol/message_stream.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const [mode, path] = process.argv.slice(2) as [string, string];
const stream = new MessageStream(await UnixSocket.connect(path), { messageTimeout: 5000 });
await greet(stream, { handshakeTimeout: 5000 });

switch (mode) {
  case "echo":
    start((message) => {
      stream.send(message);
      if (message.type === "pool") message.handle[Symbol.dispose]();
    });
    break;
  case "flood":
    start(() => {}, flood);
    flood();
    break;
  case "last words":
    for (let sequence = 1; sequence <= 10_000; sequence++) stream.send(release(sequence));
    stream.flush();
    process.kill(process.pid, "SIGKILL");
    break;
  case "few descriptors": {
    const fd = createMemoryFile("poolpass-test", 4096);
    const taken = takeAllDescriptors(fd);
    stream.start({
      onMessage() {},
      onDrain() {},
      onEnd(error) {
        for (const other of taken) closeDescriptor(other);
        print(error?.code ?? "done");
        stream.process[Symbol.dispose]();
      },
    });
    print("ready");
    break;
  }
  case "quiet":
    // Only this wait is left, which does not keep the process alive.
    stream.process.whenEnded(() => print("ended"));
    stream.process.keepAlive(false);
    stream.end("done");
    print("ready");
    break;
  case "loud":
    stream.process.whenEnded(() => print("ended"));
    stream.end("done");
    print("ready");
    break;
}

function start(onMessage: (message: Message) => void, onDrain = (): void => {}): void {
  stream.start({ onMessage, onDrain, onEnd: () => stream.process[Symbol.dispose]() });
}

function flood(): void {
  for (let sequence = 1; !stream.isBacklogged; sequence++) stream.send(release(sequence));
}

function release(sequence: number): Message {
  return { type: "release-slot", offer: 1, slot: 0, sequence, event: 0 };
}

function print(text: string): void {
  console.log(text);
}
