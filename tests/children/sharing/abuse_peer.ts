// A peer that can break every rule: node tests/children/sharing/abuse_peer.ts CONTROL. Connects to the test's socket,
// whose commands open and accept connections and send arbitrary bytes.
import process from "node:process";
import { dlopen } from "../../../ffi/native/host.ts";
import { closeDescriptor, openDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { connectTo, sendTo } from "../../../ffi/native/shim/sockets.ts";
import { errno, SystemError } from "../../../ffi/native/shim/shim.ts";
import type { Cuda } from "../../../src/objects/cuda.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { open } from "../../../src/open.ts";
import type { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import { MessageReader } from "../../../src/sharing/protocol/message_reader.ts";
import { readable, waitFor, writable } from "../../../src/sharing/transport/poller.ts";
import { takeConnection, UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { parseUuid } from "../../../src/support/uuid.ts";
import { Gate } from "../../support/gate.ts";
import { receiveMessage, sendMessage } from "../../support/software_messages.ts";

const hello = encodeMessage({ type: "hello", lowestVersion: 1, highestVersion: 1 });
const goodbye = encodeMessage({ type: "goodbye", reason: "done", lowestVersion: 1, highestVersion: 1, text: "" });
/** Milliseconds between attempts to connect while too many connections are pending. */
const connectPause = 1;
/** Messages that are sent in one call. */
const floodCount = 512;

const control = await UnixSocket.connect(process.argv[2]!);
const connections: { readonly fd: number; readonly reader: MessageReader }[] = [];
let listener: UnixListener | undefined;
let cuda: Cuda | undefined;
let pool: ShareableHandle | undefined;
let gate: Gate | undefined;

const commands: Readonly<Record<string, (...args: never[]) => unknown>> = {
  connect: async (path: string) => addConnection(await connected(path)),

  async listen(path: string) {
    await listener?.[Symbol.asyncDispose]();
    listener = UnixListener.listen(path);
  },

  async accept() {
    const { fd, pidfd } = takeConnection(await listener!.accept());
    if (pidfd >= 0) closeDescriptor(pidfd);
    return addConnection(fd);
  },

  /** Sends bytes and descriptors of the named kinds. Returns the system's error, or "" if everything was sent. */
  async send(connection: number, bytes: Uint8Array, descriptors: readonly string[]) {
    const { fd } = connections[connection]!;
    const fds = descriptors.map(openNamed);
    try {
      for (let rest = bytes, sent = 0; sent < bytes.length;) {
        const result = sendTo(fd, rest, sent > 0 ? [] : fds);
        if (result === -errno.EAGAIN) await waitFor([{ fd, events: writable }], []);
        else if (result < 0) return new SystemError(-result, "sendmsg").message;
        else rest = bytes.subarray(sent += result);
      }
      return "";
    } finally {
      fds.forEach(closeDescriptor);
    }
  },

  /**
   * Receives messages up to one of a type, or to the end of the connection. Returns their types, with GOODBYE's reason.
   */
  async receive(connection: number, last: string) {
    const types: string[] = [];
    for await (const { type, text } of messages(connection)) {
      types.push(text === undefined ? type : `${type}: ${text}`);
      if (type === last) break;
    }
    return types;
  },

  /**
   * Sends a message repeatedly. If `at` is given, each copy has another number there. Returns the system's last error.
   */
  async flood(connection: number, message: Uint8Array, { count, at }: { count: number; at?: number }) {
    const { fd } = connections[connection]!;
    const many = new Uint8Array(message.length * floodCount);
    for (let i = 0; i < floodCount; i++) many.set(message, i * message.length);
    const view = new DataView(many.buffer);
    for (let begun = 0; begun < count; begun += floodCount) {
      for (let i = 0; i < floodCount && at !== undefined; i++) {
        view.setUint32(i * message.length + at, begun + i + 1, true);
      }
      for (let sent = 0; sent < many.length;) {
        const result = sendTo(fd, many.subarray(sent), []);
        if (result === -errno.EAGAIN) await waitFor([{ fd, events: writable }], []);
        else if (result < 0) return new SystemError(-result, "sendmsg").message;
        else sent += result;
      }
    }
    return "";
  },

  close: (connection: number) => closeDescriptor(connections[connection]!.fd),

  /** Creates memory and an event, and returns what an exporter sends about them. */
  memory() {
    cuda ??= open({ driver: "software" });
    const gpu = cuda.device(0);
    const own = gpu.createPool({ handleType: "posix-fd" });
    const buffer = own.allocate(4096);
    pool = own.exportHandle();
    const event = gpu.createEvent({ interprocess: true });
    return { deviceUuid: parseUuid(gpu.uuid), exportData: buffer.exportPointer(), event: event.exportHandle() };
  },

  /** Returns the handle of an event that does not complete. */
  pendingEvent() {
    cuda ??= open({ driver: "software" });
    const gpu = cuda.device(0);
    const stream = gpu.createStream({ nonBlocking: true });
    gate ??= new Gate(cuda);
    gate.hold(stream);
    const event = gpu.createEvent({ interprocess: true });
    stream.record(event);
    return event.exportHandle();
  },

  /**
   * Opens connections one after the other. Closes each at once, after a greeting, or after a greeting and a GOODBYE.
   */
  async oneAfterAnother(path: string, { count, end }: { count: number; end: "at once" | "greeted" | "goodbye" }) {
    for (let i = 0; i < count; i++) {
      const fd = await connected(path);
      if (end !== "at once") sendTo(fd, hello, []);
      if (end === "goodbye") sendTo(fd, goodbye, []);
      closeDescriptor(fd);
    }
  },

  /** Opens connections that exist at the same time and all greet. Returns how many were answered. */
  async atOnce(path: string, count: number) {
    const made: number[] = [];
    for (let i = 0; i < count; i++) {
      made.push(addConnection(await connected(path)));
      sendTo(connections.at(-1)!.fd, hello, []);
    }
    let answered = 0;
    for (const connection of made) {
      for await (const { type } of messages(connection)) {
        if (type !== "welcome") continue;
        answered++;
        break;
      }
    }
    return answered;
  },

  /** Ends all connections properly. */
  endAll() {
    for (const { fd } of connections.splice(0)) {
      sendTo(fd, goodbye, []);
      closeDescriptor(fd);
    }
  },
};

for (;;) {
  const command = await receiveMessage(control) as { name: string; args: never[] } | undefined;
  if (command === undefined) process.exit();
  try {
    await sendMessage(control, { result: await commands[command.name]!(...command.args) ?? null });
  } catch (error) {
    await sendMessage(control, { error: String(error) });
  }
}

async function connected(path: string): Promise<number> {
  for (;;) {
    const fd = connectTo(path);
    if (fd >= 0) return fd;
    if (fd !== -errno.EAGAIN) throw new SystemError(-fd, "connect");
    await new Promise((resolve) => setTimeout(resolve, connectPause));
  }
}

function addConnection(fd: number): number {
  return connections.push({ fd, reader: new MessageReader(fd, control.peer) }) - 1;
}

async function* messages(connection: number): AsyncGenerator<{ type: string; text?: string }> {
  const { fd, reader } = connections[connection]!;
  try {
    for (;;) {
      const message = reader.next();
      if (message !== undefined) {
        if (message.type === "pool") message.handle[Symbol.dispose]();
        yield message.type === "goodbye" ? { type: message.type, text: message.reason } : { type: message.type };
      } else if (reader.receive() === 0) {
        await waitFor([{ fd, events: readable }], []);
      }
    }
  } catch (error) {
    if (!(error instanceof SharingError)) throw error;
  }
}

function openNamed(name: string): number {
  switch (name) {
    case "pool":
      return openDescriptor(`/proc/self/fd/${pool!.fd}`, { writable: true });
    case "file":
      return openDescriptor("/proc/self/exe");
    case "memory file":
      return createMemoryFile("poolpass-test", 65_536);
    case "folder":
      return openDescriptor("/");
    case "device":
      return openDescriptor("/dev/null", { writable: true });
    case "pipe":
      return openPipe();
    default:
      return connectTo(process.argv[2]!);
  }
}

/** Returns the read end of a pipe whose write end is closed. */
function openPipe(): number {
  const { pipe } = dlopen("libc.so.6", { pipe: { parameters: ["buffer" /* int fds[2] */], result: "i32" } }).symbols;
  const fds = new Int32Array(2);
  pipe!(new Uint8Array(fds.buffer));
  closeDescriptor(fds[1]!);
  return fds[0]!;
}
