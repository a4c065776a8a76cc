import { printAs } from "../support/printing.ts";
import type { CudaDevice } from "./cuda_device.ts";
import { checkStream, type CudaStream, launchesOf } from "./cuda_stream.ts";
import { functionAttribute, type KernelLaunch } from "../driver.ts";
import type { Allocation } from "../memory/allocation.ts";
import { CudaError } from "../support/errors.ts";
import { cannot } from "../support/driver_errors.ts";
import { type ArgumentRefusal, type KernelArgument, type ParameterWriter, writersOf } from "./kernel_arguments.ts";
import { adviceFor, checkLaunchOptions, refuseCount } from "./argument_mistakes.ts";
import { formatParameter } from "./parameter_types.ts";
import { exceededLimit, extentOf, formatShape, refuseShape } from "./launch_shape.ts";
import type { KernelParameter, KernelSignature, ParameterType } from "../ptx/kernel_signature.ts";
import type { StreamLaunches } from "./recent_launches.ts";
import type { Session } from "../session.ts";
import {
  checkByteLength,
  checkNumber,
  errorOfAnotherCuda,
  maximumInt,
  type OptionNames,
  refuseConstruction,
  refuseUnknownOption,
  whatIs,
} from "../support/validation.ts";

/** The maximum of the C type, an unsigned int. */
const maximumSharedMemoryBytes = 2 ** 32 - 1;

/** Numbers of blocks or threads in x, y and z. A plain number is the one in x; the others are 1 if omitted. */
export type Dim3 = number | readonly [x: number, y?: number, z?: number];

/** How many threads run a kernel, and on which stream. */
export interface LaunchOptions {
  /** Number of blocks. */
  grid: Dim3;
  /** Number of threads per block. */
  block: Dim3;
  /** The stream to launch on. Defaults to the device's default stream. */
  stream?: CudaStream;
  /**
   * Bytes of dynamic shared memory per block. Together with the static shared memory that the kernel declares, at most
   * the device's `attribute("maxSharedMemoryPerBlockOptin")`. CUDA's opt-in to more than 48 KiB is not needed: the
   * kernel opts in by itself. Defaults to 0.
   */
  sharedMemoryBytes?: number;
}

const launchOptionNames: OptionNames<LaunchOptions> = {
  grid: true,
  block: true,
  stream: true,
  sharedMemoryBytes: true,
};

const giveArguments = "give the arguments after the options, as in launch({ grid, block }, ...args)";
/** What others name the option that takes a launch's arguments. */
const argumentsInstead = { args: giveArguments, arguments: giveArguments, params: giveArguments };

/**
 * A function that runs on a device, in as many threads as a launch asks for. Comes from `CudaModule.kernel`.
 *
 * `Parameters` is the tuple of the arguments that `launch` takes. Without it, the compiler accepts any arguments, and the
 * launch checks them as it always does.
 */
export class CudaKernel<Parameters extends readonly KernelArgument[] = readonly KernelArgument[]> {
  /**
   * Exists for the type checker only, so that it tells kernels of different parameters apart.
   *
   * @internal
   */
  declare protected readonly argumentTypes: Parameters;
  /** The kernel's name in its module. */
  readonly name: string;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #handle: bigint;
  readonly #isLoaded: () => boolean;
  readonly #onStream: (stream: CudaStream) => void;
  /** The stream of the latest launch. */
  #lastStream: CudaStream | undefined;
  /** Where the launches on that stream are noted. */
  #launches: StreamLaunches | undefined;
  readonly #parameters: readonly KernelParameter[];
  readonly #types: readonly ParameterType[];
  readonly #writers: readonly ParameterWriter[];
  /** Filled in for each launch. */
  readonly #launch: KernelLaunch;
  /** The allocations of the buffers among the arguments of the latest launch; see `writersOf`. */
  readonly #buffers: (Allocation | undefined)[] = [];
  /** The largest dynamic shared memory that a block may have, in bytes, as far as it was needed yet. */
  #sharedMemoryLimit = 0;

