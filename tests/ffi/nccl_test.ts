/** What NCCL is called with, by a stand-in for it that was compiled from C, as NCCL's header declares its functions. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { Communicator, CudaError, SharingError } from "../../mod.ts";
import { stringAt } from "../../ffi/native/shim/shim.ts";
import { dlopen } from "../../ffi/native/host.ts";
import type { Roster } from "../../ffi/native/shim/roster.ts";
import { openNccl } from "../../ffi/nccl/load_nccl.ts";
import { NcclCommunicator } from "../../ffi/nccl/nccl_communicator.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { driverNamed } from "../support/drivers.ts";
import { test } from "../support/test.ts";
import { noCompiler } from "./other_machines/machines.ts";

const folder = mkdtempSync("/tmp/poolpass-nccl-");
after(() => rmSync(folder, { recursive: true }));
const skip = noCompiler ?? false;

/** Builds the stand-in, and returns its path and what it was told last. */
function build(...flags: string[]): { path: string; told: () => string } {
  const path = `${folder}/libnccl${flags.join("")}.so`;
  const source = fileURLToPath(new URL("./nccl/nccl.c", import.meta.url));
  const { status, stderr } = spawnSync("gcc", ["-O1", "-w", "-shared", "-fPIC", ...flags, "-o", path, source]);
  assertEquals(status, 0, String(stderr));
  const { stand_in_told } = dlopen(path, { stand_in_told: { parameters: [], result: "u64" } }).symbols;
  return { path, told: () => stringAt(stand_in_told!()) };
}

function openWith(path: string): Cuda {
  const driver = driverNamed("software").open();
  return new Cuda(new Session(driver, { collectives: () => openNccl(path, () => {}) }));
}

test("collectives are called as NCCL's header declares them", { skip }, async () => {
  const { path, told } = build();
  using cuda = openWith(path);
  const gpu = cuda.device(0);
  const id = Communicator.createId(cuda);
  await using communicator = await Communicator.create(gpu, { id, rank: 0, size: 1 });
  assertEquals(told(), "ncclCommSplit comm 5 color 0 key 0 blocking 1 CTAs -2147483648");
  using stream = gpu.createStream();
  using pool = gpu.createPool();
  using source = pool.allocateArray(Float32Array, 12, stream);
  using target = pool.allocateArray(Float32Array, 12, stream);
  const from = `source ${source.address}`, to = `target ${target.address}`;
  const on = `comm 6 stream ${stream.unsafeHandle}`;
  const options = { stream };
  const expected: [call: () => void, told: string][] = [
    [
      () => communicator.allReduce(source, target, "sum", options),
      `ncclAllReduce ${from} ${to} count 12 type 7 op 0 ${on}`,
    ],
    [
      () => communicator.allReduce(source, target, "maximum", { ...options, type: "bf16" }),
      `ncclAllReduce ${from} ${to} count 24 type 9 op 2 ${on}`,
    ],
    [
      () => communicator.reduce(source, target, 0, "minimum", { ...options, type: "f8e4m3" }),
      `ncclReduce ${from} ${to} count 48 type 10 op 3 root 0 ${on}`,
    ],
    [
      () => communicator.reduceScatter(source, target, "average", { ...options, type: "f8e5m2" }),
      `ncclReduceScatter ${from} ${to} count 48 type 11 op 4 ${on}`,
    ],
    [
      () => communicator.broadcast(source, 0, options),
      `ncclBroadcast ${from} target ${source.address} count 48 type 1 root 0 ${on}`,
    ],
    [() => communicator.allGather(source, target, options), `ncclAllGather ${from} ${to} count 48 type 1 ${on}`],
    [() => communicator.allToAll(source, target, options), `ncclAlltoAll ${from} ${to} count 48 type 1 ${on}`],
    [
      () =>
        Communicator.group(() => {
          communicator.receive(target, 0, options);
          communicator.send(source, 0, options);
        }),
      `ncclSend ${from} count 48 type 1 peer 0 ${on}`,
    ],
    [
      () =>
        Communicator.group(() => {
          communicator.send(source, 0, options);
          communicator.receive(target, 0, options);
        }),
      `ncclRecv ${to} count 48 type 1 peer 0 ${on}`,
    ],
  ];
  for (const [call, text] of expected) {
    call();
    assertEquals(told(), text);
  }
  const types = [Int8Array, Uint8Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array, Float16Array];
  for (const [number, type] of [...types, Float32Array, Float64Array].entries()) {
    const array = source.as(type as typeof Float32Array);
    communicator.allReduce(array, array, "product", options);
    assertStringIncludes(told(), `type ${number} op 1 `);
  }
});

test("an error of NCCL has its name, its call, and what NCCL says last", { skip }, async () => {
  const { path } = build();
  using cuda = openWith(path);
  const gpu = cuda.device(0);
  await using communicator = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
  using array = gpu.createPool().allocateArray(Float32Array, 13);
  const error = assertThrows(() => communicator.allReduce(array, array), CudaError) as CudaError;
  assertEquals([error.code, error.number, error.call], ["ncclInvalidUsage", 5, "ncclAllReduce"]);
  assertStringIncludes(error.message, "Cannot call allReduce of the communicator of rank 0 of 1: ");
  assertStringIncludes(error.message, "invalid usage: thirteen is too many");
});

