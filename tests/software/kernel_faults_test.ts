import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { Cuda } from "../../src/objects/cuda.ts";
import { CudaError } from "../../src/support/errors.ts";
import { Session } from "../../src/session.ts";
import { SoftwareDriver } from "../../src/software/software_driver.ts";
import { LinearMemory } from "../../src/software/memory/linear_memory.ts";
import { startScript } from "../support/child_process.ts";
import { firstBodyLine, testModule } from "../compiler/compiler_device.ts";
import { firstThreadsLine, threadsModule, upTo } from "../compiler/threads.ts";
import { test } from "../support/test.ts";

/** The parameters, shape and device of a launch. */
interface Launch {
  readonly out?: bigint;
  readonly in?: bigint;
  readonly block?: number;
  readonly grid?: number;
  readonly sharedMemoryBytes?: number;
  readonly stepLimit?: number;
  /** Checks the contents of memory before it is freed. */
  readonly check?: () => void;
}

/** Launches a module's kernel on new devices and waits for it. */
async function launch(
  ptx: string,
  options: Launch,
  use: (driver: SoftwareDriver) => Launch = () => ({}),
): Promise<void> {
  const { stepLimit = 2 ** 22 } = options;
  const driver = new SoftwareDriver({ devices: 2, peers: true, stepLimit });
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  const { out = 0n, in: source = 0n, block = 1, grid = 1, sharedMemoryBytes = 0, check } = {
    ...options,
    ...use(driver),
  };
  const stream = gpu.createStream();
  const kernel = gpu.loadModule(ptx).kernel("test");
  kernel.launch({ grid, block, stream, sharedMemoryBytes }, out, source);
  try {
    await stream.finished();
  } catch (error) {
    // As after any loss of a device, no stream and no device of the process works any more.
    for (const call of [() => gpu.defaultStream.synchronize(), () => void cuda.device(1).createStream()]) {
      assertEquals(assertThrows(call, CudaError).code, (error as CudaError).code);
    }
    throw error;
  } finally {
    check?.();
  }
}

/** Returns the error of a launch. */
async function failure(
  ptx: string,
  options: Launch = {},
  use?: (driver: SoftwareDriver) => Launch,
): Promise<CudaError> {
  return await assertRejects(() => launch(ptx, options, use), CudaError);
}

/**
 * Returns the result of a kernel that accesses memory at an offset from the middle one of three allocations. Fails if
 * the kernel writes to another one.
 */
async function accessOf(instruction: string, { size, offset }: { size: number; offset: number }): Promise<string> {
  let isWritten: boolean[] = [];
  const run = launch(testModule(`add.u64 %rd2, %rd0, %rd1;\n${instruction}`), {}, (driver) => {
    const hosts = upTo(3, () => driver.hostAlloc(size));
    for (const { buffer } of hosts) new Uint8Array(buffer).fill(0xee);
    const check = () => {
      isWritten = hosts.map(({ buffer }) => new Uint8Array(buffer).some((byte) => byte !== 0xee));
    };
    return { out: hosts[1]!.address, in: BigInt(offset), check };
  });
  const code = await run.then(() => "finished", (error: CudaError) => error.code);
  assertEquals(isWritten, [false, code === "finished" && /^st/.test(instruction), false], instruction);
  return code;
}

const widths: readonly [bytes: number, instructions: readonly string[]][] = [
  [1, ["st.global.u8 [%rd2], 1;", "st.u8 [%rd2], 1;", "ld.global.u8 %r1, [%rd2];", "ld.s8 %r1, [%rd2];"]],
  [4, [
    "st.global.u32 [%rd2], 1;",
    "atom.global.add.u32 %r1, [%rd2], 1;",
    "red.add.u32 [%rd2], 1;",
    "ld.f32 %f1, [%rd2];",
  ]],
  [8, ["st.u64 [%rd2], 1;", "ld.global.v2.u32 {%r1, %r2}, [%rd2];", "atom.cas.b64 %rd3, [%rd2], 1, 2;"]],
  [16, [
    "st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4};",
    "st.v2.f64 [%rd2], {%fd1, %fd2};",
    "ld.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2];",
  ]],
];

