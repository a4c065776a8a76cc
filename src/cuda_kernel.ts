import { printAs } from "./custom_inspect.ts";
import type { CudaDevice } from "./cuda_device.ts";
import type { CudaStream } from "./cuda_stream.ts";
import type { KernelParameters } from "./driver.ts";
import { cannot } from "./explain.ts";
import { type KernelArgument, type ParameterWriter, writerOf } from "./kernel_arguments.ts";
import type { KernelSignature, ParameterType } from "./ptx/kernel_signature.ts";
import type { Session } from "./session.ts";
import { checkByteLength } from "./validation.ts";

/** Number of blocks or threads in each dimension; a plain number is that of the first. */
export type Dim3 = number | readonly [x: number, y?: number, z?: number];

/** How many threads run a kernel, and where. */
export interface LaunchOptions {
  /** Blocks. */
  grid: Dim3;
  /** Threads of a block. */
  block: Dim3;
  /** The device's default stream unless given. */
  stream?: CudaStream;
  /** Bytes of dynamic shared memory for each block; 0 unless given. */
  sharedMemoryBytes?: number;
}

/** A function that runs on a device, as many times at once as a launch says. Made by `CudaModule.kernel`. */
export class CudaKernel {
  /** The name by which it was found. */
  readonly name: string;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #handle: bigint;
  readonly #isLoaded: () => boolean;
  readonly #types: readonly ParameterType[];
  readonly #writers: readonly ParameterWriter[];
  readonly #parameters: KernelParameters;

  static {
    printAs(this, (kernel) => {
      const types = kernel.#types.map((type) => typeof type === "string" ? type : `${type.byteLength} bytes`);
      const state = kernel.#isLoaded() && !kernel.#session.hasEnded ? "" : ", disposed";
      return `CudaKernel { device ${kernel.#device.ordinal}, ${kernel.name}(${types.join(", ")})${state} }`;
    });
  }

  /**
   * Made by `CudaModule.kernel`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle, signature, isLoaded }: {
      device: CudaDevice;
      handle: bigint;
      signature: KernelSignature;
      isLoaded: () => boolean;
    },
  ) {
    this.#session = session;
    this.#device = device;
    this.#handle = handle;
    this.#isLoaded = isLoaded;
    this.name = signature.name;
    this.#types = signature.parameters.map(({ type }) => type);
    this.#writers = signature.parameters.map(({ type, offset }) => writerOf(type, offset));
    this.#parameters = session.driver.createKernelParameters(signature.parameterBytes);
  }

  /** The types of its parameters, in order. */
  get parameters(): readonly ParameterType[] {
    return this.#types;
  }

  /**
   * Gives the kernel to a stream. The arguments have been taken when this returns.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
   * @throws {TypeError} where the arguments are not as many as the parameters, or of another kind
   * @throws {RangeError} where a number does not fit its parameter
   */
  launch(options: LaunchOptions, ...args: readonly KernelArgument[]): void {
    const { grid, block, stream = this.#device.defaultStream, sharedMemoryBytes = 0 } = options;
    const writers = this.#writers;
    if (args.length !== writers.length) {
      throw new TypeError(
        `Cannot launch ${this.name} with ${args.length} arguments: it has ${writers.length} parameters`,
      );
    }
    if (stream.device !== this.#device) {
      const devices = `device ${this.#device.ordinal} on a stream of device ${stream.device.ordinal}`;
      throw new TypeError(`Cannot launch ${this.name} of ${devices}: load its module there`);
    }
    checkByteLength(sharedMemoryBytes, "a launch's sharedMemoryBytes");
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot launch ${this.name}: its module was disposed`);
    const { view } = this.#parameters;
    for (let index = 0; index < writers.length; index++) {
      const problem = writers[index]!(view, args[index]!);
      if (problem !== undefined) this.#refuse(index, args[index]!, problem);
    }
    try {
      this.#session.driver.launchKernel(
        this.#device.ordinal,
        this.#handle,
        extent(grid, 0),
        extent(grid, 1),
        extent(grid, 2),
        extent(block, 0),
        extent(block, 1),
        extent(block, 2),
        sharedMemoryBytes,
        stream.unsafeHandle,
        this.#parameters,
      );
    } catch (error) {
      const shape = (dimensions: Dim3) => typeof dimensions === "number" ? dimensions : dimensions.join(" x ");
      throw cannot(`launch ${this.name} with a grid of ${shape(grid)} blocks of ${shape(block)} threads`, error);
    }
  }

  /** How many blocks of a size fit on one multiprocessor at once, which is what an occupancy-sized grid is made from. */
  maxActiveBlocksPerMultiprocessor(blockSize: number, sharedMemoryBytes: number = 0): number {
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot use the kernel ${this.name}: its module was disposed`);
    checkByteLength(sharedMemoryBytes, "a block's shared memory");
    if (!Number.isSafeInteger(blockSize) || blockSize < 1) {
      throw new RangeError(`Cannot use a block of ${blockSize} threads: it must be a whole number, at least 1`);
    }
    const { driver } = this.#session;
    try {
      return driver.occupancyMaxActiveBlocksPerMultiprocessor(this.#handle, blockSize, sharedMemoryBytes);
    } catch (error) {
      throw cannot(`tell how many blocks of ${blockSize} threads of ${this.name} fit`, error);
    }
  }

  #refuse(index: number, argument: KernelArgument, problem: string): never {
    const type = this.#types[index]!;
    const shown = typeof type === "string" ? type : `${type.byteLength} bytes`;
    const given = typeof argument === "object" ? "the argument" : String(argument);
    const message = `Cannot pass ${given} as parameter ${index} (${shown}) of ${this.name}: ${problem}`;
    if (typeof argument === "number" || typeof argument === "bigint") throw new RangeError(message);
    throw new TypeError(message);
  }
}

function extent(dimensions: Dim3, axis: 0 | 1 | 2): number {
  const value = typeof dimensions === "number" ? (axis === 0 ? dimensions : 1) : dimensions[axis] ?? 1;
  if (!Number.isInteger(value) || value < 1 || value > 2 ** 31 - 1) {
    throw new RangeError(`Cannot launch with an extent of ${value}: it must be a whole number, at least 1`);
  }
  return value;
}
