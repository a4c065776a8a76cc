// A process that a timer's signals interrupt all the time: node tests/children/sharing/interrupted_calls.ts PATH. Polls,
// connects, accepts, sends and receives at that path until enough calls were interrupted, and prints "all received".
import process from "node:process";
import { dlopen } from "../../../ffi/native/host.ts";
import { isReadable } from "../../../ffi/native/shim/descriptors.ts";
import { errno, shim } from "../../../ffi/native/shim/shim.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";

const realTime = 0;
/** In microseconds. Shorter than a turn of the event loop, so that signals arrive during calls. */
const interval = 100n;
const leastMessages = 20;
const byteLength = 300_000;
/** The fewest interrupted calls that prove anything. */
const leastInterruptions = 5;

const [path] = process.argv.slice(2) as [string];
const libc = dlopen("libc.so.6", {
  setitimer: { parameters: ["i32", /* int which */ "buffer", /* new */ "buffer" /* old */], result: "i32" },
});
process.on("SIGALRM", () => {});
await using listener = UnixListener.listen(path);
libc.symbols.setitimer!(realTime, new Uint8Array(BigInt64Array.of(0n, interval, 0n, interval).buffer), null);
const near = await UnixSocket.connect(path);
const far = await listener.accept();
const idle = shim().poolpass_eventfd();
const pollfd = new Uint8Array(Int32Array.of(idle, 1).buffer);
let messages = 0, interruptions = 0;
while (messages < leastMessages || interruptions < leastInterruptions) {
  const sending = near.send(new Uint8Array(byteLength));
  await far.receive(byteLength);
  await sending;
  messages++;
  for (let poll = 0; poll < 1000; poll++) {
    if (shim().poolpass_poll(pollfd, 1, 0) === -errno.EINTR) interruptions++;
    if (isReadable(idle)) throw new Error("An empty eventfd is readable");
  }
}
libc.symbols.setitimer!(realTime, new Uint8Array(32), null);
console.log("all received");
process.exit(0);
