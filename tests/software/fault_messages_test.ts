/** What the error of a fault says of the memory that a kernel has accessed. */
import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertNotMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { memHandleType, memLocationType, type MemPoolProps, streamFlags } from "../../src/driver.ts";
import { sharedAddressBase } from "../../src/software/abi/addresses.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import { Session } from "../../src/session.ts";
import { CudaError } from "../../src/support/errors.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { someOf, test } from "../support/test.ts";

const ptx = `.version 7.8
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 area[];
.global .align 4 .b8 table[40];
.const .align 4 .b8 weights[12];
.visible .entry at(.param .u64 address) {
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
ld.param.u64 %rd1, [address];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r2, %r2, 8; add.u32 %r1, %r1, %r2;
setp.eq.u32 %p1, %r1, 261;
@%p1 BODY
ret;
}
`;

/** Loads the kernel. Returns a function that launches it: its thread 5 of block 1 accesses an address. */
function load(
  driver: SoftwareDriver,
  instruction: string,
  { device = 0, sharedMemoryBytes = 0, declarations = "" } = {},
): (address: bigint) => void {
  const text = ptx.replace("BODY", instruction).replace("ld.param", `${declarations}\nld.param`);
  const kernel = driver.moduleGetFunction(driver.moduleLoadData(device, text), "at");
  return (address) => {
    const launch = driver.createKernelLaunch(device, kernel, 8);
    launch.parameters.setBigUint64(0, address, true);
    driver.launchKernel(Object.assign(launch, { gridX: 2, blockX: 32, sharedMemoryBytes }));
  };
}

const place = "kernel at, block (1,0,0), thread (5,0,0), line ";

/** What a fault's message says after the place, without the error's name. */
function faultOf(driver: SoftwareDriver, device = 0): string {
  const error = assertThrows(() => driver.deviceSynchronize(device), CudaError) as CudaError;
  assertStringIncludes(
    error.message,
    place,
  );
  const match = /line \d+ of the PTX: (.*) \((cuda\w+)\)(?:; the kernel was launched with \(.*\))?$/.exec(
    error.message,
  );
  if (match === null) throw new Error(`Cannot read "${error.message}"`);
  assertEquals(match[2], error.code);
  return match[1]!.replace(/ at 0x\w+,/, "");
}

const manyParameters = ["s32", "u8", "u16", "f16", "f32", "f64", "u64", "u64", "u64"] as const;

test("the error of a fault lists the arguments of the launch", () => {
  const declared = [".align 4 .b8 s[12]", ...manyParameters.map((type, index) => `.${type} p${index}`)];
  const text = `.version 7.8\n.target sm_80\n.address_size 64\n` +
    ["past", "spins"].map((name) => {
      const body = name === "past" ? "st.global.u32 [%rd1], 1; ret;" : "AGAIN: bra AGAIN;";
      const parameters = (name === "past" ? declared.slice(1) : declared.slice(0, 2)).map((each) => `.param ${each}`);
      const load = name === "past" ? "ld.param.u64 %rd1, [p6];" : "";
      return `.visible .entry ${name}(${parameters.join(", ")}) {\n.reg .b64 %rd<2>;\n${load}\n${body}\n}\n`;
    }).join("");
  const launch = (name: string, ...args: unknown[]) => {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true, stepLimit: 2 ** 22 })));
    const device = cuda.device(0);
    using x = device.createPool().allocateArray(Float32Array, 16);
    using module = device.loadModule(text);
    const kernel = module.kernel(name);
    const given = args.map((arg) => arg === "x" ? x.subarray(16) : arg === "first" ? x.subarray(12) : arg);
    kernel.launch({ grid: 1, block: 1 }, ...given as never[]);
    const { message } = assertThrows(() => device.synchronize(), CudaError) as CudaError;
    return message.replaceAll(/0x[0-9a-f]{6,}/g, "ADDRESS");
  };
  assertStringIncludes(
    launch("past", -1, 255, 7, 0.1, 0.1, 0.1, 2n ** 40n, "first", 0),
    "; the kernel was launched with (-1, 255 or -1, 7, 0.1, 0.1, 0.1, 1099511627776, ADDRESS with 16 bytes from there, ...)",
  );
  assertStringIncludes(
    launch("spins", new Float32Array(3), 0),
    "; the kernel was launched with (12 bytes, 0); a typed array gives all fields of a struct one type, and struct({ ... })",
  );
});

