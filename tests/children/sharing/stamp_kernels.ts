import type { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaKernel } from "../../../src/objects/kernels/cuda_kernel.ts";
import type { CudaModule } from "../../../src/objects/modules/cuda_module.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64

.visible .entry stamp(.param .u64 first, .param .u64 second, .param .u64 nanoseconds) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [first];
  ld.param.u64 %rd2, [second];
  ld.param.u64 %rd3, [nanoseconds];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd4, %r1, 8;
  add.u64 %rd1, %rd1, %rd4;
  add.u64 %rd2, %rd2, %rd4;
  mov.u64 %rd5, %globaltimer;
  add.u64 %rd6, %rd5, %rd3;
again:
  mov.u64 %rd5, %globaltimer;
  st.volatile.global.u64 [%rd1], %rd5;
  st.volatile.global.u64 [%rd2], %rd5;
  setp.lt.u64 %p1, %rd5, %rd6;
  @%p1 bra again;
  ret;
}

.visible .entry clock(.param .u64 at) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u64 %rd2, %globaltimer;
  st.global.u64 [%rd1], %rd2;
  ret;
}
`;

const [grid, block] = [4, 32];
/** The size in bytes of what `stamp` writes of each buffer. */
export const stampedByteLength: number = grid * block * BigUint64Array.BYTES_PER_ELEMENT;
/** The number of launches that share the duration. All but the first are queued behind another. */
const launches = 4;

/** Kernels that write the GPU's clock, which is the same in all processes, and read it. */
export class StampKernels implements Disposable {
  readonly #module: CudaModule;
  readonly #stamp: CudaKernel;
  readonly #clock: CudaKernel;
  readonly #time: DeviceBuffer;

  constructor(cuda: Cuda) {
    const gpu = cuda.device(0);
    this.#module = gpu.loadModule(ptx);
    this.#stamp = this.#module.kernel("stamp");
    this.#clock = this.#module.kernel("clock");
    // A driver loads kernels on first use, which may wait for all streams.
    for (const kernel of [this.#stamp, this.#clock]) kernel.maxActiveBlocksPerMultiprocessor(block);
    this.#time = gpu.allocate(8);
  }

  /** Writes the clock to the beginning of both buffers without pause, for some milliseconds from when it starts. */
  stamp(stream: CudaStream, buffers: readonly [DeviceBuffer, DeviceBuffer], milliseconds: number): void {
    const nanoseconds = BigInt(Math.round(milliseconds * 1e6 / launches));
    for (let i = 0; i < launches; i++) this.#stamp.launch({ grid, block, stream }, ...buffers, nanoseconds);
  }

  /** Resolves with the clock, in nanoseconds, when the stream gets there. */
  async clock(stream: CudaStream): Promise<bigint> {
    this.#clock.launch({ grid: 1, block: 1, stream }, this.#time);
    return (await this.#time.read(BigUint64Array, { stream }))[0]!;
  }

  [Symbol.dispose](): void {
    for (const part of [this.#time, this.#module]) part[Symbol.dispose]();
  }
}
