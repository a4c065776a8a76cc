/**
 * Pairs of programs: where the wrong one makes an access that the device refuses, the check of memory says where, and
 * which memory was meant.
 */
import { kernelOf, type Pair, testPairs } from "./programs.ts";

/** x[i] = 7, with `i` counted in elements of `bytes` bytes. */
function storeTo(bytes: number): string {
  return kernelOf(
    ".param .u64 x, .param .s64 i",
    `  ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1; ld.param.s64 %rd2, [i];
  mul.lo.s64 %rd2, %rd2, ${bytes}; add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r1, 7; st.global.u${8 * bytes} [%rd3], ${bytes === 8 ? "%rd2" : "%r1"};`,
  );
}

/** Accesses memory at an address. */
function at(instruction: string): string {
  return kernelOf(
    ".param .u64 address",
    `  ld.param.u64 %rd1, [address]; mov.u32 %r1, 7; mov.f32 %f1, 0f00000000; ${instruction}`,
  );
}

/** Stores by the generic address of a variable and an offset. */
function variable(declaration: string, instruction: string): string {
  return kernelOf(
    ".param .u64 out, .param .u64 offset",
    `  ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [offset]; mov.u32 %r1, 7; ${instruction}`,
    declaration,
  );
}

const malloc = `.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 address);`;

function allocating(body: string): string {
  return kernelOf(
    ".param .u64 offset, .param .u32 last",
    `  ld.param.u64 %rd2, [offset]; ld.param.u32 %r2, [last]; setp.ne.u32 %p1, %r2, 0; mov.u32 %r1, 7; mov.u64 %rd3, 100;
  { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd3; call.uni (r), malloc, (a); ld.param.b64 %rd1, [r]; }
${body}`,
    malloc,
  );
}

const freeIt = "{ .param .b64 a; st.param.b64 [a], %rd1; call.uni free, (a); }";