test("an error of a call in a group is that call's own, and the next group is made", { skip }, async () => {
  const { path, told } = build();
  using cuda = openWith(path);
  const gpu = cuda.device(0);
  await using communicator = await Communicator.create(gpu, { id: Communicator.createId(cuda), rank: 0, size: 1 });
  using pool = gpu.createPool();
  using array = pool.allocateArray(Float32Array, 13);
  using rest = pool.allocateArray(Float32Array, 12);
  const reduceBoth = () =>
    Communicator.group(() => {
      communicator.allReduce(array, array);
      communicator.allReduce(rest, rest);
    });
  const error = assertThrows(reduceBoth, CudaError) as CudaError;
  assertEquals([error.code, error.call], ["ncclInvalidUsage", "ncclAllReduce"]);
  Communicator.group(() => communicator.allReduce(rest, rest));
  assertStringIncludes(told(), "ncclAllReduce source");
});

test("work that another rank of this machine has aborted does not count as complete", { skip }, async () => {
  const { path } = build();
  const library = openNccl(path, () => {});
  const id = library.getUniqueId();
  const [one, other] = [0, 1].map((rank) => library.commInitRank(0, { id, rank, size: 2 })) as [bigint, bigint];
  const late = new SharingError("timed-out", "It takes too long");
  assertEquals([library.commValidPrefix(one), library.commValidPrefix(other)], [undefined, undefined]);
  await library.commRevoke(one, { willAbort: false, completed: { collectives: 3, messages: true }, why: late });
  assertEquals(library.commValidPrefix(one), undefined);
  const { error, ...extent } = library.commValidPrefix(other)!;
  assertEquals(extent, { collectives: 3, messages: true });
  assertEquals((error as SharingError).code, "timed-out");
  assertStringIncludes(error.message, "Rank 0 (process ");
  assertEquals(library.commGetAsyncError(other) instanceof Error, false);
  await library.commAbort(one);
  // Whoever asks again and again what is right must not miss that a rank has ended.
  const gone = library.commValidPrefix(other)!.error;
  assertStringIncludes(gone.message, "Rank 0 has aborted");
  assertEquals(library.commGetAsyncError(other), gone);
  await library.commAbort(other);
});

test("a message to a rank that has left is refused at once", { skip }, async () => {
  const { path } = build();
  const library = openNccl(path, () => {});
  const id = library.getUniqueId();
  const [one, other] = [0, 1].map((rank) => library.commInitRank(0, { id, rank, size: 2, timeout: 3000 })) as [
    bigint,
    bigint,
  ];
  await library.commDestroy(other);
  const call = { comm: one, source: 0n, target: 0n, count: 1, type: 1, root: 1, stream: 0n };
  for (const name of ["send", "recv"] as const) {
    const error = assertThrows(() => library[name](call), SharingError, "Rank 1 has left: process ") as SharingError;
    assertEquals(error.code, "peer-gone");
  }
  await library.commAbort(one);
});

test("a rank that has died is named before those that aborted because of it", () => {
  const communicator = new NcclCommunicator(0, new Uint8Array(128), { timeout: 1000 });
  const states = ["left", "ended", "taken"];
  communicator.roster = {
    place: 2,
    places: 3,
    stateOf: (place: number) => states[place],
    pidOf: (place: number) => place,
    // The first one has aborted.
    readInto: (bytes: Uint8Array) => bytes.set([1]),
  } as unknown as Roster;
  assertEquals(communicator.pollForEnded()?.message, "Rank 1 has ended: process 1");
});

test(
  "before NCCL 2.23, the id is passed by value, and what is newer is refused or done by other calls",
  { skip },
  async () => {
    const { path, told } = build("-DOLD");
    const library = openNccl(path, () => {});
    assertEquals(library.name, "NCCL 2.18.3");
    const id = library.getUniqueId();
    const comm = library.commInitRank(0, { id, rank: 2, size: 3 });
    assertEquals(
      told(),
      "ncclCommInitRankConfig size 3 rank 2 id right, 48 bytes, magic cafebeef, version 21800, blocking 0, CTAs 1 to 1",
    );
    await library.commAbort(comm);
    using cuda = openWith(path);
    const gpu = cuda.device(0);
    await using communicator = await Communicator.create(gpu, { id, rank: 0, size: 1 });
    await assertRejects(() => communicator.shrink([]), SharingError, "NCCL 2.18.3 has no ncclCommShrink");
    using pool = gpu.createPool();
    using source = pool.allocate(16);
    using target = pool.allocate(16);
    communicator.allToAll(source, target);
    assertStringIncludes(told(), `ncclRecv target ${target.address} count 16 type 1 peer 0 `);
  },
);

test("a library that is not NCCL, or is not there, is refused with the reason", { skip }, () => {
  assertThrows(() => openNccl("/there/is/none.so", () => {}), Error, 'Cannot use "/there/is/none.so" as libnccl: ');
  assertThrows(() => openNccl("libm.so.6", () => {}), Error, "it is not NCCL, or older than NCCL 2.18");
});

test(
  "NVLink's multicast stays off, and ranks are connected when they are created, unless the environment says otherwise",
  {
    skip,
  },
  () => {
    const { path, told } = build();
    const libc = dlopen("libc.so.6", {
      setenv: { parameters: ["buffer", "buffer", "i32"], result: "i32" },
      unsetenv: { parameters: ["buffer"], result: "i32" },
    }).symbols;
    const bytes = (text: string) => new TextEncoder().encode(`${text}\0`);
    const names = ["NCCL_NVLS_ENABLE", "NCCL_RUNTIME_CONNECT"];
    try {
      for (const name of names) libc.unsetenv!(bytes(name));
      openNccl(path, () => {});
      assertEquals(told(), "NVLS 0, connect 0");
      libc.setenv!(bytes("NCCL_NVLS_ENABLE"), bytes("1"), 1);
      openNccl(path, () => {});
      assertEquals(told(), "NVLS 1, connect 0");
    } finally {
      for (const name of names) libc.unsetenv!(bytes(name));
    }
    assert(told().startsWith("NVLS"));
  },
);
