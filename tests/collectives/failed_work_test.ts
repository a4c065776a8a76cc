/** Every wait behind a collective that cannot end gets its error, and whatever ends a communicator ends its work. */
import { assertEquals, assertRejects } from "@std/assert";
import { Communicator, type Cuda, type CudaDevice, open, SharingError } from "../../mod.ts";
import { leakTest } from "../support/resources.ts";

/** Milliseconds after which a collective has failed. */
const timeout = 200;

interface Parts {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly ranks: readonly Communicator[];
}

/** A test with a communicator of which some ranks are idle. */
function testRanks(name: string, body: (parts: Parts) => Promise<void>, milliseconds = timeout): void {
  leakTest(name, async () => {
    using cuda = open({ driver: "software" });
    const gpu = cuda.device(0);
    const id = Communicator.createId(cuda);
    const ranks = await Promise.all(
      [0, 1, 2].map((rank) => Communicator.create(gpu, { id, rank, size: 3, timeout: milliseconds })),
    );
    await body({ cuda, gpu, ranks });
  });
}

const long = 600_000;

testRanks("the end of the Cuda object ends communicators without another error", async ({ cuda, gpu, ranks }) => {
  using pool = gpu.createPool();
  {
    using array = pool.allocateArray(Float32Array, 4);
    ranks[0]!.allReduce(array, array);
  }
  const disposed = ranks[0]![Symbol.asyncDispose]();
  cuda[Symbol.dispose]();
  await disposed;
  // An error that nobody awaits would come now, and fail the test.
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const rank of ranks) {
    await rank.abort();
    await rank[Symbol.asyncDispose]();
  }
}, long);

testRanks("the end of the Cuda object ends what waits for other ranks", async ({ cuda, gpu, ranks }) => {
  const id = Communicator.createId(cuda);
  const errors = Promise.all(
    [Communicator.create(gpu, { id, rank: 0, size: 2 }), ranks[0]!.split(0), ranks[1]!.split(undefined)].map((wait) =>
      assertRejects(() => wait, ReferenceError, "the Cuda object was disposed")
    ),
  );
  await new Promise((resolve) => setTimeout(resolve, 5));
  cuda[Symbol.dispose]();
  await errors;
}, long);

testRanks("a communicator that is disposed of while its work hangs can be aborted", async ({ gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  ranks[0]!.allReduce(array, array);
  const disposed = ranks[0]![Symbol.asyncDispose]();
  const again = ranks[0]![Symbol.asyncDispose]();
  await ranks[0]!.abort();
  await Promise.all([disposed, again]);
  const error = await assertRejects(() => array.toTypedArray(), SharingError, "it was aborted");
  assertEquals(error.code, "cut-off");
}, long);

testRanks("shrinking ends work that hangs with an error", async ({ gpu, ranks }) => {
  using array = gpu.createPool().allocateArray(Float32Array, 4);
  ranks[0]!.allReduce(array, array);
  const rest = await Promise.all(ranks.slice(0, 2).map((rank) => rank.shrink([2])));
  const error = await assertRejects(() => array.toTypedArray(), SharingError, "it was shrunk");
  assertEquals(error.code, "cut-off");
  array.fill(1);
  Communicator.group(() => rest.forEach((rank) => rank.allReduce(array, array)));
  await gpu.defaultStream.finished();
  for (const rank of [...rest, ...ranks]) await rank[Symbol.asyncDispose]();
}, long);
