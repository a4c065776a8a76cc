import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { describeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../../ffi/native/shim/memory_files.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import type { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { type ChildProcess, startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import type { TestOptions } from "../../support/test.ts";

/** Milliseconds in which a dead peer must be noticed. */
const promptly = 1000;

function peerTest(
  name: string,
  mode: string,
  body: (child: ChildProcess, socket: UnixSocket) => Promise<void>,
  { long }: TestOptions = {},
): void {
  leakTest(name, () => withPeer(mode, body), { long, warmUp });
}

function warmUp(): Promise<void> {
  return withPeer("connect", async (child, socket) => {
    const received = socket.receive(1);
    child.kill("SIGKILL");
    await assertRejects(() => received);
  });
}

async function withPeer(mode: string, body: (child: ChildProcess, socket: UnixSocket) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using listener = UnixListener.listen(`${folder}/socket`);
    await using child = startScript("children/sharing/socket_peer.ts", [mode, listener.path]);
    const signal = AbortSignal.timeout(20_000);
    await using socket = await listener.accept({ signal });
    await body(child, socket);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function assertGone(receiving: Promise<unknown>, since: number, text: string): Promise<void> {
  const error = await assertRejects(() => receiving);
  const elapsed = performance.now() - since;
  assertInstanceOf(error, SharingError);
  assertEquals(error.code, "peer-gone");
  assertStringIncludes(error.message, text);
  assert(elapsed < promptly, `It took ${elapsed} ms`);
}

peerTest("the kernel reports the peer's process", "connect", async (child, socket) => {
  assertEquals(socket.peer.pid, child.pid);
  assertEquals(socket.peer.uid, process.getuid!());
  assertEquals(socket.peer.gid, process.getgid!());
  assertEquals(await child.nextLine(), "ready");
}, { long: true });

peerTest("bytes and a descriptor go to another process and come back", "echo", async (child, socket) => {
  using handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 12345));
  await socket.send(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8), { handles: [handle] });
  const { bytes, handles } = await socket.receive(8, { handles: 1 });
  using returned = handles[0]!;
  assertEquals([...bytes], [1, 2, 3, 4, 5, 6, 7, 8]);
  assertEquals(describeDescriptor(returned.fd).inode, describeDescriptor(handle.fd).inode);
  assertEquals(await child.nextLine(), "ready");
});

peerTest("a killed peer is reported as gone", "connect", async (child, socket) => {
  assertEquals(await child.nextLine(), "ready");
  const received = socket.receive(8);
  const since = performance.now();
  child.kill("SIGKILL");
  await assertGone(received, since, "after 0 of them");
});

peerTest("a peer killed in the middle of a message leaves nothing behind", "part", async (child, socket) => {
  assertEquals(await child.nextLine(), "ready");
  const received = socket.receive(8, { handles: 1 });
  const since = performance.now();
  child.kill("SIGKILL");
  await assertGone(received, since, "after 3 of them");
});

peerTest("bytes that a peer sent before it was killed can be received", "part", async (child, socket) => {
  assertEquals(await child.nextLine(), "ready");
  child.kill("SIGKILL");
  await child.ended;
  const { handles } = await socket.receive(3, { handles: 1 });
  handles[0]![Symbol.dispose]();
  await assertGone(socket.receive(1), performance.now(), "after 0 of them");
}, { long: true });

peerTest("a peer killed while a send waits is reported as gone", "connect", async (child, socket) => {
  assertEquals(await child.nextLine(), "ready");
  const sending = socket.send(new Uint8Array(10_000_000));
  const since = performance.now();
  child.kill("SIGKILL");
  await assertGone(sending, since, "Cannot send");
}, { long: true });

peerTest("a stopped peer is waited for until it is killed", "connect", async (child, socket) => {
  assertEquals(await child.nextLine(), "ready");
  child.kill("SIGSTOP");
  const signal = AbortSignal.timeout(20);
  assertEquals((await assertRejects(() => socket.receive(1, { signal })) as Error).name, "TimeoutError");
  const since = performance.now();
  child.kill("SIGKILL");
  await assertGone(socket.receive(1), since, "after 0 of them");
}, { long: true });

peerTest(
  "a killed peer is reported as gone although a grandchild holds its socket open",
  "grandchild",
  async (child, socket) => {
    const grandchild = Number(await child.nextLine());
    assertEquals(await child.nextLine(), "ready");
    try {
      const received = socket.receive(8);
      const since = performance.now();
      child.kill("SIGKILL");
      await assertGone(received, since, "it ended after 0 of them");
      await assertGone(socket.receive(8), performance.now(), "it ended after 0 of them");
      // The connection is still open, but no process will ever read from it.
      await assertGone(socket.send(new Uint8Array(1)), performance.now(), "its process has ended");
    } finally {
      process.kill(grandchild, "SIGKILL");
    }
  },
);

leakTest(
  "a process without free descriptors fails with the reason, leaks none, and continues once there are some",
  async () => {
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      await using child = startScript("children/sharing/few_descriptors.ts", [folder], { descriptorLimit: 100 });
      const lines: (string | undefined)[] = [];
      for (let i = 0; i < 7; i++) lines.push(await child.nextLine());
      assertEquals(await child.ended, 0, await child.errors());
      assertEquals(lines, [
        "connect: out-of-descriptors",
        "listen: out-of-descriptors",
        "accept: out-of-descriptors",
        "receive: out-of-descriptors",
        "receive again: out-of-descriptors",
        "free meanwhile: 0",
        "after: 7",
      ]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

leakTest("signals that interrupt its calls do not disturb a process", async () => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using child = startScript("children/sharing/interrupted_calls.ts", [`${folder}/socket`]);
    assertEquals([await child.nextLine(), await child.errors(), await child.ended], ["all received", "", 0]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}, { warmUp });
