/**
 * How reports name shared memory.
 */
import { assertEquals } from "@std/assert";
import { open } from "../../../mod.ts";
import { test } from "../../support/test.ts";

const ptx = `
.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 rest[];
.visible .entry names() {
  .shared .align 4 .b32 values[32];
  .shared .align 4 .b8 _ZZ6reducePfE4tile[64];
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [values+64], %r1;
  st.shared.u32 [_ZZ6reducePfE4tile+8], %r1;
  mov.u32 %r2, rest;
  st.shared.u32 [%r2+4], %r1;
  ret;
}`;

test("races in shared memory name the variable, and the element where its type is known", () => {
  const lines: string[] = [];
  {
    const onReport = ({ message }: { message: string }) => void lines.push(message.split("\n")[0]!);
    using cuda = open({ driver: "software", sanitize: ["race"], onReport });
    const gpu = cuda.device(0);
    using module = gpu.loadModule(ptx);
    module.kernel("names").launch({ grid: 1, block: 64, sharedMemoryBytes: 64 });
    gpu.synchronize();
  }
  assertEquals(lines.sort(), [
    "poolpass sanitizer: shared-race: bytes 4 to 7 of dynamic shared memory",
    "poolpass sanitizer: shared-race: bytes 8 to 11 of tile (bytes 136 to 139 of shared memory)",
    "poolpass sanitizer: shared-race: values[16] (bytes 64 to 67 of shared memory)",
  ]);
});
