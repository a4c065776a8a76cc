/** Prints from the blocks of a kernel that worker threads run, then ends while another kernel runs. */
import { processWorkers, sharingPolicy } from "../../../src/software/execution/workers/workers.ts";
import { LinearMemory } from "../../../src/software/memory/linear_memory.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";

const text = [..."block %d ran\n\0"].map((character) => character.charCodeAt(0)).join();
const ptx = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 text[14] = {${text}};
.visible .entry print() {
.local .align 8 .b8 values[8];
.reg .u32 %r<2>;
.reg .u64 %rd<3>;
mov.u32 %r0, %ctaid.x;
add.u32 %r0, %r0, 100;
st.local.u32 [values], %r0;
mov.u64 %rd0, values;
cvta.local.u64 %rd0, %rd0;
mov.u64 %rd1, text;
cvta.global.u64 %rd1, %rd1;
{ .param .b64 format; .param .b64 list; .param .b32 count;
st.param.b64 [format], %rd1;
st.param.b64 [list], %rd0;
call.uni (count), vprintf, (format, list); }
}
.visible .entry endless() {
.reg .pred %p<1>;
.reg .u32 %r<2>;
mov.u32 %r0, 0;
LOOP: add.u32 %r0, %r0, 1;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra LOOP;
}`;

sharingPolicy.firstSliceMilliseconds = -1;
processWorkers(new LinearMemory()).startAll(3);
const cuda = new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, threads: 3 })));
const gpu = cuda.device(0);
const stream = gpu.createStream();
const module = gpu.loadModule(ptx);
module.kernel("print").launch({ grid: 100, block: 1, stream });
await stream.finished();
console.log("the end");
module.kernel("endless").launch({ grid: 100, block: 64, stream });
stream.query();