for (const size of [16, 17, 30, 504, 511, 512, 513, 4096, 65_543]) {
  const long = ![17, 512, 65_543].includes(size);
  test(`the last bytes of ${size} can be accessed, but not those past them`, { long }, async () => {
    for (const [bytes, instructions] of widths) {
      const last = Math.floor(size / bytes) * bytes - bytes;
      const [instruction, ...others] = instructions;
      assertEquals(await accessOf(instruction!, { size, offset: last }), "finished", instruction);
      for (const each of [instruction!, ...others]) {
        assertEquals(await accessOf(each, { size, offset: last + bytes }), "cudaErrorIllegalAddress", each);
      }
      assertEquals(await accessOf(instruction!, { size, offset: -bytes }), "cudaErrorIllegalAddress", instruction);
    }
  });
}

test("misaligned accesses have their own error", async () => {
  for (const [bytes, instructions] of widths.slice(1)) {
    for (const instruction of instructions) {
      const access = { size: 64, offset: bytes / 2 };
      assertEquals(await accessOf(instruction, access), "cudaErrorMisalignedAddress", instruction);
    }
  }
});

test("a kernel does nothing after a fault, and the error names the line", async () => {
  const error = await failure(
    testModule("st.global.u32 [%rd0], 1;\n\nmov.u64 %rd2, 0; st.u32 [%rd2], 1;\nst.global.u32 [%rd0+4], 1;"),
    {},
    (
      driver,
    ) => ({ out: driver.hostAlloc(64).address }),
  );
  assertEquals(error.code, "cudaErrorIllegalAddress");
  assertMatch(
    error.message,
    new RegExp(`line ${firstBodyLine + 2} of the PTX: writes 4 bytes at address 0x0, a null pointer \\(`),
  );
});

