/** Rows about what the PTX manual leaves open, and what programs rely on because GPUs agree on it. */
import { defaultStream, type Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { launch } from "../kernels.ts";
import { readBytes } from "../launch.ts";
import type { Answer, Situation } from "../situation.ts";

const header = ".version 7.0\n.target sm_70\n.address_size 64\n";

/** Loads a kernel of one parameter, the address `%to`, whose body is given. */
function load(driver: Driver, body: string, declarations = "") {
  const ptx = `${header}${declarations}
.visible .entry body(.param .u64 to) {
  .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>, %to;
  ld.param.u64 %to, [to];
  mov.u32 %r0, %tid.x;
  ${body}
  ret;
}
`;
  return { device: 0, handle: driver.moduleGetFunction(driver.moduleLoadData(0, ptx), "body") };
}

/** The 32-bit numbers that a kernel stores from `%to` on. */
function storedBy(
  driver: Driver,
  body: string,
  { count, block, sharedMemoryBytes = 0 }: { count: number; block: number; sharedMemoryBytes?: number },
): Answer {
  const to = driver.malloc(0, 4 * count);
  driver.memsetAsync(0, to, 0, 4 * count, defaultStream);
  launch(driver, load(driver, body), { block: [block, 1, 1], sharedMemoryBytes, parameters: [to] });
  return [...new Uint32Array(Uint8Array.from(readBytes(driver, 0, to, 4 * count)).buffer)];
}

const notAligned: Readonly<Record<string, string>> = {
  load: "ld.global.u32 %r1, [%to];\n  st.global.u32 [%to], %r1;",
  "generic load": "ld.u32 %r1, [%to];\n  st.u32 [%to], %r1;",
  store: "st.global.u32 [%to], 1;",
  "atomic addition": "atom.global.add.u32 %r1, [%to], 1;\n  st.global.u32 [%to], %r1;",
};
/** Addresses that are no multiples of 4. Where no memory is, a GPU reports either mistake, by chance. */
const notAlignedAddresses: Readonly<Record<string, (driver: Driver) => bigint>> = {
  "in an allocation": (driver) => driver.malloc(0, 2 ** 22) + 2n,
  "at 0x1a": () => 0x1an,
  "at 2 ** 40 + 2": () => 2n ** 40n + 2n,
  "in freed memory"(driver) {
    const address = driver.malloc(0, 2 ** 26);
    driver.free(0, address);
    return address + 0x100002n;
  },
};

export const situations: readonly Situation[] = [
  ...Object.entries(notAligned).flatMap(([what, body]) =>
    Object.entries(notAlignedAddresses).map(([where, addressOf]): Situation => {
      const isMapped = where === "in an allocation";
      return {
        name: `a kernel's ${what} of 4 bytes at an address that is not aligned, ${where}${
          isMapped ? "" : ": whether it is one of two errors"
        }`,
        run({ driver }) {
          const kernel = load(driver, body);
          const address = addressOf(driver);
          const answer = attemptEach({
            launch: () => launch(driver, kernel, { parameters: [address] }),
            synchronize: () => driver.deviceSynchronize(0),
            "synchronize again": () => driver.deviceSynchronize(0),
          });
          if (isMapped) return answer;
          const code = answer["synchronize again"];
          return code === answer.synchronize &&
            (code === "cudaErrorMisalignedAddress" || code === "cudaErrorIllegalAddress");
        },
      };
    })
  ),
  ...["st.shared.u32 [%r1+16]; ld.shared.u32 [%r2+16]", "st.u32 [%rd1+16]; ld.u32 [%rd2+16]"].map(
    (accesses): Situation => ({
      name: `the shared memory that a launch adds for a kernel that names none: ${accesses}`,
      run({ driver }) {
        const [store, read] = accesses.split("; ");
        return storedBy(
          driver,
          `.shared .align 16 .b8 array[16];
  mov.u32 %r3, array;
  xor.b32 %r4, %r0, 63;
  shl.b32 %r5, %r0, 2;
  shl.b32 %r6, %r4, 2;
  add.u32 %r1, %r3, %r5;
  add.u32 %r2, %r3, %r6;
  cvt.u64.u32 %rd1, %r1;
  cvt.u64.u32 %rd2, %r2;
  cvta.shared.u64 %rd1, %rd1;
  cvta.shared.u64 %rd2, %rd2;
  add.u32 %r7, %r0, 1000;
  ${store}, %r7;
  bar.sync 0;
  ${read!.replace("u32 ", "u32 %r8, ")};
  cvt.u64.u32 %rd3, %r5;
  add.u64 %rd3, %to, %rd3;
  st.global.u32 [%rd3], %r8;`,
          { count: 64, block: 64, sharedMemoryBytes: 256 },
        );
      },
    }),
  ),
  {
    name: "lane 0 reads what lane 31 has stored to shared memory, with no barrier between them",
    run({ driver }) {
      return storedBy(
        driver,
        `.shared .align 4 .b8 array[128];
  mov.u32 %r1, array;
  shl.b32 %r2, %r0, 2;
  add.u32 %r3, %r1, %r2;
  st.shared.u32 [%r3], 0;
  bar.warp.sync -1;
  add.u32 %r4, %r0, 100;
  st.shared.u32 [%r3], %r4;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra DONE;
  ld.shared.u32 %r5, [%r1+124];
  st.global.u32 [%to], %r5;
DONE:`,
        { count: 1, block: 32 },
      );
    },
  },
  {
    name: "shfl.sync by lanes that its mask does not name, and a bar.sync behind it",
    run({ driver }) {
      // Whether the first and the last thread get past the barrier: what the lanes receive is not defined.
      return storedBy(
        driver,
        `shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;
  bar.sync 0;
  setp.eq.u32 %p1, %r0, 0;
  @%p1 st.global.u32 [%to], 1;
  setp.eq.u32 %p2, %r0, 63;
  @%p2 st.global.u32 [%to+4], 1;`,
        { count: 2, block: 64 },
      );
    },
  },
];
