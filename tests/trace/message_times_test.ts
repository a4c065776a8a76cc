import { assert, assertEquals } from "@std/assert";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import { MessageStream } from "../../src/sharing/protocol/message_stream.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../src/sharing/transport/unix_socket.ts";
import { currentRecorder, openTrace } from "../../src/trace/open_trace.ts";
import { readTrace } from "../../src/trace/read_trace.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

test("the time of a message is noted before it is written", { skip: shimRefusal() }, () =>
  inFolder(async (folder) => {
    const recorder = currentRecorder() ?? openTrace(`${folder}/messages.trace`, 1000, "software");
    await using listener = UnixListener.listen(`${folder}/socket`);
    await using near = await UnixSocket.connect(`${folder}/socket`);
    await using _far = await listener.accept();
    let written = 0;
    const traffic = {
      messagesSent: 0,
      messagesReceived: 0,
      bytesReceived: 0,
      get bytesSent(): number {
        return 0;
      },
      // Counted right after the write, from when on the peer can read the message.
      set bytesSent(_: number) {
        written = recorder.now();
        while (recorder.now() === written);
      },
    };
    const stream = new MessageStream(near, { messageTimeout: 1000, traffic });
    try {
      using handle = ShareableHandle.fromFd(createMemoryFile("message", 4096));
      stream.send({ type: "pool", pool: 7, kind: "device", deviceUuid: new Uint8Array(16), handle });
      const { events } = readTrace("messages", new Uint8Array(recorder.values.buffer as ArrayBuffer));
      const sent = events.at(-1)!;
      assertEquals([sent.name, sent.values.subject], ["send pool", 7]);
      assert(written > 0 && sent.begin <= written, `${sent.begin - written} ns after the write`);
    } finally {
      stream.end("done");
      stream.process[Symbol.dispose]();
    }
  }));
