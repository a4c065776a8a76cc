import type { Cuda } from "../../../src/objects/cuda.ts";
import type { CudaKernel } from "../../../src/objects/kernels/cuda_kernel.ts";
import type { CudaModule } from "../../../src/objects/modules/cuda_module.ts";
import type { CudaStream } from "../../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../../src/memory/device_buffer.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64

.visible .entry write(.param .u64 data, .param .u32 words, .param .u32 pattern) {
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [words];
  ld.param.u32 %r2, [pattern];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ntid.x;
again:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra end;
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  add.u32 %r3, %r3, %r4;
  bra again;
end:
  ret;
}

.visible .entry check(.param .u64 data, .param .u32 words, .param .u32 pattern, .param .u64 counts) {
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [words];
  ld.param.u32 %r2, [pattern];
  ld.param.u64 %rd4, [counts];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd4, %rd4;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %ntid.x;
again:
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra end;
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  setp.eq.u32 %p2, %r5, %r2;
  @%p2 red.global.add.u32 [%rd4], 1;
  @!%p2 red.global.add.u32 [%rd4+4], 1;
  add.u32 %r3, %r3, %r4;
  bra again;
end:
  ret;
}
`;

const block = 64;
/** Words that the kernel of `delay` writes, which takes some milliseconds. */
const manyWords = 2 ** 18;

/** Kernels that write and check frames. */
export class FrameKernels implements Disposable {
  readonly #module: CudaModule;
  readonly #write: CudaKernel;
  readonly #check: CudaKernel;
  /** The number of correct and of wrong words. */
  readonly #counts: DeviceBuffer;
  readonly #scratch: DeviceBuffer;

  /** Loads the kernels. Must be called before a stream is held, because loading a module may wait for all streams. */
  constructor(cuda: Cuda) {
    const gpu = cuda.device(0);
    this.#module = gpu.loadModule(ptx);
    this.#write = this.#module.kernel("write");
    this.#check = this.#module.kernel("check");
    this.#counts = gpu.allocate(8);
    this.#counts.fill(0);
    this.#scratch = gpu.allocate(4 * manyWords);
    gpu.synchronize();
  }

  /** Fills a frame with a number. */
  write(stream: CudaStream, buffer: DeviceBuffer, pattern: number): void {
    this.#write.launch({ grid: 1, block, stream }, buffer, buffer.byteLength / 4, pattern);
  }

  /** Compares the words of a frame with a number. */
  check(stream: CudaStream, buffer: DeviceBuffer, pattern: number): void {
    if (buffer.byteLength < 4) return;
    this.#check.launch({ grid: 1, block, stream }, buffer, buffer.byteLength / 4, pattern, this.#counts);
  }

  /** Keeps a stream busy for some milliseconds. */
  delay(stream: CudaStream): void {
    this.#write.launch({ grid: 1, block, stream }, this.#scratch, manyWords, 1);
  }

  /** Returns the number of correct and of wrong words, when the stream has finished the checks. */
  async counts(stream: CudaStream): Promise<[right: number, wrong: number]> {
    return [...await this.#counts.read(Uint32Array, { stream })] as [number, number];
  }

  [Symbol.dispose](): void {
    for (const part of [this.#counts, this.#scratch, this.#module]) part[Symbol.dispose]();
  }
}
