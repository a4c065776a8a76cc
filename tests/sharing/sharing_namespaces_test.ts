import { assert, assertEquals } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../src/sharing/importer/importer.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { startChannelPeer } from "./channel/channel_peers.ts";
import { FrameKernels } from "../children/sharing/channel_kernels.ts";
import { countResources } from "../support/resources.ts";
import { isLong } from "../support/test.ts";
import { assertFailsSoon, type Fixture, type SharingPeer, sharingTest, soon } from "./sharing_peers.ts";

const mebibyte = 2 ** 20;
/** Milliseconds for what takes long on a busy machine. */
const longTimeout = 20_000;

/** The namespaces of its own that a process is given, as arguments of `unshare`. */
interface Namespaces {
  readonly name: string;
  readonly args: readonly string[];
  /** Whether the tests of it are left to the long run. */
  readonly long?: boolean;
  readonly softwareOnly?: boolean;
}

const pidNamespace: Namespaces = { name: "a PID namespace", args: ["-pf", "--mount-proc", "--kill-child"] };
const all: readonly Namespaces[] = [
  pidNamespace,
  {
    name: "a PID namespace without a /proc of its own",
    args: ["-pf", "--kill-child"],
    long: true,
    // CUDA does not start there.
    softwareOnly: true,
  },
  { name: "a time namespace", args: ["-Tf", "--boottime", "100", "--kill-child"], long: true },
  { name: "a mount namespace with another /dev/shm", args: ["-m", "sh", "-c", mounting("/dev/shm")], long: true },
  {
    name: "a mount namespace with another /proc",
    args: ["-mpf", "--kill-child", "unshare", "-p", "--mount-proc", "--kill-child", "-f"],
    long: true,
  },
  { name: "a user namespace", args: ["-Ur"], long: true },
  { name: "an IPC namespace", args: ["-i"], long: true },
  {
    name: "namespaces of every kind",
    args: ["-pfmiuUrC", "--mount-proc", "--kill-child", "sh", "-c", mounting("/dev/shm")],
    long: true,
  },
];

/** A shell's script that mounts an empty file system and runs its arguments. */
function mounting(path: string): string {
  return `mount -t tmpfs tmpfs ${path} && exec "$0" "$@"`;
}

/** Why a process cannot be given the namespaces here, or false. */
function refusalOf({ args }: Namespaces): string | false {
  const { status, error } = spawnSync("unshare", [...args, "true"], { stdio: "ignore" });
  return status !== 0 && (error === undefined ? `unshare ${args[0]} is not permitted` : "there is no unshare");
}

/** Declares a test for each kind of namespaces. */
function namespacesTest(
  what: string,
  body: (fixture: Fixture, args: readonly string[]) => Promise<void>,
  { long = false }: { long?: boolean } = {},
): void {
  for (const namespaces of all) {
    const isLeftOut = long || namespaces.long === true;
    sharingTest(`${namespaces.name}: ${what}`, (fixture) => body(fixture, namespaces.args), {
      long: isLeftOut,
      softwareOnly: namespaces.softwareOnly ?? false,
      skip: isRun(isLeftOut) && refusalOf(namespaces),
    });
  }
}

/** Whether a test runs in this run. */
function isRun(long: boolean): boolean {
  return isLong || !long;
}

/** Whether a promise is still pending when another process has answered several calls. */
async function isPending(promise: Promise<unknown>, peer: SharingPeer): Promise<boolean> {
  let isSettled = false;
  const settle = (): void => {
    isSettled = true;
  };
  promise.then(settle, settle);
  for (let call = 0; call < 10 && !isSettled; call++) await peer.call("imports");
  return !isSettled;
}

namespacesTest("memory is read once it is written, and freed once it was read", async (fixture, namespaces) => {
  const { path, pool, stream, gate, start } = fixture;
  const peer = await start({ namespaces });
  await using exporter = Exporter.listen(path);
  const buffer = pool.allocate(32 * mebibyte, stream);
  buffer.fill(1);
  await stream.finished();
  await peer.call("connect", "one", path);
  gate.hold(stream);
  buffer.fill(2);
  const offer = exporter.offer("slow", buffer);
  const mapped = peer.call("map", "one", "slow");
  assert(await isPending(mapped, peer));
  gate.open();
  await mapped;
  for (const at of [0, 16 * mebibyte, 32 * mebibyte - 64]) {
    assertEquals(await peer.call("read", "slow", at, 64), new Uint8Array(64).fill(2));
  }
  await peer.call("copy", "slow", "copied");
  await peer.call("hold");
  await peer.call("free", "slow");
  await waitUntil(() => offer.leases.some(({ state }) => state === "releasing"), {
    signal: AbortSignal.timeout(longTimeout),
  });
  const released = offer.released();
  assert(await isPending(released, peer));
  await peer.call("release");
  await released;
  assertEquals(offer.leases, []);
  await peer.call("free", "copied");
  await peer.call("close", "one");
  buffer.free();
});