const deviceMemory: MemPoolProps = {
  handleTypes: memHandleType.none,
  location: { type: memLocationType.device, id: 0 },
  maxSize: 0n,
};
const hostMemory: MemPoolProps = { ...deviceMemory, location: { type: memLocationType.host, id: 0 } };

const store = "st.global.u32 [%rd1], 1;";

interface Case {
  readonly instruction?: string;
  /** Returns the address. May launch the kernel itself. */
  readonly prepare?: (driver: SoftwareDriver, launch: (address: bigint) => void) => bigint | undefined;
  readonly devices?: number;
  readonly device?: number;
  readonly launch?: { sharedMemoryBytes?: number; declarations?: string };
  readonly what: string;
}

function pooled(driver: SoftwareDriver, byteLength: number, properties = deviceMemory): bigint {
  return driver.mallocFromPoolAsync(0, byteLength, driver.memPoolCreate(properties), 0n);
}

const cases: Readonly<Record<string, Case>> = {
  "past a buffer": {
    prepare: (driver) => pooled(driver, 4096) + 4096n + 68n,
    what: "writes 4 bytes 68 bytes past the end of a buffer of 4096 bytes on device 0",
  },
  "right past a buffer": {
    instruction: "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];",
    prepare: (driver) => pooled(driver, 4096) + 4096n,
    what: "reads 16 bytes right past the end of a buffer of 4096 bytes on device 0",
  },
  "partly past a buffer": {
    instruction: "atom.global.add.u32 %r1, [%rd1], 1;",
    prepare: (driver) => pooled(driver, 4097) + 4096n,
    what: "atomically updates 4 bytes the last 3 of them past the end of a buffer of 4097 bytes on device 0",
  },
  "before a buffer": {
    instruction: "st.u8 [%rd1], 1;",
    prepare: (driver) => pooled(driver, 1) - 1n,
    what: "writes 1 byte 1 byte before a buffer of 1 byte on device 0",
  },
  "a misaligned access": {
    prepare: (driver) => pooled(driver, 64) + 6n,
    what: "writes 4 bytes not a multiple of 4, 6 bytes into a buffer of 64 bytes on device 0",
  },
  "freed memory": {
    prepare(driver) {
      const address = pooled(driver, 640);
      driver.freeAsync(0, address, 0n);
      driver.deviceSynchronize(0);
      return address + 100n;
    },
    what: "writes 4 bytes 100 bytes into a buffer of 640 bytes on device 0 that was freed",
  },
  "past a buffer whose free is queued behind the kernel": {
    prepare(driver, launch) {
      const address = pooled(driver, 640);
      launch(address + 640n);
      driver.freeAsync(0, address, 0n);
      return undefined;
    },
    what: "writes 4 bytes right past the end of a buffer of 640 bytes on device 0",
  },
  "an unpooled buffer": {
    prepare: (driver) => driver.malloc(0, 100) + 104n,
    what: "writes 4 bytes 4 bytes past the end of a buffer of 100 bytes on device 0",
  },
  "a freed unpooled buffer": {
    prepare(driver) {
      const address = driver.malloc(0, 100);
      driver.free(0, address);
      return address;
    },
    what: "writes 4 bytes at the start of a buffer of 100 bytes on device 0 that was freed",
  },
  "host memory": {
    prepare: (driver) => pooled(driver, 100, hostMemory),
    what: "writes 4 bytes at the start of a buffer of 100 bytes in host memory, which device 0 has no access to: " +
      "call setAccess of its pool",
  },
  "page-locked memory": {
    prepare: (driver) => driver.hostAlloc(100).address + 200n,
    what: "writes 4 bytes 100 bytes past the end of page-locked memory of 100 bytes",
  },
  "memory of another device": {
    devices: 2,
    device: 1,
    prepare: (driver) => pooled(driver, 100) + 8n,
    what: "writes 4 bytes 8 bytes into a buffer of 100 bytes on device 0, which device 1 has no access to: " +
      "call setAccess of its pool",
  },
  "memory that is allocated later": {
    prepare(driver, launch) {
      const pool = driver.memPoolCreate(deviceMemory);
      const other = driver.streamCreateWithPriority(0, streamFlags.nonBlocking, 0);
      const address = driver.mallocFromPoolAsync(0, 100, pool, other);
      driver.freeAsync(0, address, other);
      driver.streamSynchronize(0, other);
      launch(address);
      const event = driver.eventCreateWithFlags(0, 0);
      driver.eventRecord(0, event, 0n);
      driver.streamWaitEvent(0, other, event);
      assertEquals(driver.mallocFromPoolAsync(0, 100, pool, other), address);
      return undefined;
    },
    what: "writes 4 bytes at the start of a buffer of 100 bytes on device 0, which is allocated only later in the " +
      "order of the streams",
  },
  "a variable": {
    instruction: "st.global.u32 [table+44], 1;",
    what: "writes 4 bytes 4 bytes past the end of the variable table of 40 bytes",
  },
  "a constant": {
    instruction: "ld.const.u32 %r1, [weights+12];",
    what: "reads 4 bytes right past the end of the constant weights of 12 bytes",
  },
  "no buffer": {
    prepare: (driver) => (pooled(driver, 4) & ~0xffff_ffffn) + 0xffff_0000n,
    what: "writes 4 bytes not in or near a buffer",
  },
  "an index below 0": {
    prepare: (driver) => pooled(driver, 4096) + 4n * 0xffff_ffffn,
    what:
      "writes 4 bytes 16 GiB and 4 bytes before a buffer of 4096 bytes on device 0: an index may have become negative",
  },
  "a null pointer": { prepare: () => 0n, what: "writes 4 bytes at address 0x0, a null pointer" },
  "a null pointer with an offset": {
    instruction: "ld.f32 %f1, [%rd1+16];",
    prepare: () => 0n,
    what: "reads 4 bytes at address 0x10, probably a null pointer plus 16, or the number 16 passed for a pointer",
  },
  "a null pointer with an offset that is not aligned": {
    instruction: "ld.u32 %r1, [%rd1+26];",
    what: "reads 4 bytes at address 0x1a, not a multiple of 4, probably a null pointer plus 26, " +
      "or the number 26 passed for a pointer",
  },
  "a null pointer with a negative offset": {
    instruction: "ld.f32 %f1, [%rd1+-8];",
    prepare: () => 0n,
    what: "reads 4 bytes at address 0xfffffffffffffff8, probably a null pointer minus 8",
  },
  "a number": { prepare: () => 123456n, what: "writes 4 bytes which is a number and not an address" },
  "another address": {
    prepare: () => 0x7fff_1234_5678n,
    what: "writes 4 bytes which is not an address of this device",
  },
  "static shared memory": {
    instruction: "st.shared.u32 [%r5+1032], 1;",
    launch: { declarations: ".shared .align 4 .b8 tile[1024]; mov.u32 %r5, tile;" },
    what: "writes 4 bytes 8 bytes past the 1024 bytes of static shared memory",
  },
  "dynamic shared memory": {
    instruction: "ld.shared.u32 %r1, [area+64];",
    launch: { sharedMemoryBytes: 64 },
    what: "reads 4 bytes right past the 64 bytes of dynamic shared memory",
  },
  "static and dynamic shared memory": {
    instruction: "atom.shared.add.u32 %r1, [area+76], 1;",
    launch: { sharedMemoryBytes: 64, declarations: ".shared .align 4 .b8 tile[1024];" },
    what: "atomically updates 4 bytes 12 bytes past the 1088 bytes of shared memory (1024 static, 64 dynamic)",
  },
  "before shared memory": {
    instruction: "st.shared.u32 [%r5+-4], 1;",
    launch: { declarations: ".shared .align 4 .b8 tile[1024]; mov.u32 %r5, tile;" },
    what: "writes 4 bytes 4 bytes before the 1024 bytes of static shared memory",
  },
  "shared memory by a generic address": {
    prepare: () => sharedAddressBase + 1032n,
    instruction: "st.u32 [%rd1], 1;",
    launch: { declarations: ".shared .align 4 .b8 tile[1024]; mov.u32 %r5, tile;" },
    what: "writes 4 bytes 8 bytes past the 1024 bytes of static shared memory",
  },
  "a generic address in .shared": {
    prepare: () => sharedAddressBase,
    instruction: "st.shared.u32 [%rd1], 1;",
    launch: { declarations: ".shared .align 4 .b8 tile[1024]; mov.u32 %r5, tile;" },
    what: "writes 4 bytes which is not an address in .shared: it may be a generic address that was not converted",
  },
  "misaligned shared memory": {
    instruction: "ld.shared.u32 %r1, [%r5+2];",
    launch: { declarations: ".shared .align 4 .b8 tile[1024]; mov.u32 %r5, tile;" },
    what: "reads 4 bytes not a multiple of 4, 2 bytes into the 1024 bytes of static shared memory",
  },
  "local memory": {
    instruction: "st.local.u32 [%r5+20], 1;",
    launch: { declarations: ".local .align 4 .b8 own[16]; mov.u32 %r5, own;" },
    what: "writes 4 bytes 4 bytes past the 16 bytes of the thread's local memory",
  },
  "the kernel's parameters": {
    instruction: "st.u32 [%rd5], 1;",
    launch: { declarations: "mov.u64 %rd5, address; cvta.param.u64 %rd5, %rd5;" },
    what: "writes 4 bytes at the start of the 8 bytes of the kernel's parameters, which are read-only",
  },
};

