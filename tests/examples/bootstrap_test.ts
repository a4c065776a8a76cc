import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { createConnection, createServer, type Socket } from "node:net";
import { firstHost, launchedRank } from "../../examples/bootstrap/launched_rank.ts";
import { fetchId, handOutId, type MeetingPlace } from "../../examples/bootstrap/rendezvous.ts";
import { test } from "../support/test.ts";

const token = "a secret of all the ranks";
const ofTorchrun = {
  RANK: "5",
  WORLD_SIZE: "8",
  LOCAL_RANK: "1",
  MASTER_ADDR: "node1",
  MASTER_PORT: "29500",
  RENDEZVOUS_TOKEN: token,
};
const ofSlurm = {
  SLURM_JOB_ID: "12345678",
  SLURM_PROCID: "3",
  SLURM_NTASKS: "4",
  SLURM_LOCALID: "1",
  SLURM_STEP_NODELIST: "node[003-007,012],login1",
  RENDEZVOUS_TOKEN: token,
};

function launchedWith(variables: Readonly<Record<string, string | undefined>>) {
  return launchedRank((name) => variables[name]);
}

test("a rank's place is that of torchrun's variables", () => {
  const place = { rank: 5, size: 8, localRank: 1, host: "node1", token };
  assertEquals(launchedWith(ofTorchrun), { launcher: "torchrun", ...place, port: 29500 });
  const withStore = { ...ofTorchrun, TORCHELASTIC_USE_AGENT_STORE: "True" };
  assertEquals(launchedWith(withStore), { launcher: "torchrun", ...place, port: 29501 });
});

test("a rank's place is that of SLURM's variables, unless others are set", () => {
  const place = { launcher: "srun", rank: 3, size: 4, localRank: 1, token } as const;
  assertEquals(launchedWith(ofSlurm), { ...place, host: "node003", port: 25678 });
  const chosen = { ...ofSlurm, MASTER_ADDR: "10.0.0.1", MASTER_PORT: "4000" };
  assertEquals(launchedWith(chosen), { ...place, host: "10.0.0.1", port: 4000 });
});

test("a process without a launcher has no place, nor has a batch script of SLURM", () => {
  assertEquals(launchedWith({}), undefined);
  assertEquals(launchedWith({ RANK: "", WORLD_SIZE: "" }), undefined);
  assertEquals(launchedWith({ ...ofSlurm, SLURM_STEP_NODELIST: undefined }), undefined);
});

test("SLURM's lists of machines begin with a machine", () => {
  for (
    const [list, host] of [
      ["node1", "node1"],
      ["node1,node2", "node1"],
      ["gpu-a.example.org", "gpu-a.example.org"],
      ["node[9-12]", "node9"],
      ["rack[0-1]node[03,05]", "rack0node03"],
    ] as const
  ) assertEquals(firstHost(list), host);
  assertThrows(() => firstHost("[["), Error, "set MASTER_ADDR");
});

test("variables that make no sense are refused", () => {
  for (
    const [variables, message] of [
      [{ ...ofTorchrun, RANK: "8" }, "Cannot be rank 8 (RANK) of 8 (WORLD_SIZE)"],
      [{ ...ofTorchrun, RANK: "-1" }, 'Cannot use "-1" as RANK: it must be a whole number from 0 to'],
      [{ ...ofTorchrun, LOCAL_RANK: undefined }, "the variable LOCAL_RANK is not set"],
      [{ ...ofTorchrun, MASTER_ADDR: undefined }, "the variable MASTER_ADDR is not set"],
      [{ ...ofTorchrun, MASTER_PORT: "70000" }, 'Cannot use "70000" as MASTER_PORT'],
      [{ ...ofTorchrun, RENDEZVOUS_TOKEN: undefined }, "set RENDEZVOUS_TOKEN to the same secret"],
      [{ ...ofTorchrun, RENDEZVOUS_TOKEN: "short" }, "of at least 16 characters"],
      [{ ...ofSlurm, SLURM_LOCALID: undefined }, "the variable SLURM_LOCALID is not set"],
    ] as const
  ) assertThrows(() => launchedWith(variables), Error, message);
});

