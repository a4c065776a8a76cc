/**
 * Creates communicators in a `/dev/shm` of its own that others have filled. Arguments: what it is full of, and how many:
 * "names" or "leases" of another user, or "bytes" of nobody's. Prints what becomes of the communicators.
 *
 * @module
 */
import { readdirSync, rmSync, statfsSync, utimesSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Communicator, open, type SharingError } from "../../../mod.ts";
import { startHostile } from "../../sharing/hostile/hostile_peers.ts";
import { startScript } from "../../support/child_process.ts";
import { namesLeftBy } from "../../support/names_left.ts";
import { assertNothingLeft, countResources } from "../../support/resources.ts";

const [what, count] = process.argv.slice(2) as ["names" | "leases" | "bytes", string];
const folder = "/dev/shm";
const user = process.geteuid!();
using cuda = open({ driver: "software", sanitize: what === "leases" });

/** Creates two ranks. Returns the longest pause of either event loop, in milliseconds. */
async function create(): Promise<number> {
  const id = Communicator.createId(cuda);
  let longest = 0;
  const creations = [0, 1].map((rank) => {
    const begin = performance.now();
    const creation = Communicator.create(cuda.device(rank), { id, rank, size: 2, timeout: 5000 });
    longest = Math.max(longest, performance.now() - begin);
    return creation;
  });
  const results = await Promise.allSettled(creations);
  for (const result of results) if (result.status === "fulfilled") await result.value[Symbol.asyncDispose]();
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return longest;
}

async function plant(...args: string[]): Promise<void> {
  const stranger = stack.use(startHostile("file_planters.py", args));
  if (await stranger.nextLine() !== "planted") throw new Error(await stranger.errors());
}

await using stack = new AsyncDisposableStack();
if (what === "names") {
  await create();
  await plant("ranks", folder, count, `${user}`);
  const id = Communicator.createId(cuda).toHex();
  const killed = stack.use(startScript("children/collectives/lose_rank.ts", ["software", "0", "2", id, "1", "60000"]));
  while (await killed.nextLine() !== "creating");
  killed.kill("SIGKILL");
  await killed.ended;
  const left = namesLeftBy(killed.pid);
  console.log(`the killed rank has left ${left.length}`);
  const longAgo = Date.now() / 1000 - 3600;
  for (const name of left) utimesSync(`${folder}/${name}`, longAgo, longAgo);
  const times: number[] = [];
  for (let time = 0; time < 5; time++) times.push(await create());
  console.log(`stood still for ${Math.min(...times)}`);
  console.log(`the killed rank has left ${namesLeftBy(killed.pid).length}`);
} else if (what === "leases") {
  await plant("leases", folder, `poolpass-rosters-1-${user}`, `poolpass-order-1-${user}`);
  const begin = performance.now();
  await create();
  using stream = cuda.device(0).createStream();
  using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(4096, stream);
  using _handle = pool.exportHandle();
  // The sanitizer creates its board there, too.
  buffer.exportPointer();
  console.log(`stood still for ${performance.now() - begin}`);
} else {
  // The library creates files once that it keeps.
  await create();
  const before = readdirSync(folder);
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(`${folder}/filler`, new Uint8Array(bavail * bsize));
  const resources = countResources();
  try {
    await create();
  } catch (error) {
    console.log(`${(error as SharingError).code}: ${(error as Error).message}`);
  }
  await assertNothingLeft(resources);
  console.log(readdirSync(folder).filter((name) => !before.includes(name)).join());
  rmSync(`${folder}/filler`);
  console.log(`stood still for ${await create()}`);
  console.log(readdirSync(folder).filter((name) => !before.includes(name)).join());
}
