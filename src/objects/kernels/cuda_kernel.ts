import { printAs } from "../../support/printing.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { checkStream, type CudaStream, launchesOf } from "../streams/cuda_stream.ts";
import { functionAttribute, type KernelLaunch } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { HostBuffer } from "../../memory/transfers/host_buffer.ts";
import { cannot } from "../../support/driver_errors.ts";
import {
  adviceFor,
  type ArgumentRefusal,
  checkLaunchOptions,
  type KernelArgument,
  type ParameterWriter,
  refuseCount,
  writersOf,
} from "./kernel_arguments.ts";
import {
  type ActiveClustersOptions,
  activeClustersOptions,
  type CacheConfig,
  cacheConfigOf,
  carveoutOf,
  type KernelAttributes,
  type PotentialBlockSizeOptions,
  potentialBlockSizeOptions,
  readKernelAttributes,
  type SharedMemoryCarveout,
} from "./kernel_attributes.ts";
import {
  AttributedLaunches,
  checkSharedMemory,
  KernelSharedMemory,
  launchError,
  optInInstead,
} from "./launch_attributes.ts";
import { extentOf, launchOptionNames, type LaunchOptions, optionsInstead, refuseShape } from "./launch_options.ts";
import { formatParameter } from "./parameter_types.ts";
import type { KernelParameter, KernelSignature, ParameterType } from "../../ptx/kernel_signature.ts";
import type { StreamLaunches } from "./recent_launches.ts";
import type { Session } from "../../session.ts";
import {
  checkNumber,
  checkOptions,
  errorOfAnotherCuda,
  maximumInt,
  refuseConstruction,
  refuseNewProperties,
  refuseUnknownOption,
  whatIs,
} from "../../support/validation.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Returns the device that a kernel was loaded on. */
export let deviceOfKernel: (kernel: CudaKernel) => CudaDevice;

const refusalToClone = cloneRefusal("a CudaKernel", openInWorker);

/**
 * A function that runs on a device, in as many threads as a launch requests. Comes from `CudaModule.kernel`.
 *
 * `Parameters` is the tuple of the arguments that `launch` takes. Without it, TypeScript accepts any arguments. At run
 * time, `launch` always checks its arguments.
 */
export class CudaKernel<Parameters extends readonly KernelArgument[] = readonly KernelArgument[]> {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /**
   * Exists only for the type checker, to distinguish kernels with different parameters.
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
  readonly #keepLoaded: () => () => void;
  /** The stream of the latest launch. */
  #lastStream: CudaStream | undefined;
  /** The recorded launches on `#lastStream`. */
  #launches: StreamLaunches | undefined;
  readonly #parameters: readonly KernelParameter[];
  readonly #types: readonly ParameterType[];
  readonly #writers: readonly ParameterWriter[];
  /** The launch configuration, an object that each launch fills in and reuses. */
  readonly #launch: KernelLaunch;
  /** The allocations of the buffers among the arguments of the latest launch; see `writersOf`. */
  readonly #buffers: (Allocation | undefined)[] = [];
  readonly #sharedMemory: KernelSharedMemory;
  /** Implements launches with attributes. Created by the first such launch. */
  #attributedLaunches: AttributedLaunches | undefined;
  #attributes: KernelAttributes | undefined;
  #cacheConfig: CacheConfig = "none";

