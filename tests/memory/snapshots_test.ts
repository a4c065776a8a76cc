import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import process from "node:process";
import { checkFilePath } from "../../ffi/native/shim/folder_files.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { CudaError, Exporter, MemorySnapshot, open } from "../../mod.ts";
import { heldMemory } from "../../src/memory/pools/memory_registry.ts";
import { pickle } from "../../src/memory/snapshots/pickle.ts";
import { startScript } from "../support/child_process.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal();
const mebibyte = 2 ** 20;

/** Decodes a pickle file, with the opcodes that the page of PyTorch's viewer knows, and no others. */
// deno-lint-ignore no-explicit-any
function unpickle(bytes: Uint8Array): any {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const stack: unknown[] = [];
  const marks: number[] = [];
  for (let at = 0;;) {
    const opcode = bytes[at++];
    switch (opcode) {
      case 0x80:
        assertEquals(bytes[at++], 2);
        break;
      case 0x28:
        marks.push(stack.length);
        break;
      case 0x4e:
        stack.push(null);
        break;
      case 0x88:
      case 0x89:
        stack.push(opcode === 0x88);
        break;
      case 0x4a:
        stack.push(view.getInt32(at, true));
        at += 4;
        break;
      case 0x8a:
        assertEquals(bytes[at], 8);
        stack.push(Number(view.getBigInt64(at + 1, true)));
        at += 9;
        break;
      case 0x47:
        stack.push(view.getFloat64(at));
        at += 8;
        break;
      case 0x58: {
        const length = view.getUint32(at, true);
        stack.push(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(at + 4, at + 4 + length)));
        at += 4 + length;
        break;
      }
      case 0x5d:
        stack.push([]);
        break;
      case 0x65: {
        const elements = stack.splice(marks.pop()!);
        assert(elements.length <= 10_000, "The viewer passes the elements as arguments of a function");
        (stack.at(-1) as unknown[]).push(...elements);
        break;
      }
      case 0x7d:
        stack.push({});
        break;
      case 0x75: {
        const pairs = stack.splice(marks.pop()!);
        for (let index = 0; index < pairs.length; index += 2) {
          (stack.at(-1) as Record<string, unknown>)[pairs[index] as string] = pairs[index + 1];
        }
        break;
      }
      case 0x2e:
        assertEquals([at, stack.length, marks.length], [bytes.length, 1, 0]);
        return stack[0];
      default:
        throw new Error(`The viewer knows no opcode ${opcode}`);
    }
  }
}

test("a pickle file has the values that were encoded, for the viewer and for Python", () => {
  const value = {
    none: null,
    flags: [true, false],
    numbers: [0, -1, 2 ** 31 - 1, 2 ** 31, -(2 ** 31) - 1, 2 ** 47 + 256, Number.MAX_SAFE_INTEGER, 0.5, 1e300],
    strings: ["", "é\n\u{1f600}", "x".repeat(10_000)],
    many: Array.from({ length: 5000 }, (_, index) => ({ index })),
    nested: [[], [[]], {}],
  };
  assertEquals(unpickle(pickle(value)), value);
  const script = "import sys,pickle,json; print(json.dumps(pickle.load(sys.stdin.buffer)))";
  const { status, stdout } = spawnSync("python3", ["-c", script], { input: pickle(value), maxBuffer: 2 ** 26 });
  // Where there is no Python, only the viewer's rules are checked.
  if (status === 0) assertEquals(JSON.parse(stdout.toString()), value);
});

test("a snapshot shows what is where: buffers, slabs and their blocks, and what is freed", () => {
  using cuda = open({ driver: "software" });
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using other = cuda.device(1).createPool();
  using _far = other.allocate(512);
  using first = pool.allocate(mebibyte);
  using allocator = pool.createCachingAllocator({ slabByteLength: 4 * mebibyte });
  using used = allocator.allocate(1000);
  const gone = allocator.allocate(2000);
  using last = allocator.allocate(3000);
  gone.free();
  const { pools: [one, ...rest] } = pool.snapshot();
  assertEquals(rest, []);
  assertEquals([one!.name, one!.device], ["the pool on device 0", 0]);
  assertEquals([one!.used, one!.reserved >= one!.used], [pool.usage().used, true]);
  const buffer = one!.allocations.find(({ state }) => state === "buffer")!;
  assertEquals([buffer.address, buffer.byteLength, buffer.holders], [first.address, mebibyte, []]);
  const slab = one!.allocations.find(({ state }) => state === "slab")!;
  const covered = slab.blocks!.reduce((end, { byteOffset, byteLength }) => {
    assertEquals(byteOffset, end);
    return end + byteLength;
  }, 0);
  assertEquals(covered, slab.byteLength);
  const addresses = slab.blocks!.filter(({ state }) => state === "used").map(({ byteOffset }) =>
    slab.address + BigInt(byteOffset)
  );
  assertEquals(addresses.sort(), [used.address, last.address].sort());
  assertEquals(cuda.snapshot().pools.map(({ device }) => device).sort(), [0, 1]);
  assertStringIncludes(String(pool.snapshot()), "MemorySnapshot { 1 pool }");
});