  static {
    printAs(this, "CudaKernel", (kernel) => {
      const types = kernel.#typeNames();
      const state = kernel.#isDisposed ? ", disposed" : "";
      return `CudaKernel { device ${kernel.#device.ordinal}, ${kernel.name}(${types.join(", ")})${state} }`;
    }, [["device", (kernel) => kernel.#device], "name", "parameters", ["disposed", (kernel) => kernel.#isDisposed]]);
  }

  /**
   * Kernels come from `CudaModule.kernel`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { device, handle = refuseConstruction("CudaKernel", "CudaModule.kernel"), signature, isLoaded, onStream }: {
      device: CudaDevice;
      handle: bigint;
      signature: KernelSignature;
      isLoaded: () => boolean;
      /** Called before a launch on another stream than the last one's. */
      onStream: (stream: CudaStream) => void;
    } = {} as never,
  ) {
    this.#session = session;
    this.#device = device;
    this.#handle = handle;
    this.#isLoaded = isLoaded;
    this.#onStream = onStream;
    this.name = signature.name;
    this.#parameters = signature.parameters;
    this.#types = signature.parameters.map(({ type }) => type);
    this.#writers = writersOf(signature.parameters, this.#buffers, session);
    const { ordinal } = device;
    this.#launch = session.driver.createKernelLaunch(ordinal, handle, signature.parameterBytes, this.#buffers);
  }

  /** The types of the kernel's parameters, in order. */
  get parameters(): readonly ParameterType[] {
    return this.#types;
  }

  /**
   * Enqueues the kernel on a stream. The arguments are captured when this returns.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
   * @param options How many blocks of how many threads to run, and on which stream.
   * @param args One argument for each parameter, in order.
   * @throws {TypeError} If the number of arguments is wrong, an argument does not fit its parameter's type, a buffer is
   * of another `Cuda` object, or there is no option of a name
   * @throws {RangeError} If a number is out of its parameter's range, an extent is not valid, or a block needs more
   * shared memory than the device supports
   * @throws {ReferenceError} If the module or the stream was disposed, or a buffer was freed
   * @throws {CudaError} `cudaErrorInvalidValue` if the launch has more blocks or threads than the device supports
   */
  launch(options: LaunchOptions, ...args: Parameters): void {
    if (!options) checkLaunchOptions(this.name, options, args, this.#typeNames());
    for (const name in options) {
      // Not `checkOptions`: comparing the names here takes half the time.
      if (name === "grid" || name === "block" || name === "stream" || name === "sharedMemoryBytes") continue;
      checkLaunchOptions(this.name, options, args, this.#typeNames());
      refuseUnknownOption(options, name, {
        action: `launch ${this.name}`,
        names: launchOptionNames,
        instead: argumentsInstead,
      });
    }
    const { grid, block, stream = this.#device.defaultStream, sharedMemoryBytes = 0 } = options;
    const writers = this.#writers;
    if (grid === undefined || block === undefined) checkLaunchOptions(this.name, options, args, this.#typeNames());
    if (args.length !== writers.length) refuseCount(this.name, args, this.#typeNames());
    checkStream(stream, this.#session);
    if (stream.device !== this.#device) {
      const devices = `device ${this.#device.ordinal} on a stream of device ${stream.device.ordinal}`;
      throw new TypeError(`Cannot launch ${this.name} of ${devices}: load its module there`);
    }
    const { name } = this;
    const launch = this.#launch;
    const gridX = launch.gridX = extentOf(grid, 0);
    const gridY = launch.gridY = extentOf(grid, 1);
    const gridZ = launch.gridZ = extentOf(grid, 2);
    const blockX = launch.blockX = extentOf(block, 0);
    const blockY = launch.blockY = extentOf(block, 1);
    const blockZ = launch.blockZ = extentOf(block, 2);
    if (gridX * gridY * gridZ * blockX * blockY * blockZ === 0) refuseShape(name, options);
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot launch ${name}: its module was disposed`);
    if (sharedMemoryBytes !== 0) this.#prepareSharedMemory(sharedMemoryBytes);
    launch.sharedMemoryBytes = sharedMemoryBytes;
    const { parameters } = launch;
    for (let index = 0; index < writers.length; index++) {
      const argument = args[index]!;
      const refusal = writers[index]!(parameters, argument);
      if (refusal !== undefined) this.#refuse(index, argument, refusal);
    }
    if (stream !== this.#lastStream) {
      this.#onStream(this.#lastStream = stream);
      this.#launches = launchesOf(stream);
    }
    launch.stream = stream.unsafeHandle;
    const buffers = this.#buffers;
    for (let index = 0; index < buffers.length; index++) {
      const allocation = buffers[index];
      // The stream is one of this session, so that only a buffer of another stream can be of another session.
      if (allocation !== undefined && allocation.stream !== stream) this.#noteUse(allocation, stream);
    }
    try {
      this.#session.driver.launchKernel(launch);
    } catch (error) {
      const shared = sharedMemoryBytes === 0 ? "" : ` and ${sharedMemoryBytes} bytes of shared memory each`;
      throw cannot(
        `launch ${name} with a grid of ${formatShape(grid)} blocks of ${formatShape(block)} threads${shared}`,
        error,
        this.#hintOf(error, options),
      );
    }
    this.#launches!.note(name, grid, block, CudaKernel.prototype.launch);
  }

  /**
   * Returns how many blocks can be active on one multiprocessor at a time: 0 if the device does not support such a
   * block. Multiplied by the number of multiprocessors, this is the size of a grid that fills the device.
   *
   * @param blockSize Number of threads per block.
   * @param sharedMemoryBytes Bytes of dynamic shared memory per block.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__OCCUPANCY.html
   * @throws {RangeError} If an argument is not valid
   * @throws {ReferenceError} If the module was disposed
   */
  maxActiveBlocksPerMultiprocessor(blockSize: number, sharedMemoryBytes: number = 0): number {
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot use the kernel ${this.name}: its module was disposed`);
    checkSharedMemory(sharedMemoryBytes);
    checkNumber(blockSize, "the size of a block");
    if (!Number.isInteger(blockSize) || blockSize < 1 || blockSize > maximumInt) {
      const bounds = `at least 1 and at most ${maximumInt}`;
      throw new RangeError(`Cannot use a block of ${blockSize} threads: it must be a whole number, ${bounds}`);
    }
    const { driver } = this.#session;
    try {
      if (sharedMemoryBytes > this.#sharedMemoryLimit) this.#canHaveSharedMemory(sharedMemoryBytes);
      return driver.occupancyMaxActiveBlocksPerMultiprocessor(this.#handle, blockSize, sharedMemoryBytes);
    } catch (error) {
      throw cannot(`compute how many blocks of ${blockSize} threads of ${this.name} fit`, error);
    }
  }

  /** Notes that a launch on another stream than the buffer's own uses it. If the launch then fails, that does no harm. */
  #noteUse(allocation: Allocation, stream: CudaStream): void {
    if (allocation.session !== this.#session) throw errorOfAnotherCuda("pass a buffer");
    allocation.noteUse(stream);
  }

  get #isDisposed(): boolean {
    return !this.#isLoaded() || this.#session.hasEnded;
  }

  /** Throws unless the blocks of a launch can have this much dynamic shared memory. */
  #prepareSharedMemory(byteLength: number): void {
    checkSharedMemory(byteLength);
    if (byteLength <= this.#sharedMemoryLimit) return;
    try {
      if (!this.#canHaveSharedMemory(byteLength)) this.#refuseSharedMemory(byteLength);
    } catch (error) {
      throw cannot(`launch ${this.name} with ${byteLength} bytes of shared memory for each block`, error);
    }
  }

  /**
   * Whether a block can have this much dynamic shared memory. If the device supports it but CUDA's default for the
   * kernel is less, the kernel opts in to as much as the device supports.
   */
  #canHaveSharedMemory(byteLength: number): boolean {
    const { driver } = this.#session;
    const { maxDynamicSharedSizeBytes } = functionAttribute;
    this.#sharedMemoryLimit = driver.funcGetAttribute(this.#handle, maxDynamicSharedSizeBytes);
    if (byteLength <= this.#sharedMemoryLimit) return true;
    const supported = this.#device.attribute("maxSharedMemoryPerBlockOptin") - this.#staticSharedMemory();
    if (byteLength > supported) return false;
    driver.funcSetAttribute(this.#handle, maxDynamicSharedSizeBytes, supported);
    this.#sharedMemoryLimit = supported;
    return true;
  }

  #staticSharedMemory(): number {
    return this.#session.driver.funcGetAttribute(this.#handle, functionAttribute.sharedSizeBytes);
  }

  #refuseSharedMemory(byteLength: number): never {
    const staticBytes = this.#staticSharedMemory();
    const beside = staticBytes === 0 ? "" : ` beside the ${staticBytes} bytes that the kernel declares`;
    const maximum = this.#device.attribute("maxSharedMemoryPerBlockOptin");
    throw new RangeError(
      `Cannot launch ${this.name} with ${byteLength} bytes of shared memory for each block${beside}: ` +
        `the device's attribute("maxSharedMemoryPerBlockOptin") is ${maximum}`,
    );
  }

  /** Advice for a launch that the driver refused: the limit of the device that it exceeds. */
  #hintOf(error: unknown, options: LaunchOptions): string | undefined {
    if (!(error instanceof CudaError && error.code === "cudaErrorInvalidValue")) return undefined;
    return exceededLimit(this.#device, options) ??
      "the kernel itself may allow less: maxActiveBlocksPerMultiprocessor is 0 for a block that does not fit";
  }

  #typeNames(): string[] {
    return this.#parameters.map(formatParameter);
  }

  #refuse(index: number, argument: KernelArgument, { isRangeError, reason }: ArgumentRefusal): never {
    const given = typeof argument === "number" || (isRangeError && typeof argument === "bigint")
      ? String(argument)
      : whatIs(argument);
    const parameter = this.#parameters[index]!;
    const type = formatParameter(parameter);
    const what = `Cannot pass ${given} as parameter ${index} (${type}) of ${this.name}: ${reason}`;
    if (isRangeError) throw new RangeError(what);
    const isWord = parameter.byteLength === 8 && parameter.type !== "f64";
    const kind = typeof parameter.type === "object" ? "struct" : isWord ? "word" : "scalar";
    throw new TypeError(what + adviceFor(argument, kind, this.#session));
  }
}

function checkSharedMemory(byteLength: number): void {
  checkByteLength(byteLength, "a launch's sharedMemoryBytes");
  if (byteLength <= maximumSharedMemoryBytes) return;
  throw new RangeError(
    `Cannot use ${byteLength} as a launch's sharedMemoryBytes: it must be at most ${maximumSharedMemoryBytes}`,
  );
}