for (const gangs of [false, "always"] as const) {
  for (const [name, { instruction = store, prepare, devices = 1, device = 0, launch, what }] of Object.entries(cases)) {
    test(`a fault names its memory, ${gangs ? "in gangs" : "scalar"}: ${name}`, () => {
      const driver = new SoftwareDriver({ devices, peers: true, gangs });
      try {
        const run = load(driver, instruction, { device, ...launch });
        const address = prepare === undefined ? 0n : prepare(driver, run);
        if (address !== undefined) run(address);
        assertEquals(faultOf(driver, device), what);
      } finally {
        driver.close();
      }
    });
  }
}

test("a fault names the nearest of many buffers", () => {
  let state = 1;
  const random = (end: number) => {
    state = state * 48271 % 0x7fff_ffff;
    return state % end;
  };
  let inFreed = 0;
  for (let each = 0; each < someOf(Array(600).fill(0), 6).length; each++) {
    const driver = new SoftwareDriver({ devices: 1, peers: true, gangs: each % 2 === 0 ? "always" : false });
    try {
      const run = load(driver, store);
      const pools = [driver.memPoolCreate(deviceMemory), driver.memPoolCreate(deviceMemory)] as const;
      let buffers: { begin: bigint; end: bigint; isFreed: boolean }[] = [];
      for (let count = 1 + random(20); count > 0; count--) {
        const byteLength = BigInt([4, 100, 512, 3000, 70_000][random(5)]!);
        const begin = driver.mallocFromPoolAsync(0, Number(byteLength), pools[random(2)]!, 0n);
        const end = begin + byteLength;
        // Memory that is used again is that of the new buffer.
        buffers = buffers.filter((other) => !other.isFreed || other.end <= begin || other.begin >= end);
        buffers.push({ begin, end, isFreed: false });
        const freed = buffers[random(buffers.length)]!;
        if (random(3) !== 0 || freed.isFreed) continue;
        driver.freeAsync(0, freed.begin, 0n);
        driver.deviceSynchronize(0);
        freed.isFreed = true;
      }
      const near = buffers[random(buffers.length)]!;
      const address = (near.isFreed && random(2) === 0 ? near.begin : [near.end, near.begin - 400n][random(2)]!) +
          BigInt(random(400)) & ~3n;
      const distances = buffers.map(({ begin, end }) => {
        return address + 4n <= begin ? begin - address - 3n : address >= end ? address - end + 1n : 0n;
      });
      const least = distances.reduce((one, other) => one < other ? one : other);
      const nearest = buffers.filter((_, index) => distances[index] === least);
      const [{ begin, end, isFreed }] = nearest as [typeof near];
      if (nearest.length > 1 || (!isFreed && address >= begin && address + 4n <= end)) continue;
      if (least === 0n && isFreed) inFreed++;
      run(address);
      const position = address < begin
        ? `${begin - address} ${begin - address === 1n ? "byte" : "bytes"} before`
        : address > end
        ? `${address - end} bytes past the end of`
        : address === end
        ? "right past the end of"
        : address + 4n > end
        ? `the last ${address + 4n - end} of them past the end of`
        : address === begin
        ? "at the start of"
        : `${address - begin} bytes into`;
      assertEquals(
        faultOf(driver),
        `writes 4 bytes ${position} a buffer of ${end - begin} bytes on device 0${isFreed ? " that was freed" : ""}`,
      );
    } finally {
      driver.close();
    }
  }
  assertNotEquals(inFreed, 0);
});

