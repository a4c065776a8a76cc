import { assertEquals, assertInstanceOf, assertStringIncludes, assertThrows } from "@std/assert";
import {
  chmodSync,
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import process from "node:process";
import { SharingError, type SharingErrorCode } from "../../../src/support/errors.ts";
import { type Peer, UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { checkUser, listenFor } from "../../../src/sharing/transport/users.ts";
import { startScript } from "../../support/child_process.ts";
import { leakTest } from "../../support/resources.ts";
import { warmUpSockets } from "../../support/warm_up.ts";

const nobody = 65534;
/** Milliseconds in which a child must connect. */
const answerTimeout = 20_000;
const own = process.geteuid!();
const noOtherUser = own === 0 ? undefined : "it takes root to become another user";

function folderTest(name: string, body: (folder: string) => Promise<void> | void, skip?: string): void {
  const inFolder = async () => {
    const folder = mkdtempSync("/tmp/poolpass-test-");
    try {
      await body(folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  };
  leakTest(name, inFolder, { skip, warmUp: warmUpSockets });
}

function makeFolder(path: string, mode: number): string {
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

function assertCode(error: unknown, code: SharingErrorCode, texts: readonly string[]): void {
  assertInstanceOf(error, SharingError);
  const { code: actual, message } = error as SharingError;
  assertEquals(actual, code, message);
  for (const text of texts) assertStringIncludes(message, text);
}

function assertRefused(path: string, code: SharingErrorCode, ...texts: string[]): void {
  assertCode(assertThrows(() => listenFor(path, [])), code, [`Cannot listen at ${path}: `, ...texts]);
}

async function assertListens(path: string): Promise<void> {
  await using listener = listenFor(path, []);
  await using near = await UnixSocket.connect(listener.path);
  await using far = await listener.accept();
  checkUser("talk", near.peer, []);
  checkUser("talk", far.peer, []);
}

function peerOfUser(uid: number): Peer {
  return { pid: 12, uid, gid: 0 };
}

folderTest(
  "the socket is accessible only to this user, or to all if others are listed, whatever the umask",
  async (folder) => {
    const umask = process.umask();
    try {
      for (const mask of [0, 0o077, 0o777]) {
        process.umask(mask);
        for (const [users, mode] of [[[], 0o600], [[own], 0o600], [[own, nobody - 1], 0o666]] as const) {
          await using listener = listenFor(`${folder}/socket`, users);
          assertEquals(lstatSync(listener.path).mode & 0o7777, mode);
          assertEquals(lstatSync(listener.path).uid, own);
        }
      }
    } finally {
      process.umask(umask);
    }
    assertEquals(readdirSync(folder), []);
  },
);

folderTest("invalid paths and abstract ones are refused", () => {
  for (const path of ["", "\0abstract", "/tmp/", 7 as unknown as string]) {
    assertThrows(() => listenFor(path, []), TypeError);
  }
});

folderTest("a folder that others may write to is refused, unless it is sticky", async (folder) => {
  for (const mode of [0o777, 0o770, 0o702, 0o2775]) {
    const open = makeFolder(`${folder}/open`, mode);
    assertRefused(`${open}/socket`, "not-permitted", `the folder ${open} of user ${own} (mode 0${mode.toString(8)})`);
    assertEquals(readdirSync(open), []);
    rmSync(open, { recursive: true });
  }
  for (const mode of [0o1777, 0o1770, 0o700, 0o755, 0o2755]) {
    const closed = makeFolder(`${folder}/closed`, mode);
    await assertListens(`${closed}/socket`);
    rmSync(closed, { recursive: true });
  }
});

folderTest("the parent folders are checked as well", async (folder) => {
  const open = makeFolder(`${folder}/open`, 0o777);
  const inner = makeFolder(`${open}/inner`, 0o700);
  assertRefused(`${inner}/socket`, "not-permitted", `the folder ${open} of user`, "(mode 0777)", "chmod go-w");
  assertRefused(`${inner}/../../open/./inner//socket`, "not-permitted", `the folder ${open} of user`);
  chmodSync(open, 0o1777);
  await assertListens(`${inner}/../../open/./inner//socket`);
});

folderTest("a link is followed, and every folder on its way is checked", async (folder) => {
  const open = makeFolder(`${folder}/open`, 0o777);
  const inner = makeFolder(`${open}/inner`, 0o700);
  const good = makeFolder(`${folder}/good`, 0o700);
  for (const [name, target] of [["absolute", inner], ["relative", "open/inner"], ["twice", "relative"]] as const) {
    symlinkSync(target, `${folder}/${name}`);
    assertRefused(`${folder}/${name}/socket`, "not-permitted", `the folder ${open} of user`);
  }
  symlinkSync("../good", `${good}/up`);
  await assertListens(`${good}/up/socket`);
  symlinkSync(good, `${folder}/out`);
  await assertListens(`${folder}/out/up/../good/socket`);
  symlinkSync("loop", `${folder}/loop`);
  assertStringIncludes(assertThrows(() => listenFor(`${folder}/loop/socket`, [])).message, "ELOOP");
});

folderTest("a relative path starts in the working folder", async (folder) => {
  const open = makeFolder(`${folder}/open`, 0o777);
  makeFolder(`${open}/inner`, 0o700);
  const before = process.cwd();
  process.chdir(`${open}/inner`);
  try {
    assertRefused("socket", "not-permitted", `the folder ${open} of user`);
    assertRefused("../socket", "not-permitted", `the folder ${open} of user`);
    chmodSync(open, 0o755);
    await assertListens("socket");
    await assertListens("../socket");
  } finally {
    process.chdir(before);
  }
});

folderTest("errors name a missing folder, and a file in its place", (folder) => {
  assertRefused(`${folder}/none/socket`, "not-found", `there is no folder ${folder}/none`);
  assertRefused(`${folder}/none/inner/socket`, "not-found", `there is no folder ${folder}/none`);
  writeFileSync(`${folder}/file`, "");
  assertRefused(`${folder}/file/socket`, "not-found", `${folder}/file is not a folder`);
  assertRefused(`${folder}/file/inner/socket`, "not-found", `${folder}/file is not a folder`);
});

folderTest("a folder of another user is refused, even as a parent, and even if sticky", (folder) => {
  const theirs = makeFolder(`${folder}/theirs`, 0o755);
  const inner = makeFolder(`${theirs}/inner`, 0o700);
  chownSync(theirs, nobody, nobody);
  for (const mode of [0o755, 0o1777]) {
    chmodSync(theirs, mode);
    for (const path of [`${theirs}/socket`, `${inner}/socket`]) {
      assertRefused(
        path,
        "not-permitted",
        `the folder ${theirs} (mode 0${mode.toString(8)}) belongs to user ${nobody}`,
      );
    }
  }
}, noOtherUser);

folderTest("a link of another user is refused, wherever it leads", (folder) => {
  const good = makeFolder(`${folder}/good`, 0o700);
  symlinkSync(good, `${folder}/link`);
  lchownSync(`${folder}/link`, nobody, nobody);
  assertRefused(
    `${folder}/link/socket`,
    "not-permitted",
    `the link ${folder}/link (mode 0777) belongs to user ${nobody}`,
  );
}, noOtherUser);

leakTest("a peer is accepted if it is this user, or listed", () => {
  checkUser("talk", peerOfUser(own), []);
  checkUser("talk", peerOfUser(own), [7]);
  checkUser("talk", peerOfUser(7), [9, 7]);
  const other = own + 1;
  const alone = assertThrows(() => checkUser("serve /run/frames.sock", peerOfUser(other), []));
  assertCode(alone, "not-permitted", [
    "Cannot serve /run/frames.sock: process 12 at the other end runs as user",
    `runs as user ${other}, and only user ${own} is allowed`,
    `list ${other} among the users`,
  ]);
  const listed = assertThrows(() => checkUser("talk", peerOfUser(other), [own, 4_294_967_294, 7_777_777]));
  assertCode(listed, "not-permitted", [`only users ${own}, 4294967294, 7777777 are allowed`]);
});

folderTest("invalid user ids are refused", (folder) => {
  for (const user of [-1, 1.5, NaN, Infinity, 2 ** 32 - 1]) {
    assertThrows(() => listenFor(`${folder}/socket`, [user]), RangeError, `Cannot use ${user} as a user`);
    assertThrows(() => checkUser("talk", peerOfUser(own), [user]), RangeError);
  }
  for (const users of [["root"], [7n], [null], undefined, "7", new Set([7])]) {
    assertThrows(() => listenFor(`${folder}/socket`, users as unknown as number[]), TypeError, "Cannot use");
    assertThrows(() => checkUser("talk", peerOfUser(own), users as unknown as number[]), TypeError);
  }
  const named = ["alice"] as unknown as number[];
  assertThrows(() => listenFor(`${folder}/socket`, named), TypeError, 'Cannot use "alice" as a user: give a user ID');
  assertEquals(readdirSync(folder), []);
});

folderTest("listening needs only the permission for FFI", async (folder) => {
  await using child = startScript("children/sharing/sharing_user.ts", ["here", `${folder}/socket`]);
  assertEquals(await child.nextLine(), "listens");
  assertEquals(await child.ended, 0, await child.errors());
});

folderTest("a process without free descriptors fails with the reason", async (folder) => {
  await using child = startScript("children/sharing/sharing_user.ts", ["full", `${folder}/socket`], {
    descriptorLimit: 100,
  });
  assertEquals(await child.nextLine(), "full: out-of-descriptors");
  assertEquals(await child.ended, 0, await child.errors());
});

folderTest("another user can connect to an open socket, and is accepted only if listed", async (folder) => {
  chmodSync(folder, 0o755);
  await using listener = listenFor(`${folder}/socket`, [nobody - 1]);
  for (const [users, outcome] of [[[nobody - 1], "peer-gone"], [[nobody], "let in"]] as const) {
    await using child = startScript("children/sharing/sharing_user.ts", ["connect", listener.path], {
      permissions: ["-A"],
    });
    await using socket = await listener.accept({ signal: AbortSignal.timeout(answerTimeout) });
    assertEquals(socket.peer.uid, nobody);
    assertEquals(socket.peer.pid, child.pid);
    if (outcome === "let in") {
      checkUser("serve it", socket.peer, users);
      await socket.send(Uint8Array.of(1));
    } else {
      const error = assertThrows(() => checkUser("serve it", socket.peer, users));
      assertCode(error, "not-permitted", [`process ${child.pid} at the other end runs as user ${nobody}`]);
      await socket[Symbol.asyncDispose]();
    }
    const lines = [await child.nextLine(), await child.nextLine(), await child.nextLine()];
    assertEquals(lines, ["root listens: not-permitted", "root is listed: nothing", outcome]);
    assertEquals(await child.ended, 0, await child.errors());
  }
}, noOtherUser);

folderTest("the effective user id is checked, not the real one", async (folder) => {
  chownSync(folder, nobody, nobody);
  await using child = startScript("children/sharing/sharing_user.ts", ["effective", `${folder}/socket`], {
    permissions: ["-A"],
  });
  assertEquals([await child.nextLine(), await child.nextLine()], ["its own: nothing", "real: not-permitted"]);
  assertEquals(await child.ended, 0, await child.errors());
}, noOtherUser);