const recursion = `
.func endless(.param .b32 n) {
  .reg .b32 %r<3>;
  .local .b32 frame[20];
  ld.param.u32 %r1, [n];
  add.u32 %r1, %r1, 1;
  bar.sync 0;
  call endless, (%r1);
  st.local.u32 [frame], %r1;
  ret;
}`;
const failed = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);";
const faults: readonly [what: string, body: string, code: string, message: RegExp, declarations?: string][] = [
  [
    "a trap",
    "setp.eq.u32 %p1, %r0, 40;\n@%p1 trap;",
    "cudaErrorLaunchFailure",
    /block \(0,0,0\), thread \(40,0,0\), line \d+ of the PTX: executes a trap \(cudaErrorLaunchFailure\);/,
  ],
  [
    "a barrier of the grid in a launch that is not cooperative",
    "mov.u32 %r1, %envreg2;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 trap;",
    "cudaErrorLaunchFailure",
    /executes a trap, as grid\.sync\(\) does in a launch that is not cooperative: launch it with cooperative: true \(/,
  ],
  [
    "endless recursion through barriers",
    "call endless, (%r0);",
    "cudaErrorIllegalAddress",
    /thread \(0,0,0\), line \d+ of the PTX: needs more stack than the \d+ bytes of the thread \(/,
    recursion,
  ],
  [
    "alloca of more memory than there is",
    "mov.u64 %rd3, 0xfffffffffffffff8;\nalloca.u64 %rd4, %rd3;\nst.local.u32 [%rd4], 1;",
    "cudaErrorIllegalAddress",
    /needs more stack than the \d+ bytes of the thread \(/,
  ],
  [
    "a call of an address that is not a function",
    "P: .callprototype _ ();\nmov.u64 %rd3, 16;\ncall %rd3, (), P;",
    "cudaErrorIllegalInstruction",
    /line \d+ of the PTX: calls address 0x10, probably a null pointer plus 16, where no function begins \(/,
    ".func f() { ret; } .global .u64 table = f;",
  ],
  [
    "local memory past its end",
    ".local .b32 own[4];\nmov.u32 %r3, own;\nst.local.u32 [%r3+32768], 1;",
    "cudaErrorIllegalAddress",
    /thread \(0,0,0\), line \d+ of the PTX: writes 4 bytes at 0x7a\w+, 32752 bytes past the 16 bytes of the thread's local memory \(/,
  ],
  [
    "shared memory of a launch past its end",
    "mov.u32 %r3, area;\nst.shared.u32 [%r3+60], 1;\nst.shared.u32 [%r3+64], 1;",
    "cudaErrorIllegalAddress",
    new RegExp(
      `line ${
        firstThreadsLine + 2
      } of the PTX: writes 4 bytes at 0x7a\\w+, right past the 64 bytes of dynamic shared memory \\(`,
    ),
    ".extern .shared .align 16 .b8 area[];",
  ],
  [
    "a kernel's parameters past their end",
    "mov.u64 %rd3, out;\nld.param.u32 %r1, [%rd3+16];",
    "cudaErrorIllegalAddress",
    /./,
  ],
  ...[
    "cvta.param.u64 %rd3, %rd3;\nst.u64 [%rd3+8], 1;",
    "cvta.param.u64 %rd3, %rd3;\nst.v2.u32 [%rd3], {1, 2};",
    "cvta.param.u64 %rd3, %rd3;\natom.add.u32 %r1, [%rd3], 1;",
    "cvta.param.u64 %rd3, %rd3;\nred.add.f32 [%rd3], 0f3f800000;",
    "ld.param.u32 %r1, [%rd3];\nst.param.u32 [%rd3], %r1;",
  ].map((body): typeof faults[number] => [
    `a store into a kernel's parameters by ${/(\w+)[^\n]*$/.exec(body)![1]}`,
    `mov.u64 %rd3, out;\n${body}`,
    "cudaErrorIllegalAddress",
    new RegExp(
      `line ${
        firstThreadsLine + 2
      } of the PTX: .* at 0x7a0300000.* the 16 bytes of the kernel's parameters, which are read-only \\(`,
    ),
  ]),
  ...[
    ["16", "bar.sync %r3;"],
    ["4294967295", "@%p1 barrier.sync %r3;"],
    ["16", "@%p1 bar.red.popc.u32 %r4, %r3, 64, %p1;"],
    ["100", "bar.arrive %r3, 64;"],
  ].map(([number, instruction]): typeof faults[number] => [
    `a barrier that no block has: ${number}, by ${instruction}`,
    `mov.u32 %r3, ${number};\nsetp.eq.u32 %p1, %r0, 40;\n${instruction}`,
    "cudaErrorIllegalInstruction",
    new RegExp(
      `line ${firstThreadsLine + 2} of the PTX: waits at barrier ${number}, but a block has the barriers 0 to 15 \\(`,
    ),
  ]),
  ...[
    ["33", "bar.sync 1, %r3;"],
    ["31", "@%p1 barrier.sync 1, %r3;"],
    ["-32", "bar.sync %r5, %r3;"],
    ["-1", "bar.arrive 1, %r3;"],
  ].map(([count, instruction]): typeof faults[number] => [
    `a barrier of ${count} threads, by ${instruction}`,
    `mov.u32 %r3, ${count};\nsetp.eq.u32 %p1, %r0, 40;\n${instruction}`,
    "cudaErrorIllegalInstruction",
    new RegExp(
      `line ${
        firstThreadsLine + 2
      } of the PTX: waits at a barrier for ${count} threads, but a barrier counts whole warps of 32 \\(`,
    ),
  ]),
  ...[
    ["a text", "mov.u64 %rd3, format;\nst.local.u64 [%rd4], 0x7a0000000000;", "0x7a0000000000"],
    ["a text past the end of its variable", "mov.u64 %rd3, format;\nst.local.u64 [%rd4], %rd6;", "0x7a"],
    ["the format", "mov.u64 %rd3, 16;\nst.local.u64 [%rd4], 0;", "0x10"],
    ["the arguments", "mov.u64 %rd3, format;\nmov.u64 %rd5, 64;", "0x40"],
  ].map(([what, body, address]): typeof faults[number] => [
    `printf of unreadable memory: ${what}`,
    ".local .align 8 .b64 values; mov.u64 %rd4, values; cvta.local.u64 %rd5, %rd4; mov.u64 %rd6, format; " +
    `add.u64 %rd6, %rd6, 3;\n${body}\ncall (%r1), vprintf, (%rd3, %rd5);`,
    "cudaErrorIllegalAddress",
    new RegExp(
      `thread \\(0,0,0\\), line ${firstThreadsLine + 3} of the PTX: reads \\d+ bytes? at (address )?${address}`,
    ),
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b); .global .align 1 .b8 format[3] = {37, 115, 0};",
  ]),
  [
    "threads that wait for each other",
    "setp.lt.u32 %p1, %r0, 32;\n@%p1 bar.sync 1;\n@!%p1 bar.sync 2;",
    "cudaErrorLaunchTimeout",
    new RegExp(
      `block \\(0,0,0\\), line ${
        firstThreadsLine + 1
      } of the PTX: all threads of the block that have not exited wait, and ` +
        `none can continue: threads 0-31 at line ${firstThreadsLine + 1} of the PTX \\(barrier\\), ` +
        `threads 32-63 at line ${firstThreadsLine + 2} of the PTX \\(barrier\\) \\(`,
    ),
  ],
];

test("a launch skipped after a failed one frees its threads' memory", async () => {
  const linearMemory = new LinearMemory();
  const body = ".local .b8 own[200000];\nmov.u64 %rd3, own;\nst.local.u8 [%rd3], 1;\nbar.sync 0;";
  const ptx = threadsModule(body, { declarations: ".visible .entry fail() { trap; }" });
  const free = () => {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
    cuda.device(0).createStream();
    return linearMemory.freeBytes;
  };
  const before = free();
  {
    using cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: true })));
    const gpu = cuda.device(0);
    const module = gpu.loadModule(ptx);
    const stream = gpu.createStream();
    module.kernel("fail").launch({ grid: 1, block: 1, stream });
    module.kernel("test").launch({ grid: 1, block: 1024, stream }, 0n, 0n);
    await assertRejects(() => stream.finished(), CudaError);
  }
  assertEquals(free(), before);
});

