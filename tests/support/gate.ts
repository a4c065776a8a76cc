import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaKernel } from "../../src/objects/cuda_kernel.ts";
import type { CudaModule } from "../../src/objects/cuda_module.ts";
import type { CudaStream } from "../../src/objects/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64

.visible .entry hold(.param .u64 flag, .param .u64 polls) {
  .reg .pred %p<3>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  ld.param.u64 %rd2, [polls];
  cvta.to.global.u64 %rd1, %rd1;
again:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra end;
  sub.u64 %rd2, %rd2, 1;
  setp.ne.u64 %p2, %rd2, 0;
  @%p2 bra again;
end:
  ret;
}

.visible .entry fail() {
  trap;
}
`;

/**
 * The launches that hold a stream until the flag is set. A GPU's kernel polls without end. A software device does
 * nothing else while a block runs, so there each of many blocks polls for a moment, for a minute in all.
 */
const launches = { cuda: { grid: 1, polls: 2n ** 63n }, software: { grid: 100_000, polls: 100_000n } } as const;

/** Holds streams of the first device until it is opened: work queued behind it runs only afterwards. */
export class Gate implements Disposable {
  readonly #device: CudaDevice;
  readonly #launch: { readonly grid: number; readonly polls: bigint };
  #loaded: { readonly module: CudaModule; readonly hold: CudaKernel; readonly fail: CudaKernel } | undefined;
  readonly #flag: DeviceBuffer;
  /** A stream that waits for no other. */
  readonly #opener: CudaStream;

  /** Create it before anything is held: loading a module and allocating may wait for all streams. */
  constructor(cuda: Cuda) {
    const device = cuda.device(0);
    this.#device = device;
    this.#launch = launches[cuda.driver];
    // On the software device, loading waits for nothing, and most gates are never used.
    if (cuda.driver === "cuda") this.#load();
    this.#flag = device.allocate(4);
    this.#opener = device.createStream({ nonBlocking: true });
    this.#flag.stream = this.#opener;
  }

  /** Launches a kernel that loses the device for the process. */
  fail(stream: CudaStream): void {
    this.#load().fail.launch({ grid: 1, block: 1, stream });
  }

  /** Holds a stream, which must be non-blocking. */
  hold(stream: CudaStream): void {
    this.#flag.fill(0);
    this.#opener.synchronize();
    const { grid, polls } = this.#launch;
    this.#load().hold.launch({ grid, block: 1, stream }, this.#flag, polls);
  }

  /** Releases all held streams. */
  open(): void {
    this.#flag.fill(1);
  }

  [Symbol.dispose](): void {
    this.open();
    for (const part of [this.#flag, this.#opener, this.#loaded?.module]) part?.[Symbol.dispose]();
  }

  #load(): { readonly hold: CudaKernel; readonly fail: CudaKernel } {
    if (this.#loaded === undefined) {
      const module = this.#device.loadModule(ptx);
      const [hold, fail] = [module.kernel("hold"), module.kernel("fail")];
      // A driver loads kernels on first use, which may wait for all streams.
      for (const kernel of [hold, fail]) kernel.maxActiveBlocksPerMultiprocessor(1);
      this.#loaded = { module, hold, fail };
    }
    return this.#loaded;
  }
}