test("a pool that was disposed is in snapshots while it has buffers, with the memory that it keeps", () => {
  const cuda = open({ driver: "software" });
  const pool = cuda.device(0).createPool();
  const buffer = pool.allocate(100);
  const { reserved } = pool.usage();
  pool[Symbol.dispose]();
  assertThrows(
    () => pool.snapshot(),
    ReferenceError,
    "Cannot take a snapshot of the pool on device 0: it was disposed",
  );
  assertEquals(cuda.snapshot().pools.map((pool) => [pool.used, pool.reserved]), [[100, reserved]]);
  buffer.free();
  assertEquals(cuda.snapshot().pools, []);
  cuda[Symbol.dispose]();
  assertThrows(() => cuda.snapshot(), ReferenceError, "Cannot take a snapshot: the Cuda object was disposed");
});

testOnEachDriver(
  "a snapshot has the bytes that CUDA has allocated from a pool, and has reserved for it",
  async (cuda) => {
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool({ releaseThreshold: Infinity });
    using allocator = pool.createCachingAllocator({ slabByteLength: 8 * mebibyte });
    const check = (count: number): void => {
      const { pools: [found] } = pool.snapshot();
      const { used, reserved } = pool.usage();
      assertEquals([found!.used, found!.reserved, found!.allocations.length], [used, reserved, count]);
      assertEquals(found!.allocations.reduce((sum, { byteLength }) => sum + byteLength, 0), used);
    };
    check(0);
    const buffers = [2, 4, 6, 32].map((size) => pool.allocate(size * mebibyte, stream));
    check(4);
    using _inSlab = allocator.allocate(1000, stream);
    check(5);
    for (const buffer of buffers.slice(1, 3)) buffer.free(stream);
    await stream.finished();
    check(3);
    for (const buffer of [buffers[0]!, buffers[3]!]) buffer.free(stream);
    await stream.finished();
    check(1);
  },
);

test("PyTorch's memory viewer finds a segment for each allocation, and all blocks within it", () => {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(1).createPool();
  using allocator = pool.createCachingAllocator();
  using host = cuda.createHostPool();
  using _inHost = host.allocate(4096, cuda.device(0).createStream());
  using _buffer = pool.allocate(mebibyte);
  using _small = allocator.allocate(100);
  const { segments, device_traces: traces } = unpickle(cuda.snapshot().toPickle());
  // One trace for each device, up to the last one that has memory.
  assertEquals(traces, [[], []]);
  assertEquals(segments.length, 2);
  for (const segment of segments) {
    assertEquals(segment.device, 1);
    let end = segment.address;
    for (const { address, size, requested_size: requested, state, frames } of segment.blocks) {
      assertEquals([address, requested <= size, Array.isArray(frames)], [end, true, true]);
      assert(["active_allocated", "active_pending_free", "inactive"].includes(state), state);
      end += size;
    }
    assertEquals(end, segment.address + segment.total_size);
  }
});

test("a snapshot names the processes that hold memory", { skip }, () =>
  inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
    using buffer = pool.allocate(4 * mebibyte);
    await using exporter = Exporter.listen(`${folder}/offers.sock`);
    exporter.offer("weights", buffer.subarray(mebibyte, 3 * mebibyte));
    assertEquals(pool.snapshot().pools[0]!.allocations[0]!.holders, []);
    await using child = startScript("children/cli/shared_frames.ts", ["hold", `${folder}/offers.sock`], {
      env: { POOLPASS_DRIVER: "software", NODE_NO_WARNINGS: "1" },
    });
    while (exporter.leases.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const { holders: [holder, ...rest] } = pool.snapshot().pools[0]!.allocations[0]!;
    assertEquals(rest, []);
    const { pid, offer, byteOffset, byteLength, since } = holder!;
    assertEquals([pid, offer, byteOffset, byteLength], [child.pid, "weights", mebibyte, 2 * mebibyte]);
    assert(Math.abs(Date.now() - since) < 60_000);
    assertStringIncludes(pool.snapshot().toSVG(), `held by process ${child.pid}`);
    child.kill("SIGKILL");
    await child.ended;
    while (exporter.leases.length > 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assertEquals(pool.snapshot().pools[0]!.allocations[0]!.holders, []);
  }));