test("a fault says where the buffer was allocated and freed if call sites are recorded", () => {
  const uses: Readonly<Record<string, (gpu: CudaDevice) => [address: bigint, expected: RegExp]>> = {
    pool(gpu) {
      const { address } = gpu.createPool().allocate(640);
      return [address + 640n, /a buffer of 640 bytes on device 0, allocated .*fault_messages_test\.ts:\d+:\d+/];
    },
    freed(gpu) {
      const buffer = gpu.createPool().allocate(640);
      const { address } = buffer;
      buffer.free();
      gpu.synchronize();
      return [
        address,
        /640 bytes on device 0 that was freed .*fault_messages_test\.ts:\d+:\d+\)?, allocated .*fault_messages_test\.ts:/,
      ];
    },
    unpooled(gpu) {
      return [
        gpu.allocate(100).address + 100n,
        /a buffer of 100 bytes on device 0, allocated .*fault_messages_test\.ts:\d+:\d+/,
      ];
    },
    cached(gpu) {
      const allocator = gpu.createPool().createCachingAllocator({ slabByteLength: 2 ** 21 });
      const { address } = allocator.allocate(2 ** 21 - 700);
      return [
        address + BigInt(2 ** 21),
        /\d+ bytes past the end of a buffer of 2096452 bytes .*, allocated .*fault_messages_test/,
      ];
    },
  };
  for (const debug of [true, false]) {
    for (const [name, use] of Object.entries(uses)) {
      using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true }), { debug }));
      // Loaded first, so that its variables do not take the place of freed memory.
      const gpu = cuda.device(0);
      const kernel = gpu.loadModule(ptx.replace("BODY", store)).kernel("at");
      const [address, expected] = use(gpu);
      kernel.launch({ grid: 2, block: 32 }, address);
      const { message } = assertThrows(() => gpu.synchronize(), CudaError);
      if (debug) assertMatch(message, expected, name);
      else if (name === "cached") assertMatch(message, /past the end of a buffer of at most \d+ bytes on device 0 \(/);
      else assertNotMatch(message, /_test\.ts/, name);
    }
  }
});