namespacesTest(
  "its memory is read here once it is written there",
  async ({ cuda, path, stream, start }, namespaces) => {
    const peer = await start({ namespaces });
    await peer.call("listen", path);
    await peer.call("export", "ready", 4096, 5);
    await peer.call("hold");
    await peer.call("export", "slow", mebibyte, 7);
    const importer = await Importer.connect(cuda, path);
    const mapping = (await importer.offer("slow")).map({ stream });
    assert(await isPending(mapping, peer));
    await peer.call("release");
    const mapped = await mapping;
    const bytes = await mapped.read(Uint8Array);
    assertEquals([bytes[0], bytes.at(-1)], [7, 7]);
    mapped.free();
    await importer[Symbol.asyncDispose]();
    assertEquals(await peer.call("leases"), []);
  },
  { long: true },
);

namespacesTest("all frames of a channel are right, both ways", async ({ cuda, path, pool, stream }, namespaces) => {
  const count = 40;
  await using kernels = new FrameKernels(cuda);
  await using peer = await startChannelPeer(cuda, dirname(path), { namespaces });
  await using exporter = Exporter.listen(path, { closeTimeout: 1000 });
  await using channel = exporter.createChannel("frames", { pool, slots: 3, slotByteLength: 16_384, stream });
  await peer.call("join", path, "frames");
  const drained = peer.call("drain", "frames", { count, delays: true });
  for (let frame = 1; frame <= count; frame++) {
    const slot = await channel.reserve();
    kernels.delay(stream);
    kernels.write(stream, slot.buffer, frame);
    channel.send(slot, { stream });
  }
  const { sequences, words } = await drained;
  assertEquals([sequences.length, words], [count, [count * 4096, 0]]);
  await peer.call("leave", "frames");
  await peer.call("create", `${path}-back`, "back", { slots: 3, slotByteLength: 16_384 });
  await using importer = await Importer.connect(cuda, `${path}-back`);
  await using consumer = await importer.channel("back", { stream });
  const produced = peer.call("produce", count);
  for (let frame = 1; frame <= count; frame++) {
    using slot = (await consumer.next())!;
    kernels.delay(stream);
    kernels.check(stream, slot.buffer, frame);
  }
  await produced;
  assertEquals(await kernels.counts(stream), [count * 4096, 0]);
});

const noUser: Namespaces = { name: "a user namespace that maps nobody", args: ["-U"] };

sharingTest(`${noUser.name}: its users are not taken for one`, async ({ path, start }) => {
  const peer = await start({ namespaces: noUser.args });
  await using _exporter = Exporter.listen(path);
  await assertFailsSoon(peer.call("connect", "one", path), "not-permitted", "list 65534 among the users");
  await peer.call("connect", "one", path, { users: [65_534] });
  await peer.call("close", "one");
}, { softwareOnly: true, long: true, skip: isLong && refusalOf(noUser) });

for (const [count, long] of [[40, false], [3000, true]] as const) {
  sharingTest(
    `a process of a PID namespace that connects ${count} times costs what one does that connects 16 times`,
    async ({ path, pool, start }) => {
      await using exporter = Exporter.listen(path);
      const buffer = pool.allocate(4096);
      exporter.offer("buffer", buffer);
      const honest = await start();
      const before = countResources();
      const script = fileURLToPath(new URL("../children/sharing/reconnecting_peer.py", import.meta.url));
      const child = spawn("unshare", [...pidNamespace.args, "python3", script, path, String(count)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const exited = once(child, "exit");
      const [output] = await once(child.stdout!, "data") as [Uint8Array];
      assertEquals(new TextDecoder().decode(output), "done\n");
      await soon(() => exporter.importers.length === 0, "the last connection has ended");
      assertEquals(exporter.leases.length, 16);
      const added = (kind: string) => (countResources().get(kind) ?? 0) - (before.get(kind) ?? 0);
      // The runtime may have a pidfd of the child, too.
      assert(added("pidfd") <= 17, `${added("pidfd")} pidfds`);
      assertEquals([added("memfd"), added("mapping")], [0, 0]);
      await honest.call("connect", "one", path);
      await honest.call("map", "one", "buffer");
      await honest.call("free", "buffer");
      await honest.call("close", "one");
      child.kill("SIGKILL");
      await exited;
      await soon(() => exporter.leases.length === 0, "the process's leases have ended");
      child.stdout!.destroy();
      buffer.free();
    },
    { softwareOnly: true, long, skip: isRun(long) && (refusalOf(pidNamespace) || noPython()) },
  );
}

function noPython(): string | false {
  return spawnSync("python3", ["--version"], { stdio: "ignore" }).status !== 0 && "there is no python3";
}