for (const [what, body, code, message, declarations] of faults) {
  test(`a kernel is stopped, and its error reported: ${what}`, async () => {
    const ptx = threadsModule(
      body,
      declarations === undefined ? {} : { declarations: declarations.replaceAll("\n", " ") },
    );
    const error = await failure(ptx, { block: 64, grid: 2, sharedMemoryBytes: 64 });
    assertEquals(error.code, code, error.message);
    assertMatch(error.message, message);
  });
}

const endless: Readonly<Record<string, [body: string, declarations?: string]>> = {
  "an empty loop": ["LOOP:\nbra LOOP;"],
  "an empty loop of one thread": ["setp.eq.u32 %p1, %r0, 17;\nLOOP:\n@%p1 bra LOOP;\nbar.sync 0;"],
  "a loop with a barrier": ["LOOP:\nbar.sync 0;\nbra LOOP;"],
  "a loop with a shuffle": ["LOOP:\nshfl.sync.bfly.b32 %r3, %r0, 1, 31, -1;\nbra LOOP;"],
  "a loop with a call": ["LOOP:\ncall f;\nbra LOOP;", ".func f() { ret; }"],
  "a loop with a call of a function that waits": ["LOOP:\ncall f;\nbra LOOP;", ".func f() { bar.sync 0; ret; }"],
  "a loop with nanosleep": ["LOOP:\nnanosleep.u32 100;\nbra LOOP;"],
  "threads that wait in turn for values that neither stores": [
    ".shared .b32 cell;\nst.shared.u32 [cell], 0;\nLOOP:\nld.volatile.shared.u32 %r3, [cell];\nsetp.ne.u32 %p1, %r3, 1;\n" +
    "@%p1 bra LOOP;",
  ],
  "a wait for a value that no block stores": [
    "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 1;\n@%p1 st.volatile.global.u32 [flag], 1;\n@%p1 exit;\n" +
    "LOOP:\nld.volatile.global.u32 %r4, [flag];\nsetp.ne.u32 %p2, %r4, 2;\n@%p2 bra LOOP;",
    ".global .u32 flag;",
  ],
  "brx.idx to itself": ["mov.u32 %r3, 0;\nLOOP:\nT: .branchtargets LOOP;\nbrx.idx %r3, T;"],
  "a loop with a barrier, and much to do before it": [
    "LOOP:\nmov.u32 %r3, 0;\nINNER:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 30000;\n@%p1 bra INNER;\n" +
    "bar.sync 0;\nbra LOOP;",
  ],
  "two loops that lead into each other": [
    "setp.eq.u32 %p1, %r0, 3;\n@%p1 bra SECOND;\nFIRST:\nadd.u32 %r3, %r3, 1;\nbra SECOND;\nSECOND:\n" +
    "bar.warp.sync -1;\nbra FIRST;",
  ],
};