/** What nvcc 13.0 makes of a kernel that calls `put` of step.cuh in line 4 of step.cu, with -lineinfo. */
const stepPtx = `.version 9.0
.target sm_80
.address_size 64

 // .globl step

.visible .entry step(
 .param .u64 step_param_0,
 .param .u32 step_param_1
)
{
 .reg .b32  %r<8>;
 .reg .b64  %rd<5>;
 .loc 1 2 0


 ld.param.u64  %rd1, [step_param_0];
 ld.param.u32  %r1, [step_param_1];
 .loc 1 3 3
 cvta.to.global.u64  %rd2, %rd1;
 mov.u32  %r2, %tid.x;
 mov.u32  %r3, %ctaid.x;
 mov.u32  %r4, %ntid.x;
 mad.lo.s32  %r5, %r3, %r4, %r2;
 .loc 1 4 3
 add.s32  %r6, %r5, %r1;
 shl.b32  %r7, %r5, 1;
 .loc 1 4 3
 .loc 2 3 3, function_name \$L__info_string0, inlined_at 1 4 3
 mul.wide.s32  %rd3, %r6, 4;
 add.s64  %rd4, %rd2, %rd3;
 st.global.u32  [%rd4], %r7;
 .loc 1 5 1
 ret;

}
 .file 1 "/build/cuda/step.cu"
 .file 2 "/build/cuda/step.cuh"
 .section .debug_str
 {
\$L__info_string0:
.b8 95,90,51,112,117,116,80,105,105,105,0

 }`;

for (const gangs of [false, "always"] as const) {
  test(`a fault names the lines of the source and of the inlined function, ${gangs ? "in gangs" : "scalar"}`, () => {
    const driver = new SoftwareDriver({ devices: 1, peers: true, gangs });
    try {
      const kernel = driver.moduleGetFunction(driver.moduleLoadData(0, stepPtx), "step");
      const launch = driver.createKernelLaunch(0, kernel, 12);
      launch.parameters.setBigUint64(0, pooled(driver, 4 * 100), true);
      launch.parameters.setInt32(8, 3, true);
      driver.launchKernel(Object.assign(launch, { gridX: 4, blockX: 32 }));
      const { message } = assertThrows(() => driver.deviceSynchronize(0), CudaError);
      assertMatch(
        message,
        /^kernel step, block \(3,0,0\), thread \(1,0,0\), step\.cuh:3, inlined at step\.cu:4: writes 4 bytes at 0x7a\w+, right past the end of a buffer of 400 bytes on device 0 \(cudaErrorIllegalAddress\); the kernel was launched with \(0x7a\w+ with 400 bytes from there, 3\)$/,
      );
    } finally {
      driver.close();
    }
  });
}