test("a snapshot finds the holders of many allocations, and of parts of each", () => {
  using cuda = open({ driver: "software" });
  using pool = cuda.device(0).createPool();
  using buffers = new DisposableStack();
  const addresses = Array.from({ length: 300 }, () => buffers.use(pool.allocate(4096)).address);
  const held = [0, 1024].flatMap((byteOffset) =>
    addresses.map((address, index) => {
      const range = { address: address + BigInt(byteOffset), byteLength: 512 };
      return { pool, pid: index + 1, offer: "part", since: 7, range };
    })
  );
  const elsewhere = [{ ...held[0]!, pool: {} }, { ...held[0]!, range: { address: 1n, byteLength: 1 } }];
  const list = () => [...elsewhere, ...held, { ...held[0]!, range: { address: 2n ** 62n, byteLength: 1 } }];
  heldMemory.add(list);
  try {
    const { allocations } = pool.snapshot().pools[0]!;
    assertEquals(allocations.length, 300);
    for (const { address, holders } of allocations) {
      const holder = { pid: addresses.indexOf(address) + 1, offer: "part", since: 7, byteLength: 512 };
      assertEquals(holders, [{ ...holder, byteOffset: 0 }, { ...holder, byteOffset: 1024 }]);
    }
  } finally {
    heldMemory.delete(list);
  }
});

test("a picture is well-formed, whatever is in it", () => {
  const allocations = Array.from({ length: 100 }, (_, index) => ({
    address: 4096n * BigInt(index),
    byteLength: 100 + index,
    state: "buffer" as const,
    stack: 'at <script>alert("1")</script> & (file:///a\x1b[31m.ts:1:2)',
    holders: [{ pid: 1, offer: "</title><script>", since: 0, byteOffset: 0, byteLength: 10 }],
  }));
  const pool = { name: "<b>", device: 0, reserved: 1e6, used: 1e5, holders: [], allocations };
  const svg = new MemorySnapshot([pool]).toSVG();
  assert(!/<script|<b>/.test(svg) && !svg.includes("\x1b"));
  // Every element is closed by its kind.
  const open: string[] = [];
  for (const [, close, name, empty] of svg.matchAll(/<(\/?)(\w+)[^<>]*?(\/?)>/g)) {
    if (close) assertEquals(open.pop(), name);
    else if (!empty) open.push(name!);
  }
  assertEquals(open, []);
  assertStringIncludes(svg, "60 smaller allocations");
});

test("an error of too little memory names the file with the snapshot", { skip }, () =>
  inFolder(async (folder) => {
    const file = `${folder}/%p.pickle`;
    const start = (named: string) =>
      startScript("children/memory/run_out_of_memory.ts", [], {
        env: { POOLPASS_DRIVER: "software", POOLPASS_SNAPSHOT_ON_OOM: named, NODE_NO_WARNINGS: "1" },
      });
    await using child = start(file);
    await using failing = start(`${folder}/none/%p.svg`);
    const message = await child.nextLine() ?? await child.errors();
    const path = file.replace("%p", String(child.pid));
    assertStringIncludes(message, `; a snapshot of the memory is in ${path}`);
    assertEquals(statSync(path).mode & 0o777, 0o600);
    const { segments } = unpickle(readFileSync(path));
    assertEquals(segments.map(({ total_size: size }: { total_size: number }) => size), [3 * mebibyte]);
    assertEquals(await child.ended, 0);
    const why = `written to ${folder}/none/${failing.pid}.svg: there is no such folder; make it first`;
    assertStringIncludes(
      await failing.nextLine() ?? await failing.errors(),
      `; no snapshot of the memory could be ${why}`,
    );
    assertEquals(await failing.ended, 0);
    // A device is not replaced.
    checkFilePath(path);
    checkFilePath(`${folder}/none`);
    assertThrows(() => checkFilePath("/dev/null"), Error, "it is a character device; give the path of a file");
    // Without the variable, nothing is written.
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    const { message: plain } = assertThrows(() => pool.allocate(2 ** 40), CudaError);
    assert(!plain.includes("snapshot"), plain);
    assert(!existsSync(`${folder}/${process.pid}.pickle`));
    assertMatch(plain, /^Cannot allocate 1099511627776 bytes/);
  }));
