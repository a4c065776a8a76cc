import { assert, assertEquals, assertInstanceOf, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import process from "node:process";
import { inFolder } from "../../support/folders.ts";
import { SharingError, type SharingErrorCode } from "../../../src/support/errors.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import { warmUpSockets } from "../../support/warm_up.ts";

function pathTest(name: string, body: (folder: string) => Promise<void>): void {
  leakTest(name, () => inFolder(body), { warmUp: warmUpSockets });
}

async function exchange(folder: string): Promise<void> {
  await using listener = UnixListener.listen(`${folder}/socket`);
  const accepted = listener.accept();
  await using near = await UnixSocket.connect(listener.path);
  await using far = await accepted;
  const received = far.receive(1);
  await near.send(Uint8Array.of(1));
  await received;
}

function assertCode(error: unknown, code: SharingErrorCode, text: string): void {
  assertInstanceOf(error, SharingError);
  const { code: actual, message } = error as SharingError;
  assertEquals(actual, code, message);
  assertStringIncludes(message, text);
}

function assertListenFails(path: string, code: SharingErrorCode, text: string): void {
  assertCode(assertThrows(() => UnixListener.listen(path)), code, text);
}

async function assertConnectFails(path: string, code: SharingErrorCode, text: string): Promise<void> {
  assertCode(await assertRejects(() => UnixSocket.connect(path)), code, text);
}

/** Leaves a socket's file without a listener. */
async function leaveStale(path: string): Promise<void> {
  await using listener = UnixListener.listen(`${path}-first`);
  renameSync(listener.path, path);
}

pathTest(
  "only the owner can access the socket's file, whatever the umask, and the listener removes it",
  async (folder) => {
    const umask = process.umask(0);
    try {
      await using listener = UnixListener.listen(`${folder}/socket`);
      assertEquals(lstatSync(listener.path).mode & 0o777, 0o600);
      assertEquals(readdirSync(folder), ["socket"]);
      process.umask(0o077);
      await using open = UnixListener.listen(`${folder}/open`, { mode: 0o666 });
      assertEquals(lstatSync(open.path).mode & 0o777, 0o666);
    } finally {
      process.umask(umask);
    }
    assertEquals(readdirSync(folder), []);
  },
);

pathTest("a live socket is not replaced", async (folder) => {
  await using listener = UnixListener.listen(`${folder}/socket`);
  assertListenFails(listener.path, "address-in-use", "this process listens there already");
  const accepted = listener.accept();
  await using _near = await UnixSocket.connect(listener.path);
  await (await accepted)[Symbol.asyncDispose]();
  assertEquals(readdirSync(folder), ["socket"]);
});

pathTest("a stale socket is replaced", async (folder) => {
  const path = `${folder}/socket`;
  await leaveStale(path);
  await assertConnectFails(path, "not-listening", "nothing listens");
  await exchange(folder);
  assertEquals(readdirSync(folder), []);
});

pathTest("the socket of a killed process is replaced", async (folder) => {
  const path = `${folder}/socket`;
  {
    await using child = startScript("children/sharing/socket_peer.ts", ["listen", path]);
    assertEquals(await child.nextLine(), "ready");
    assertListenFails(path, "address-in-use", "another process listens there");
    child.kill("SIGKILL");
    assertEquals(await child.ended, "SIGKILL");
  }
  await exchange(folder);
});

pathTest("a listener removes only its own file", async (folder) => {
  const path = `${folder}/socket`;
  await using first = UnixListener.listen(path);
  renameSync(path, `${path}-moved`);
  await using _second = UnixListener.listen(path);
  await first[Symbol.asyncDispose]();
  assertEquals(readdirSync(folder).sort(), ["socket", "socket-moved"]);
});

pathTest("a file that is not a socket is left alone", async (folder) => {
  const path = `${folder}/file`;
  writeFileSync(path, "precious");
  assertListenFails(path, "address-in-use", "is not a socket and was left alone");
  await assertConnectFails(path, "not-listening", "is not a socket");
  symlinkSync(path, `${folder}/link`);
  assertListenFails(`${folder}/link`, "address-in-use", "is not a socket");
  assertListenFails(folder, "address-in-use", "is not a socket");
  assertEquals(readdirSync(folder).sort(), ["file", "link"]);
});

pathTest("the error for a missing folder names it", async (folder) => {
  assertListenFails(`${folder}/none/socket`, "not-found", `there is no folder ${folder}/none`);
  await assertConnectFails(`${folder}/none/socket`, "not-found", "no such file");
  await assertConnectFails(`${folder}/none`, "not-found", "start the process that listens there");
  writeFileSync(`${folder}/file`, "");
  assertListenFails(`${folder}/file/socket`, "not-found", `${folder}/file is not a folder`);
});

pathTest("a path has at most 107 bytes, all of which can be used", async (folder) => {
  const deep = `${folder}/${"d".repeat(60)}`;
  mkdirSync(deep);
  for (const start of [deep, folder]) {
    const longest = `${start}/${"ä".repeat(60)}`;
    const bytes = new TextEncoder().encode(longest).slice(0, 107);
    const path = new TextDecoder().decode(bytes).replace(/\uFFFD$/, "x");
    assertEquals(new TextEncoder().encode(path).length, 107);
    await using listener = UnixListener.listen(path);
    await using _near = await UnixSocket.connect(path);
    await using _far = await listener.accept();
    await listener[Symbol.asyncDispose]();
    assertEquals(readdirSync(start).filter((name) => name !== "d".repeat(60)), []);
    assertListenFails(`${path}x`, "path-too-long", "it has 108 bytes, and a socket's path at most 107");
    await assertConnectFails(`${path}x`, "path-too-long", "108 bytes");
  }
});

pathTest("invalid paths are refused", async () => {
  for (const path of ["", "\0abstract", "a\0b", "/tmp/", 7 as unknown as string]) {
    assertThrows(() => UnixListener.listen(path), TypeError);
    await assertRejects(() => UnixSocket.connect(path), TypeError);
  }
  for (
    const [url, advice] of [["unix:///tmp/a.sock", "alone, /tmp/a.sock"], ["http://[::1]:80", "such as /tmp/pool.sock"]]
  ) {
    const message = `${url}: it is a URL; give the path`;
    assertStringIncludes(assertThrows(() => UnixListener.listen(url!), TypeError, message).message, advice!);
    await assertRejects(() => UnixSocket.connect(url!), TypeError, message);
  }
  const mode = "0600" as unknown as number;
  assertThrows(() => UnixListener.listen("/tmp/never", { mode }), TypeError, 'Cannot use "0600" as a socket\'s mode');
  for (const mode of [-1, 0o1000, 1.5, NaN]) {
    assertThrows(() => UnixListener.listen("/tmp/never", { mode }), RangeError);
  }
});

pathTest("a relative path is relative to the working folder", async (folder) => {
  const before = process.cwd();
  process.chdir(folder);
  try {
    await using _listener = UnixListener.listen("socket");
    assert(existsSync(`${folder}/socket`));
  } finally {
    process.chdir(before);
  }
});

pathTest(
  "pending accepts are served in order, aborted individually, and rejected when the listener is disposed",
  async (folder) => {
    await using listener = UnixListener.listen(`${folder}/socket`);
    const controller = new AbortController();
    const first = listener.accept();
    const second = listener.accept({ signal: controller.signal });
    const third = listener.accept();
    const fourth = listener.accept();
    controller.abort(new Error("second"));
    assertEquals((await assertRejects(() => second) as Error).message, "second");
    await using _a = await UnixSocket.connect(listener.path);
    await using _b = await first;
    await using _c = await UnixSocket.connect(listener.path);
    await using _d = await third;
    await listener[Symbol.asyncDispose]();
    assertInstanceOf(await assertRejects(() => fourth), ReferenceError);
    assertInstanceOf(await assertRejects(() => listener.accept()), ReferenceError);
  },
);

const isRoot = process.getuid?.() === 0;
const noOtherUser = isRoot ? undefined : "it takes root to become another user";

leakTest("a folder or socket of another user is not permitted", () =>
  inFolder(async (folder) => {
    chmodSync(folder, 0o755);
    await using _listener = UnixListener.listen(`${folder}/socket`);
    await using child = startScript("children/sharing/other_user.ts", [folder], { permissions: ["-A"] });
    const lines = [await child.nextLine(), await child.nextLine(), await child.nextLine()];
    assertEquals(await child.ended, 0, await child.errors());
    assertEquals(lines, [
      "connect: not-permitted",
      "listen beside it: not-permitted",
      "listen in its place: not-permitted",
    ]);
  }), { skip: noOtherUser, warmUp: warmUpSockets });