const id = Uint8Array.from({ length: 128 }, (_, index) => index);

async function placeOf(size: number): Promise<MeetingPlace> {
  return {
    host: "127.0.0.1",
    port: await freePort(),
    size,
    token,
    timeout: 10_000,
    signal: new AbortController().signal,
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("ranks get the id of rank 0, in whatever order they start", async () => {
  const place = await placeOf(4);
  const early = fetchId({ ...place, rank: 3 });
  const served = handOutId(id, place);
  const others = [fetchId({ ...place, rank: 1 }), fetchId({ ...place, rank: 2 })];
  assertEquals(await Promise.all([early, ...others]), [id, id, id]);
  await served;
});

test("rank 0 alone waits for nobody", async () => {
  await handOutId(id, await placeOf(1));
});

test("other processes get no id, and do not keep the ranks from it", async () => {
  const place = await placeOf(3);
  const served = handOutId(id, place);
  const refused = async (other: Partial<MeetingPlace> & { rank: number }, message: string) => {
    await assertRejects(() => fetchId({ ...place, ...other }), Error, message);
  };
  await refused({ rank: 1, token: "another secret of others" }, "rank 0 says that it has another secret");
  await refused({ rank: 1, size: 4 }, "rank 0 says that it has another number of ranks");
  await refused({ rank: 3 }, "rank 0 says that there is no such rank");
  await refused({ rank: 0 }, "rank 0 says that there is no such rank");
  assertEquals(await fetchId({ ...place, rank: 1 }), id);
  await refused({ rank: 1 }, "another process was it already");
  const speakers = await Promise.all(["", "GET / HTTP/1.1\r\n", "x".repeat(100_000)].map((text) => speak(place, text)));
  assertEquals(await fetchId({ ...place, rank: 2 }), id);
  await served;
  for (const { socket, received } of speakers) {
    // The challenge has 40 bytes, and a refusal one.
    assert(received() <= 41, `${received()} bytes`);
    socket.destroy();
  }
});

/** Connects, says something and stays. */
async function speak({ host, port }: MeetingPlace, text: string): Promise<{ socket: Socket; received(): number }> {
  const socket = createConnection({ host, port });
  let length = 0;
  socket.on("error", () => {}).on("data", (chunk) => length += chunk.length);
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  if (text !== "") socket.write(text);
  return { socket, received: () => length };
}

test("a rendezvous ends after its time, and when it is interrupted", async () => {
  const place = await placeOf(2);
  const soon = { ...place, timeout: 150 };
  await assertRejects(
    () => handOutId(id, soon),
    Error,
    "Cannot find the other ranks in 0.15 s: only 1 of 2 ranks came",
  );
  await assertRejects(() => fetchId({ ...soon, rank: 1 }), Error, "rank 0 did not answer at 127.0.0.1");
  const signal = AbortSignal.abort(new Error("Interrupted"));
  await assertRejects(() => handOutId(id, { ...place, signal }), Error, "Interrupted");
  await assertRejects(() => fetchId({ ...place, signal, rank: 1 }), Error, "Interrupted");
});

test("a rank does not take another program for rank 0", async () => {
  const place = { ...await placeOf(2), timeout: 400 };
  const sockets: Socket[] = [];
  let greeting = "";
  const server = createServer((socket) => {
    sockets.push(socket.on("error", () => {}));
    if (greeting !== "") socket.write(greeting);
  });
  await new Promise<void>((resolve) => server.listen(place.port, place.host, resolve));
  await assertRejects(() => fetchId({ ...place, rank: 1 }), Error, "who listens there says nothing");
  greeting = "220 mail.example.org ESMTP, which is longer than the challenge of a rank\r\n";
  await assertRejects(() => fetchId({ ...place, rank: 1 }), Error, "another program listens there; set MASTER_PORT");
  await assertRejects(() => handOutId(id, place), Error, `Cannot listen at port ${place.port}`);
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});