  static {
    deviceOfKernel = (kernel) => kernel.#device;
    refuseNewProperties(this, { name: "CudaKernel", fields: ["cloneRefusal", "name"], instead: optInInstead });
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
    {
      device,
      handle = refuseConstruction("CudaKernel", "CudaModule.kernel"),
      signature,
      isLoaded,
      onStream,
      keepLoaded,
    }: {
      device: CudaDevice;
      handle: bigint;
      signature: KernelSignature;
      isLoaded: () => boolean;
      /** Called before a launch if its stream differs from that of the previous launch. */
      onStream: (stream: CudaStream) => void;
      /** Keeps the module loaded until the returned function is called, even if it is disposed. */
      keepLoaded: () => () => void;
    } = {} as never,
  ) {
    this.#session = session;
    this.#device = device;
    this.#handle = handle;
    this.#isLoaded = isLoaded;
    this.#onStream = onStream;
    this.#keepLoaded = keepLoaded;
    this.name = signature.name;
    this.#parameters = signature.parameters;
    this.#types = signature.parameters.map(({ type }) => type);
    this.#writers = writersOf(signature.parameters, this.#buffers, session);
    this.#sharedMemory = new KernelSharedMemory({ name: this.name, handle, device, session });
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
   * @param options The numbers of blocks and threads, and the stream.
   * @param args One argument for each parameter, in order.
   * @throws {TypeError} If the number of arguments is wrong, an argument does not fit its parameter's type, a buffer
   * belongs to another `Cuda` object, or an option is unknown or has the wrong type
   * @throws {RangeError} If a number is out of its parameter's range, an extent is not valid, the grid's size is not a
   * multiple of the cluster's, the priority is not in the device's range, or a block needs more shared memory than the
   * device supports
   * @throws {ReferenceError} If the module or the stream was disposed, or a buffer was freed
   * @throws {CudaError} `cudaErrorInvalidValue` if the launch has more blocks or threads than the device supports,
   * `cudaErrorCooperativeLaunchTooLarge` if a cooperative launch has more blocks than can run at once,
   * `cudaErrorInvalidClusterSize` if the device does not support clusters of this size, `cudaErrorNotSupported` if it
   * does not support clusters at all
   */
  launch(options: LaunchOptions, ...args: Parameters): void {
    if (!options) checkLaunchOptions(this.name, options, args, this.#typeNames());
    let attributes: AttributedLaunches | undefined;
    for (const name in options) {
      // The option names are compared here instead of in `checkOptions`, which would take twice as long.
      if (name === "grid" || name === "block" || name === "stream" || name === "sharedMemoryBytes") continue;
      attributes = this.#readAttributes(options, args);
      break;
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
    if (sharedMemoryBytes !== 0) this.#sharedMemory.prepare(sharedMemoryBytes);
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
      // `stream` belongs to this session, so a buffer with the same stream does too. Other buffers are checked by
      // `#noteUse`.
      if (allocation !== undefined && allocation.stream !== stream) this.#noteUse(allocation, stream);
    }
    try {
      if (attributes === undefined) this.#session.driver.launchKernel(launch);
      else attributes.launch(launch);
    } catch (error) {
      throw launchError(error, options, { kernel: this, device: this.#device });
    }
    if (this.#session.captures.isActive) this.#noteCaptured(stream, args);
    this.#launches!.note(name, grid, block, CudaKernel.prototype.launch);
  }

  /** Records that the graph into which the stream is being captured uses the kernel's module and buffers. */
  #noteCaptured(stream: CudaStream, args: readonly KernelArgument[]): void {
    const capture = this.#session.captures.of(stream.unsafeHandle);
    if (capture === undefined) return;
    for (const allocation of this.#buffers) if (allocation !== undefined) capture.resources.allocations.add(allocation);
    for (const argument of args) {
      if (argument instanceof HostBuffer) capture.resources.hostMemory.add(argument.buffer);
    }
    capture.resources.keep(this.#isLoaded, this.#keepLoaded);
  }

  /** Returns the launch attributes that are set by the less common launch options. Undefined if there are none. */
  #readAttributes(options: LaunchOptions, args: readonly KernelArgument[]): AttributedLaunches | undefined {
    for (const name in options) {
      if (Object.hasOwn(launchOptionNames, name)) continue;
      checkLaunchOptions(this.name, options, args, this.#typeNames());
      refuseUnknownOption(options, name, {
        action: `launch ${this.name}`,
        names: launchOptionNames,
        instead: optionsInstead,
      });
    }
    return this.#attributedLaunch().read(options);
  }

  #attributedLaunch(): AttributedLaunches {
    return this.#attributedLaunches ??= new AttributedLaunches({
      name: this.name,
      handle: this.#handle,
      device: this.#device,
      session: this.#session,
    });
  }

  /**
   * The resources that the kernel needs: registers, memory, and its maximum block size.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
   * @throws {ReferenceError} If the module was disposed
   */
  get attributes(): KernelAttributes {
    this.#checkLoaded();
    try {
      return this.#attributes ??= readKernelAttributes(this.#session.driver, this.#handle);
    } catch (error) {
      throw cannot(`get the attributes of ${this.name}`, error);
    }
  }

  /**
   * Whether the kernel prefers a larger L1 cache or more shared memory, on devices where both use the same hardware
   * resources. This is a hint, which has no effect on the software device. Defaults to "none". CUDA has no getter for
   * it, so the value is the last one set here. CUDA may synchronize the device before a launch whose preference differs
   * from the previous launch's.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
   * @throws {TypeError} When set, if there is no such configuration
   * @throws {ReferenceError} When set, if the module was disposed
   */
  get cacheConfig(): CacheConfig {
    return this.#cacheConfig;
  }

  set cacheConfig(value: CacheConfig) {
    const config = cacheConfigOf(value);
    this.#checkLoaded();
    try {
      this.#session.driver.funcSetCacheConfig(this.#handle, config);
    } catch (error) {
      throw cannot(`set the cacheConfig of ${this.name} to "${value}"`, error);
    }
    this.#cacheConfig = value;
  }

  /**
   * The shared memory carve-out that the kernel prefers on devices where the L1 cache and shared memory use the same
   * hardware resources: a percentage of the maximum shared memory per multiprocessor, or "default". Can also be set to
   * "max-l1", which is 0, and "max-shared", which is 100. This is a hint, which has no effect on the software device.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
   * @throws {TypeError} When set, if the value is neither a number nor one of these words
   * @throws {RangeError} When set, if the number is not from 0 to 100
   * @throws {ReferenceError} If the module was disposed
   */
  get preferredSharedMemoryCarveout(): number | "default" {
    this.#checkLoaded();
    try {
      const attribute = functionAttribute.preferredSharedMemoryCarveout;
      const percent = this.#session.driver.funcGetAttribute(this.#handle, attribute);
      return percent < 0 ? "default" : percent;
    } catch (error) {
      throw cannot(`get the preferredSharedMemoryCarveout of ${this.name}`, error);
    }
  }

  set preferredSharedMemoryCarveout(value: SharedMemoryCarveout) {
    const percent = carveoutOf(value);
    this.#checkLoaded();
    try {
      const attribute = functionAttribute.preferredSharedMemoryCarveout;
      this.#session.driver.funcSetAttribute(this.#handle, attribute, percent);
    } catch (error) {
      throw cannot(`set the preferredSharedMemoryCarveout of ${this.name} to ${value}`, error);
    }
  }

  /**
   * Returns the maximum number of blocks that can be active on one multiprocessor: 0 if the device does not support
   * blocks of this size. Multiplied by the number of multiprocessors, this is the size of a grid that fills the device.
   *
   * @param blockSize Number of threads per block.
   * @param sharedMemoryBytes Bytes of dynamic shared memory per block.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__OCCUPANCY.html
   * @throws {RangeError} If an argument is not valid
   * @throws {ReferenceError} If the module was disposed
   */
  maxActiveBlocksPerMultiprocessor(blockSize: number, sharedMemoryBytes: number = 0): number {
    this.#checkLoaded();
    checkSharedMemory(sharedMemoryBytes);
    checkNumber(blockSize, "the size of a block");
    checkBlockSize(blockSize, `use a block of ${blockSize} threads`);
    const { driver } = this.#session;
    try {
      this.#sharedMemory.allows(sharedMemoryBytes);
      return driver.occupancyMaxActiveBlocksPerMultiprocessor(this.#handle, blockSize, sharedMemoryBytes);
    } catch (error) {
      throw cannot(`compute how many blocks of ${blockSize} threads of ${this.name} fit`, error);
    }
  }

  /**
   * Returns the block size that maximizes the number of active threads, and the smallest grid of such blocks that
   * reaches this number.
   *
   * @param options The dynamic shared memory of each block, and the largest block size to consider.
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__OCCUPANCY.html
   * @throws {TypeError} If an option is unknown or has the wrong type
   * @throws {RangeError} If a number is not valid, or the device does not support as much shared memory
   * @throws {ReferenceError} If the module was disposed
   *
   * @example
   * ```ts ignore
   * const { block, minimumGrid } = kernel.maxPotentialBlockSize();
   * kernel.launch({ grid: minimumGrid, block, stream }, buffer, buffer.byteLength, 0);
   * ```
   */
  maxPotentialBlockSize(options: PotentialBlockSizeOptions = {}): { block: number; minimumGrid: number } {
    checkOptions(options, potentialBlockSizeOptions);
    const { sharedMemoryBytes = 0, blockSizeLimit } = options;
    if (blockSizeLimit !== undefined) {
      checkNumber(blockSizeLimit, "a blockSizeLimit");
      checkBlockSize(blockSizeLimit, `use ${blockSizeLimit} as a blockSizeLimit`);
    }
    this.#checkLoaded();
    checkSharedMemory(sharedMemoryBytes);
    const action = "choose a block size for";
    if (!this.#sharedMemory.allows(sharedMemoryBytes)) this.#sharedMemory.refuse(sharedMemoryBytes, action);
    try {
      const { minGridSize, blockSize } = this.#session.driver.occupancyMaxPotentialBlockSize(
        this.#handle,
        sharedMemoryBytes,
        blockSizeLimit ?? 0,
      );
      return { block: blockSize, minimumGrid: minGridSize };
    } catch (error) {
      throw cannot(`${action} ${this.name}`, error);
    }
  }

  /**
   * Returns the maximum number of clusters that can be active on the device: 0 if not even one fits, or if a block
   * needs more shared memory than the device supports.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__OCCUPANCY.html
   * @throws {TypeError} If an option is unknown or has the wrong type
   * @throws {RangeError} If a number is not valid
   * @throws {ReferenceError} If the module was disposed
   * @throws {CudaError} `cudaErrorInvalidClusterSize` if the device does not support clusters of this size,
   * `cudaErrorNotSupported` if it does not support clusters at all
   */
  maxActiveClusters(options: ActiveClustersOptions): number {
    checkOptions(options, activeClustersOptions);
    this.#checkLoaded();
    const { sharedMemoryBytes = 0 } = options;
    checkSharedMemory(sharedMemoryBytes);
    if (!this.#sharedMemory.allows(sharedMemoryBytes)) return 0;
    return this.#attributedLaunch().maxActiveClusters(this.#launch, options);
  }

  #checkLoaded(): void {
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot use the kernel ${this.name}: its module was disposed`);
  }

  /**
   * Records that a launch on `stream` uses a buffer that belongs to another stream. If the launch then fails, the
   * record is harmless.
   */
  #noteUse(allocation: Allocation, stream: CudaStream): void {
    if (allocation.session !== this.#session) throw errorOfAnotherCuda("pass a buffer");
    allocation.noteUse(stream);
  }

  get #isDisposed(): boolean {
    return !this.#isLoaded() || this.#session.hasEnded;
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

function checkBlockSize(value: number, action: string): void {
  if (Number.isInteger(value) && value >= 1 && value <= maximumInt) return;
  throw new RangeError(`Cannot ${action}: it must be a whole number, at least 1 and at most ${maximumInt}`);
}
