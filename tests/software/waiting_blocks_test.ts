/** Blocks that wait for other blocks: how many run at once, their faults, and other work in the meantime. */
import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { pageByteLength } from "../../src/software/memory/memory_layout.ts";
import { CudaError } from "../../src/support/errors.ts";
import { test } from "../support/test.ts";

const linearMemory = new LinearMemory();

const header = ".version 8.0\n.target sm_80\n.address_size 64\n";
const registers = ".reg .pred %p, %q; .reg .b32 %thread, %block, %count, %seen, %value; .reg .b64 %at, %to, %own;";

/**
 * Of each block, thread 0 counts the block and waits for `needed` blocks, or for a flag, while the others wait at a
 * barrier. Each thread stores `bad` bytes behind its place what the block had in shared memory before: 1000 times its
 * number, and the thread's.
 */
const ptx = `${header}
.visible .entry meet(.param .u64 arrived, .param .u32 needed, .param .u64 out, .param .u64 bad)
{
${registers}
.shared .b32 cells[256];
mov.u32 %thread, %tid.x;
mov.u32 %block, %ctaid.x;
mad.lo.u32 %value, %block, 1000, %thread;
mov.u64 %own, cells;
mul.wide.u32 %to, %thread, 4;
add.u64 %own, %own, %to;
st.shared.u32 [%own], %value;
ld.param.u64 %at, [arrived];
ld.param.u32 %count, [needed];
setp.ne.u32 %p, %thread, 0;
@%p bra TOGETHER;
red.global.add.u32 [%at], 1;
WAIT:
ld.volatile.global.u32 %seen, [%at];
setp.lt.u32 %q, %seen, %count;
@%q bra WAIT;
TOGETHER:
bar.sync 0;
ld.shared.u32 %value, [%own];
mov.u32 %seen, %ntid.x;
mad.lo.u32 %seen, %block, %seen, %thread;
mul.wide.u32 %to, %seen, 4;
ld.param.u64 %own, [out];
add.u64 %to, %to, %own;
setp.eq.u32 %p, %block, 5;
setp.eq.and.u32 %p, %thread, 37, %p;
ld.param.u64 %own, [bad];
@%p add.u64 %to, %to, %own;
st.global.u32 [%to], %value;
ret;
}
.visible .entry multiprocessors(.param .u64 out)
{
${registers}
ld.param.u64 %at, [out];
mov.u32 %block, %ctaid.x;
mul.wide.u32 %to, %block, 4;
add.u64 %at, %at, %to;
mov.u32 %value, %smid;
mov.u32 %count, %nsmid;
mad.lo.u32 %value, %value, 100, %count;
st.global.u32 [%at], %value;
ret;
}
`;
const lineOf = (text: string) => ptx.split("\n").findIndex((line) => line.startsWith(text)) + 1;

function openDevice(stepLimit = 2 ** 22): Cuda {
  return new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, stepLimit })));
}

/** Launches `meet`, and returns what its threads have stored. Each launch counts in a buffer of its own. */
async function meet(
  cuda: Cuda,
  { grid, block, needed = grid, bad = 0n, launches = 1 }: {
    grid: number;
    block: number;
    needed?: number;
    bad?: bigint;
    launches?: number;
  },
): Promise<Uint32Array[]> {
  const gpu = cuda.device(0);
  using owned = new DisposableStack();
  const kernel = owned.use(gpu.loadModule(ptx)).kernel("meet");
  const pool = owned.use(gpu.createPool());
  const started = Array.from({ length: launches }, () => {
    const stream = owned.use(gpu.createStream({ nonBlocking: true }));
    const arrived = owned.use(pool.allocateArray(Uint32Array, 1, stream));
    const out = owned.use(pool.allocateArray(Uint32Array, grid * block, stream));
    arrived.fill(0);
    kernel.launch({ grid, block, stream }, arrived, needed, out, bad);
    return out.toTypedArray();
  });
  return await Promise.all(started);
}

const stored = (grid: number, block: number) =>
  Uint32Array.from({ length: grid * block }, (_, i) => Math.floor(i / block) * 1000 + i % block);

test("as many blocks run at once as fit, beside those of other streams, and each keeps its own memory", async () => {
  using cuda = openDevice(2 ** 26);
  for (const [grid, block] of [[128, 32], [36, 200], [3, 31], [1, 64]] as const) {
    assertEquals(await meet(cuda, { grid, block, launches: 3 }), new Array(3).fill(stored(grid, block)));
  }
  // Blocks that begin when others have ended.
  assertEquals(await meet(cuda, { grid: 500, block: 64, needed: 100 }), [stored(500, 64)]);
});