const pairs: readonly Pair[] = [
  ...[1, 2, 4, 8].map((bytes): Pair => ({
    name: `a write of ${bytes} bytes behind the end of a buffer`,
    ptx: storeTo(bytes),
    kind: "out-of-bounds",
    says: new RegExp(
      `: ${bytes} bytes? right past the end of a buffer of 1000 bytes on device 0, argument 1\n` +
        `  It writes element ${1000 / bytes} \\(of ${bytes} bytes?\\), and the last is ${
          1000 / bytes - 1
        }; the device refuses`,
    ),
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), BigInt(1000 / bytes - 1)),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), BigInt(1000 / bytes)),
  })),
  {
    name: "a write before the start of a buffer",
    ptx: storeTo(4),
    kind: "out-of-bounds",
    says:
      /: 4 bytes, 4 bytes before a buffer of 1000 bytes on device 0, argument 1\n {2}It writes element -1 \(of 4 bytes\),/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), 0n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), -1n),
  },
  {
    name: "a write far behind the end",
    ptx: storeTo(4),
    kind: "out-of-bounds",
    says: /: 4 bytes, 3000 bytes past the end of a buffer of 1000 bytes on device 0, argument 1\n/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), 100n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream), 1000n),
  },
  {
    name: "a vector of which a part lies behind the end",
    ptx: at("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];"),
    kind: "out-of-bounds",
    says: /: 16 bytes, the last 8 of them past the end of a buffer of 1000 bytes/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 976n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 992n),
  },
  {
    name: "an atomic operation behind the end",
    ptx: at("red.global.add.u32 [%rd1], 1;"),
    kind: "out-of-bounds",
    says: /accesses atomically at PTX line \d+/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 996n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 1000n),
  },
  {
    name: "a generic read behind the end",
    ptx: at("ld.u32 %r1, [%rd1];"),
    kind: "out-of-bounds",
    says: /reads at PTX line \d+/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 996n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 1000n),
  },
  {
    name: "a write that is misaligned",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "misaligned",
    says: /Access 4 bytes only at multiples of 4/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 4n),
    wrong: ({ launch, pool, stream }) => launch({}, pool.allocate(1000, stream).address + 2n),
  },
  {
    name: "a null pointer",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "invalid-address",
    says: /a null pointer/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(4, stream)),
    wrong: ({ launch }) => launch({}, 0n),
  },
  {
    name: "a number that is no address",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "invalid-address",
    says: /a number and not an address/,
    right: ({ launch, pool, stream }) => launch({}, pool.allocate(4, stream)),
    wrong: ({ launch }) => launch({}, 0x12345678n),
  },
  {
    name: "memory after its free",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "use-after-free",
    says:
      /1000 bytes on device 0 that was freed\n.*Freed on stream 1 of device 0\n +at wrong.*was allocated\n +at wrong/s,
    right: ({ launch, pool, stream }) => {
      const buffer = pool.allocate(1000, stream);
      const { address } = buffer;
      launch({}, address);
      buffer.free();
    },
    wrong: ({ launch, pool, stream }) => {
      const buffer = pool.allocate(1000, stream);
      const { address } = buffer;
      buffer.free();
      launch({}, address);
    },
  },
  {
    name: "shared memory behind the end",
    ptx: variable("", "mov.u32 %r2, tile; cvt.u32.u64 %r3, %rd2; add.s32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;")
      .replace("{\n", "{\n  .shared .align 4 .b8 tile[128];\n"),
    kind: "out-of-bounds",
    says: /128 bytes of static shared memory/,
    right: ({ launch }) => launch({}, 0n, 124n),
    wrong: ({ launch }) => launch({}, 0n, 128n),
  },
  {
    name: "dynamic shared memory behind the end",
    ptx: variable(
      ".extern .shared .align 4 .b8 dynamic[];",
      "mov.u32 %r2, dynamic; cvt.u32.u64 %r3, %rd2; add.s32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;",
    ),
    kind: "out-of-bounds",
    says: /256 bytes of dynamic shared memory/,
    right: ({ launch }) => launch({ sharedMemoryBytes: 256 }, 0n, 252n),
    wrong: ({ launch }) => launch({ sharedMemoryBytes: 256 }, 0n, 256n),
  },
  {
    name: "local memory behind the end",
    ptx: variable("", "mov.u64 %rd1, array; add.s64 %rd1, %rd1, %rd2; st.local.u32 [%rd1], %r1;")
      .replace("{\n", "{\n  .local .align 4 .b8 array[64];\n"),
    kind: "out-of-bounds",
    says: /64 bytes of the thread's local memory/,
    right: ({ launch }) => launch({}, 0n, 60n),
    wrong: ({ launch }) => launch({}, 0n, 64n),
  },
  {
    name: "a variable of the module behind the end",
    ptx: variable(
      ".global .align 4 .b8 table[40];",
      "mov.u64 %rd1, table; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;",
    ),
    kind: "out-of-bounds",
    says: /the variable table of 40 bytes/,
    right: ({ launch }) => launch({}, 0n, 36n),
    wrong: ({ launch }) => launch({}, 0n, 40n),
  },
  {
    name: "a write of a kernel's parameters",
    ptx: kernelOf(
      ".param .u64 value, .param .u64 unused",
      `  mov.u64 %rd1, value; cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd2, [value];
  setp.ne.u64 %p1, %rd2, 0; ld.u64 %rd3, [%rd1]; @%p1 st.u64 [%rd1], %rd2;`,
    ),
    kind: "out-of-bounds",
    says: /parameters, which are read-only/,
    right: ({ launch }) => launch({}, 0n, 0n),
    wrong: ({ launch }) => launch({}, 1n, 0n),
  },
  {
    name: "page-locked memory behind the end",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "out-of-bounds",
    says: /page-locked memory of 1000 bytes/,
    right: ({ cuda, launch }) => launch({}, cuda.allocateHost(1000).address + 996n),
    wrong: ({ cuda, launch }) => launch({}, cuda.allocateHost(1000).address + 1000n),
  },
  {
    name: "memory that a kernel allocated, behind the end",
    ptx: allocating("  add.s64 %rd3, %rd1, %rd2; st.u32 [%rd3], %r1; " + freeIt),
    kind: "out-of-bounds",
    says: /right past the end of a block of 100 bytes that a kernel allocated with malloc/,
    right: ({ launch }) => launch({}, 96n, 0),
    wrong: ({ launch }) => launch({}, 100n, 0),
  },
  {
    name: "memory that a kernel allocated, after its free",
    ptx: allocating(`  @%p1 bra LATE; st.u32 [%rd1], %r1; ${freeIt} ret;\nLATE: ${freeIt} st.u32 [%rd1], %r1;`),
    kind: "use-after-free",
    says: /a block of 100 bytes that a kernel allocated with malloc at PTX line \d+, and that was freed/,
    right: ({ launch }) => launch({}, 0n, 0),
    wrong: ({ launch }) => launch({}, 0n, 1),
  },
  {
    name: "memory that a kernel frees twice",
    ptx: allocating(`  ${freeIt} @!%p1 bra END; ${freeIt}\nEND:`),
    kind: "invalid-free",
    says: /was freed already/,
    right: ({ launch }) => launch({}, 0n, 0),
    wrong: ({ launch }) => launch({}, 0n, 1),
  },
  {
    name: "an address within a block that a kernel frees",
    ptx: allocating(`  add.s64 %rd1, %rd1, %rd2; ${freeIt}`),
    kind: "invalid-free",
    says: /16 bytes into a block of 100 bytes/,
    right: ({ launch }) => launch({}, 0n, 0),
    wrong: ({ launch }) => launch({}, 16n, 0),
  },
  {
    name: "memory of another device",
    ptx: at("st.global.u32 [%rd1], %r1;"),
    kind: "inaccessible",
    says: /device 0 has no access to/,
    right: ({ launch, cuda }) => {
      const pool = cuda.device(1).createPool();
      pool.setAccess(cuda.device(0), "read-write");
      const buffer = pool.allocate(4, cuda.device(1).defaultStream);
      cuda.device(1).synchronize();
      launch({}, buffer.address);
    },
    wrong: ({ launch, cuda }) => {
      const buffer = cuda.device(1).createPool().allocate(4, cuda.device(1).defaultStream);
      cuda.device(1).synchronize();
      launch({}, buffer.address);
    },
  },
];

testPairs(pairs);
