import type { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaEvent } from "../../src/objects/streams/cuda_event.ts";
import type { CudaKernel } from "../../src/objects/kernels/cuda_kernel.ts";
import type { CudaModule } from "../../src/objects/modules/cuda_module.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { DeviceBuffer } from "../../src/memory/device_buffer.ts";
import { ignoreLoss } from "../../src/support/driver_errors.ts";
import { type Awaited, Scheduler } from "../../src/software/execution/streams.ts";

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

.visible .entry release(.param .u64 flag) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag];
  cvta.to.global.u64 %rd1, %rd1;
  st.volatile.global.u32 [%rd1], 1;
  ret;
}

.visible .entry fail() {
  trap;
}
`;

/** How often the kernel of a GPU polls: without end. */
const polls = 2n ** 63n;

interface GateKernels {
  readonly hold: CudaKernel;
  readonly release: CudaKernel;
  readonly fail: CudaKernel;
}

/**
 * Holds streams of the first device until it is opened: work queued behind it runs only afterwards. A GPU's stream is
 * held by a kernel; a stream of the software device by work that waits as if for another process, because a kernel would
 * take the processor from what runs meanwhile.
 */
export class Gate implements Disposable {
  readonly #device: CudaDevice;
  readonly #isSoftware: boolean;
  /** What streams of the software device wait for. */
  #held = { done: true };
  /** Recorded after each kernel that holds a stream. */
  readonly #holds: CudaEvent[] = [];
  #loaded: { readonly module: CudaModule } & GateKernels | undefined;
  readonly #flag: DeviceBuffer;
  /** A stream that waits for no other. */
  readonly #opener: CudaStream;

  /** Create it before anything is held: loading a module and allocating may wait for all streams. */
  constructor(cuda: Cuda) {
    const device = cuda.device(0);
    this.#device = device;
    this.#isSoftware = cuda.driver === "software";
    if (!this.#isSoftware) this.#load();
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
    if (this.#isSoftware) {
      if (this.#held.done) this.#held = { done: false };
      using event = this.#device.createEvent();
      giveWork(() => stream.record(event), this.#held);
      return;
    }
    if (this.#held.done) this.#close();
    this.#load().hold.launch({ grid: 1, block: 1, stream }, this.#flag, polls);
    const end = this.#device.createEvent();
    stream.record(end);
    this.#holds.push(end);
  }

  /** Closes the gate of a GPU, when no stream is held any more that it was opened for. */
  #close(): void {
    this.#held = { done: false };
    for (const end of this.#holds.splice(0)) {
      this.#opener.wait(end);
      end[Symbol.dispose]();
    }
    this.#flag.fill(0);
    this.#opener.synchronize();
  }

  /** Releases all held streams. */
  open(): void {
    this.#held.done = true;
    // A fill may not write what a kernel polls at the same time.
    if (!this.#isSoftware) this.#load().release.launch({ grid: 1, block: 1, stream: this.#opener }, this.#flag);
  }

  [Symbol.dispose](): void {
    ignoreLoss(() => this.open());
    for (const part of [...this.#holds, this.#flag, this.#opener, this.#loaded?.module]) part?.[Symbol.dispose]();
  }

  #load(): GateKernels {
    if (this.#loaded === undefined) {
      const module = this.#device.loadModule(ptx);
      const [hold, release, fail] = [module.kernel("hold"), module.kernel("release"), module.kernel("fail")];
      // A driver loads kernels on first use, which may wait for all streams.
      for (const kernel of [hold, release, fail]) kernel.maxActiveBlocksPerMultiprocessor(1);
      this.#loaded = { module, hold, release, fail };
    }
    return this.#loaded;
  }
}

/** Lets the work that is given to a stream of the software device come after something. */
function giveWork(give: () => void, after: Awaited): void {
  const { enqueue } = Scheduler.prototype;
  Scheduler.prototype.enqueue = function (stream, run, options) {
    return enqueue.call(this, stream, run, { ...options, after: [...options?.after ?? [], after] });
  };
  try {
    give();
  } finally {
    Scheduler.prototype.enqueue = enqueue;
  }
}