test("blocks that wait forever are stopped, and the message says where they wait and how many fit", async () => {
  const waiting = `thread 0 at line \\d+ of the PTX \\(loop\\), threads 1-63 at line ${
    lineOf("TOGETHER") + 1
  } of the PTX \\(barrier\\)`;
  for (
    const [grid, needed, blocks, advice] of [
      [7, 8, "block \\(0,0,0\\) and 6 more", "check the loop's condition and the arguments that it depends on"],
      [200, 200, "block \\(0,0,0\\) and 127 more", "only 128 of the grid's 200 blocks fit on the device at once"],
    ] as const
  ) {
    const before = linearMemory.freeBytes;
    {
      using cuda = openDevice();
      const error = await assertRejects(() => meet(cuda, { grid, block: 64, needed }), CudaError);
      assertEquals(error.code, "cudaErrorLaunchTimeout");
      assertMatch(
        error.message,
        new RegExp(
          `block \\(0,0,0\\), thread \\(0,0,0\\), line .* all blocks that run only wait, ${blocks}, ${waiting}; ${advice}`,
        ),
      );
    }
    assertEquals(linearMemory.freeBytes, before);
  }
});

test("the fault of a block that runs beside others names that block and its thread", async () => {
  using cuda = openDevice();
  const error = await assertRejects(() => meet(cuda, { grid: 9, block: 64, bad: 2n ** 24n }), CudaError);
  assertEquals(error.code, "cudaErrorIllegalAddress");
  assertMatch(error.message, /kernel meet, block \(5,0,0\), thread \(37,0,0\), line \d+ of the PTX: writes 4 bytes at/);
});

test("a kernel may wait for what the host stores, while the event loop runs", async () => {
  using cuda = openDevice(2 ** 36);
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  using pool = gpu.createPool();
  using host = cuda.allocateHost(4);
  const words = new Uint32Array(host.buffer);
  using out = pool.allocateArray(Uint32Array, 2 * 32);
  words[0] = 0;
  module.kernel("meet").launch({ grid: 2, block: 32 }, host, 10, out, 0n);
  const read = out.toTypedArray();
  while (words[0]! < 2) await new Promise((resolve) => setTimeout(resolve));
  words[0] = 10;
  assertEquals(await read, stored(2, 32));
});

test("blocks are dealt out to the multiprocessors that the device reports", async () => {
  using cuda = openDevice();
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  using pool = gpu.createPool();
  const count = gpu.attribute("multiProcessorCount");
  for (const [grid, block] of [[10, 32], [1024, 64]] as const) {
    using out = pool.allocateArray(Uint32Array, grid);
    module.kernel("multiprocessors").launch({ grid, block }, out);
    assertEquals(await out.toTypedArray(), Uint32Array.from({ length: grid }, (_, i) => i % count * 100 + count));
  }
});

test("a cooperative launch fails if there is no memory for all its blocks at once", () => {
  using cuda = openDevice();
  using module = cuda.device(0).loadModule(ptx);
  const kernel = module.kernel("meet");
  const taken = takeAllBut(4 * pageByteLength);
  try {
    const error = assertThrows(() => {
      kernel.launch({ grid: 128, block: 32, cooperative: true }, 0n, 128, 0n, 0n);
    }, CudaError) as CudaError;
    assertEquals(error.code, "cudaErrorLaunchOutOfResources");
  } finally {
    for (const { offset, byteLength } of taken) linearMemory.release(offset, byteLength);
  }
});

/**
 * Reserves all free memory but some bytes, in several ranges: memory that tests of the same process have transferred
 * stays reserved for good, and what is free lies around it.
 */
function takeAllBut(leftBytes: number): { readonly offset: number; readonly byteLength: number }[] {
  const taken = [];
  for (let byteLength = 2 ** 31; byteLength >= pageByteLength; byteLength /= 2) {
    while (linearMemory.freeBytes - byteLength >= leftBytes) {
      const offset = linearMemory.reserve(byteLength);
      if (offset === undefined) break;
      taken.push({ offset, byteLength });
    }
  }
  assertEquals(linearMemory.freeBytes, leftBytes);
  return taken;
}
