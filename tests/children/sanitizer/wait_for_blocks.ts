/** Launches blocks that wait for each other, as many as the argument says, and prints the reports. */
import { CudaError, open } from "../../../mod.ts";

const onReport = ({ message }: { message: string }) => console.log(message);
const cuda = open({ driver: "software", sanitize: ["synchronization"], onReport });
const gpu = cuda.device(0);
const stream = gpu.createStream();
const flag = gpu.allocate(4);
flag.fill(0, stream);
// All blocks but the last wait for the last one, which waits for nobody; a single block is the first and the last one.
const module = gpu.loadModule(`.version 8.0
.target sm_80
.address_size 64
.visible .entry waits(.param .u64 flag, .param .u32 last)
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %at;
  ld.param.u64 %at, [flag];
  ld.param.u32 %r0, [last];
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %p, %r1, %r0;
  @%p st.volatile.global.u32 [%at], 1;
LOOP:
  ld.volatile.global.u32 %r2, [%at];
  setp.eq.u32 %p, %r2, 0;
  @%p bra LOOP;
  ret;
}`);
const [grid, last] = process.argv.slice(2).map(Number);
module.kernel("waits").launch({ grid: grid!, block: 256, stream }, flag, last!);
try {
  stream.synchronize();
} catch (error) {
  if (!(error instanceof CudaError)) throw error;
}
console.log("done");
