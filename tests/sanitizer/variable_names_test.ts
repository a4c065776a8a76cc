/**
 * How reports name the variables of kernels and modules.
 */
import { assertEquals } from "@std/assert";
import { open, type SanitizerCheck } from "../../mod.ts";
import { test } from "../support/test.ts";

const ptx = `
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter;
.global .align 4 .b8 table[64];
.extern .shared .align 16 .b8 rest[];
.visible .entry names() {
  .shared .align 4 .b32 values[32];
  .shared .align 4 .b8 _ZZ6reducePfE4tile[64];
  .shared .align 4 .b32 unset[32];
  .local .align 4 .b32 mine[4];
  .reg .pred %p;
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [values+64], %r1;
  st.shared.u32 [_ZZ6reducePfE4tile+8], %r1;
  mov.u32 %r2, rest;
  st.shared.u32 [%r2+4], %r1;
  st.global.u32 [counter], %r1;
  st.global.u32 [table+8], %r1;
  ld.shared.u32 %r2, [unset+4];
  setp.eq.u32 %p, %r2, 1;
  @%p ret;
  ld.local.u32 %r2, [mine+4];
  setp.eq.u32 %p, %r2, 1;
  @%p ret;
  ret;
}`;

/** The first lines of the reports of a check. */
function reported(check: SanitizerCheck): string[] {
  const lines: string[] = [];
  {
    const onReport = ({ message }: { message: string }) => void lines.push(message.split("\n")[0]!);
    using cuda = open({ driver: "software", sanitize: [check], onReport });
    const gpu = cuda.device(0);
    using module = gpu.loadModule(ptx);
    module.kernel("names").launch({ grid: 1, block: 64, sharedMemoryBytes: 64 });
    gpu.synchronize();
  }
  return lines.map((line) => line.replace("poolpass sanitizer: ", "")).sort();
}

test("races name the variable, and the element where its type is known", () => {
  assertEquals(reported("race"), [
    "global-race: bytes 8 to 11 of table, a variable of the module",
    "global-race: counter, a variable of the module",
    "shared-race: bytes 4 to 7 of dynamic shared memory",
    "shared-race: bytes 8 to 11 of tile (bytes 136 to 139 of shared memory)",
    "shared-race: values[16] (bytes 64 to 67 of shared memory)",
  ]);
});

test("reports of uninitialized values name the variable that was read", () => {
  assertEquals(reported("initialization"), [
    "uninitialized-branch: a thread's local memory",
    "uninitialized-branch: unset[1] (bytes 196 to 199 of shared memory)",
  ]);
});