for (const [what, [body, declarations = ""]] of Object.entries(endless)) {
  test(`an endless kernel is stopped at the limit of steps: ${what}`, async () => {
    const error = await failure(threadsModule(body, { declarations }), { block: 64, grid: 2, stepLimit: 2 ** 21 });
    assertEquals(error.code, "cudaErrorLaunchTimeout", error.message);
    assertMatch(
      error.message,
      /block \(\d,0,0\), thread \(\d+,0,0\), line \d+ of the PTX: stopped after \d+ steps(, which took [\d.]+ s)?, perhaps in a loop that never ends(, while others wait: thread.*|: all blocks that run only wait, block .*)?; (check the loop's condition|all threads of the block must) .*; POOLPASS_SOFTWARE_STEPS sets the limit( for a block)? \(/,
    );
  });
}

test("the error of an endless kernel names the threads that wait for it", async () => {
  const body = "setp.lt.u32 %p1, %r0, 40;\n@%p1 bar.sync 0;\nLOOP:\n@!%p1 bra LOOP;";
  const error = await failure(threadsModule(body), { block: 64, stepLimit: 2 ** 21 });
  assertMatch(
    error.message,
    new RegExp(
      `thread \\(40,0,0\\), line ${
        firstThreadsLine + 3
      } of the PTX: stopped after \\d+ steps(, which took [\\d.]+ s)?, perhaps in a loop that ` +
        `never ends, while others wait: threads 0-39 at line ${
          firstThreadsLine + 1
        } of the PTX \\(barrier\\); all threads of the block must reach the same barrier; POOLPASS`,
    ),
  );
});

test("kernels that end are not stopped by the limit of steps", async () => {
  const body = `
  mov.u32 %r3, 0;
LOOP:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, 1000;
  @%p1 bra LOOP;`;
  await launch(threadsModule(body), { block: 32, grid: 100, stepLimit: 2 ** 20 });
  for (const stepLimit of [0, -1, 1.5, NaN, 2 ** 60]) {
    assertThrows(
      () => new SoftwareDriver({ devices: 1, peers: true, stepLimit }),
      RangeError,
      "Cannot limit kernels to",
    );
  }
});

test("impossible shapes are refused at the launch, and the device is not lost", async () => {
  const driver = new SoftwareDriver({ devices: 1, peers: true });
  using cuda = new Cuda(new Session(driver));
  const gpu = cuda.device(0);
  using module = gpu.loadModule(testModule(".shared .b8 own[48000];\nst.shared.u8 [own], 1;"));
  const kernel = module.kernel("test");
  for (
    const shape of [
      { grid: 1, block: 1025 },
      { grid: 1, block: [32, 33] },
      { grid: 1, block: [1, 1, 65] },
      { grid: [1, 65536], block: 1 },
    ] as const
  ) {
    assertEquals(assertThrows(() => kernel.launch(shape, 0n, 0n), CudaError).code, "cudaErrorInvalidValue");
  }
  const tooLarge = { grid: 1, block: 1, sharedMemoryBytes: 200_000 };
  assertThrows(() => kernel.launch(tooLarge, 0n, 0n), RangeError, "200000 bytes of shared memory");
  kernel.launch({ grid: 1, block: [32, 32] }, 0n, 0n);
  await gpu.finished();
});

test("the device memory of a stopped kernel's threads is freed", async () => {
  const observer = new SoftwareDriver({ devices: 1, peers: true });
  try {
    const run = () =>
      failure(
        threadsModule(".local .b8 much[100000];\nmov.u32 %r3, much;\nbar.sync 0;\nst.local.u8 [%r3], 1;\ntrap;"),
        { block: 1024 },
      );
    await run();
    const { free } = observer.memGetInfo(0);
    assertEquals((await run()).code, "cudaErrorLaunchFailure");
    assertEquals(observer.memGetInfo(0).free, free);
  } finally {
    observer.close();
  }
});

async function runAlone(ptx: string, env: Readonly<Record<string, string>>): Promise<[line: string, errors: string]> {
  await using child = startScript("children/launch_kernel.ts", [ptx], { env });
  const line = await child.nextLine();
  await child.ended;
  return [line ?? "", await child.errors()];
}

test("POOLPASS_SOFTWARE_STEPS sets the limit of steps of a block", { long: true }, async () => {
  const turns = (count: number) =>
    testModule(`mov.u32 %r1, 0;\nLOOP:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, ${count};\n@%p1 bra LOOP;`);
  const [stopped] = await runAlone(turns(5_000_000), { POOLPASS_SOFTWARE_STEPS: "1000000" });
  assertMatch(
    stopped,
    /^cudaErrorLaunchTimeout: .*stopped after \d+ steps(, which took [\d.]+ s)?, perhaps in a loop that never ends; check .*; POOLPASS_SOFTWARE_STEPS sets/,
  );
  assertEquals((await runAlone(turns(5_000_000), { POOLPASS_SOFTWARE_STEPS: "20000000" }))[0], "finished");
  for (const value of ["many", "-5", "1e9"]) {
    const [refused] = await runAlone(turns(1), { POOLPASS_SOFTWARE_STEPS: value });
    assertEquals(refused, `RangeError: Cannot use POOLPASS_SOFTWARE_STEPS="${value}": it must be a whole number`);
  }
  const [none] = await runAlone(turns(1), { POOLPASS_SOFTWARE_STEPS: "0" });
  assertMatch(none, /^RangeError: Cannot limit kernels to 0 steps: the limit must be a whole number of at least 1/);
});

test("a failed assertion is printed to standard error, and has its own error code", async () => {
  const text = (name: string, value: string) =>
    `.global .align 1 .b8 ${name}[${value.length + 1}] = {${[...new TextEncoder().encode(value), 0].join(", ")}};`;
  const ptx = testModule(`
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 1;
  @%p1 ret;
  mov.u64 %rd2, message; cvta.global.u64 %rd2, %rd2;
  mov.u64 %rd3, file; cvta.global.u64 %rd3, %rd3;
  mov.u64 %rd4, name; cvta.global.u64 %rd4, %rd4;
  call __assertfail, (%rd2, %rd3, 42, %rd4, 1);`).replace(
    ".visible",
    `${failed}\n${text("message", "a < b")}\n${text("file", "sums.cu")}\n${text("name", "sum(int)")}\n.visible`,
  );
  const [line, errors] = await runAlone(ptx, {});
  assertMatch(line, /^cudaErrorAssert: .*thread \(1,0,0\), sums\.cu:42: the assertion `a < b` failed in sum\(int\) \(/);
  assertMatch(errors, /^sums\.cu:42: sum\(int\): block: \[0,0,0\], thread: \[1,0,0\] Assertion `a < b` failed\.\n$/);
});
