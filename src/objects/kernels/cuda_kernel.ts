import { printAs } from "../../support/printing.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { checkStream, type CudaStream, launchesOf } from "../streams/cuda_stream.ts";
import type { KernelObjectState } from "../textures/cuda_texture.ts";
import { functionAttribute, type KernelLaunch } from "../../driver.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { byteLengthOfRows, PitchedArray } from "../../memory/pitched_array.ts";
import { HostBuffer, lifetimeOfHost } from "../../memory/transfers/host_buffer.ts";
import { cannot } from "../../support/driver_errors.ts";
import type { ActiveCapture } from "../graphs/captures.ts";
import { captureOfArgument, GraphArgument, type LaunchArguments } from "../graphs/graph_argument.ts";
import { GraphCondition, handleForKernel } from "../graphs/graph_condition.ts";
import type { GraphResources } from "../graphs/graph_resources.ts";
import { type AddressParameter, copyOfLaunch, type KernelNote, type NamedParameter } from "../graphs/node_notes.ts";
import {
  adviceFor,
  type ArgumentRefusal,
  checkLaunchOptions,
  type KernelArgument,
  type ParameterWriter,
  refuseCount,
  takesAddress,
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
import {
  extentOf,
  extentsOf,
  launchOptionNames,
  type LaunchOptions,
  optionsInstead,
  refuseShape,
} from "./launch_options.ts";
import { formatParameter } from "./parameter_types.ts";
import { placedSignature } from "./parameter_places.ts";
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
  shown,
  whatIs,
} from "../../support/validation.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

/** Returns the device that a kernel was loaded on. */
export let deviceOfKernel: (kernel: CudaKernel) => CudaDevice;

/**
 * Returns the note of a kernel node that would run a launch, for `Driver.graphAddKernelNode`, and records what it uses.
 * Throws what the launch would throw.
 *
 * @param node.capture the capture whose arguments may be among those of the launch
 * @param node.resources gets what the node uses
 */
export let kernelNode: (
  kernel: CudaKernel,
  node: {
    readonly options: LaunchOptions;
    readonly args: readonly unknown[];
    readonly capture: ActiveCapture | undefined;
    readonly resources: GraphResources;
  },
) => KernelNote;

/** A parameter of a kernel, to be written to the packed parameters of a launch. */
export interface KernelParameterPlace {
  /** The parameter in messages, such as `parameter 1 (f32) of saxpy`. */
  readonly name: string;
  /** The parameter's offset and size in the packed parameters, in bytes. */
  readonly offset: number;
  readonly byteLength: number;
  readonly write: ParameterWriter;
}

/** Returns a parameter of a kernel. */
export let kernelParameter: (kernel: CudaKernel, index: number) => KernelParameterPlace;

/** Checks the size of a launch, and writes it to `launch`. */
export let shapeLaunch: (
  kernel: CudaKernel,
  launch: KernelLaunch,
  options: Pick<LaunchOptions, "grid" | "block" | "sharedMemoryBytes">,
) => void;

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
  readonly #parameterBytes: number;
  readonly #writers: readonly ParameterWriter[];
  /** The launch configuration, an object that each launch fills in and reuses. */
  readonly #launch: KernelLaunch;
  /** The allocations of the buffers among the arguments of the latest launch; see `writersOf`. */
  readonly #buffers: (Allocation | undefined)[] = [];
  /** The textures among the arguments of the latest launch. */
  readonly #objects: KernelObjectState[] = [];
  readonly #sharedMemory: KernelSharedMemory;
  /** Implements launches with attributes. Created by the first such launch. */
  #attributedLaunches: AttributedLaunches | undefined;
  #attributes: KernelAttributes | undefined;
  #cacheConfig: CacheConfig = "none";

  static {
    deviceOfKernel = (kernel) => kernel.#device;
    kernelParameter = (kernel, index) => {
      const parameter = kernel.#parameters[index]!;
      const { offset, byteLength } = parameter;
      const name = `parameter ${index} (${formatParameter(parameter)}) of ${kernel.name}`;
      return { name, offset, byteLength, write: kernel.#writers[index]! };
    };
    shapeLaunch = (kernel, launch, options) => kernel.#shape(launch, options);
    kernelNode = (kernel, { options, args, capture, resources }) => {
      const attributes = kernel.#prepare(options, args, { capture });
      for (const allocation of kernel.#buffers) {
        if (allocation !== undefined && allocation.session !== kernel.#session) {
          throw errorOfAnotherCuda("pass a buffer");
        }
      }
      const note = kernel.#noteOf(args, attributes);
      kernel.#noteResources(resources, args);
      return note;
    };
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
    const { parameters, parameterBytes } = placedSignature(signature, handle, session.driver);
    this.#parameters = parameters;
    this.#types = parameters.map(({ type }) => type);
    this.#parameterBytes = parameterBytes;
    this.#writers = writersOf(parameters, this.#buffers, session, this.#objects);
    this.#sharedMemory = new KernelSharedMemory({ name: this.name, handle, device, session });
    const { ordinal } = device;
    this.#launch = session.driver.createKernelLaunch(ordinal, handle, parameterBytes, this.#buffers);
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
  launch(options: LaunchOptions, ...args: LaunchArguments<Parameters>): void {
    const attributes = this.#prepare(options, args, undefined);
    const { grid, block, stream = this.#device.defaultStream } = options;
    const launch = this.#launch;
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
    if (this.#objects.length > 0) this.#noteObjects(stream);
    else if (launch.textures !== undefined) launch.textures = undefined;
    try {
      if (attributes === undefined) this.#session.driver.launchKernel(launch);
      else attributes.launch(launch);
    } catch (error) {
      throw launchError(error, options, { kernel: this, device: this.#device });
    }
    if (this.#session.captures.isActive) this.#noteCaptured(stream, args, attributes);
    this.#launches!.note(this.name, grid, block, CudaKernel.prototype.launch);
  }

  /**
   * Checks a launch, and writes its configuration and arguments to `#launch`. Returns its attributes, if it has any.
   *
   * @param node the capture whose arguments may be among the launch's, if the launch is for a node of a graph. Undefined
   * for a launch on a stream
   */
  #prepare(
    options: LaunchOptions,
    args: readonly unknown[],
    node: { readonly capture: ActiveCapture | undefined } | undefined,
  ): AttributedLaunches | undefined {
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
    if (this.#objects.length > 0) this.#objects.length = 0;
    for (let index = 0; index < writers.length; index++) {
      const argument = args[index] as KernelArgument;
      const refusal = writers[index]!(parameters, argument);
      if (refusal === undefined) continue;
      this.#writeNamed(index, argument, {
        refusal,
        isNode: node !== undefined,
        capture: node === undefined ? this.#session.captures.of(stream.unsafeHandle) : node.capture,
      });
    }
    return attributes;
  }

  /** Records that a stream uses the textures among the arguments. */
  #noteObjects(stream: CudaStream): void {
    this.#launch.textures = this.#objects.map(({ handle }) => handle);
    for (const { allocation, noteUse } of this.#objects) {
      noteUse(stream);
      if (allocation !== undefined) this.#noteUse(allocation, stream);
    }
  }

  #shape(launch: KernelLaunch, { grid, block, sharedMemoryBytes = 0 }: LaunchOptions): void {
    const extents = [...extentsOf(grid), ...extentsOf(block)] as const;
    if (extents.includes(0)) refuseShape(this.name, { grid, block });
    if (!this.#isLoaded()) throw new ReferenceError(`Cannot launch ${this.name}: its module was disposed`);
    if (sharedMemoryBytes !== 0) this.#sharedMemory.prepare(sharedMemoryBytes);
    const [gridX, gridY, gridZ, blockX, blockY, blockZ] = extents;
    Object.assign(launch, { gridX, gridY, gridZ, blockX, blockY, blockZ, sharedMemoryBytes });
  }

  /**
   * Writes the value of a graph's argument in its capture, or the handle of a graph's condition. Throws for any other
   * argument, which was refused.
   */
  #writeNamed(
    index: number,
    argument: unknown,
    { refusal, isNode, capture }: {
      readonly refusal: ArgumentRefusal;
      readonly isNode: boolean;
      readonly capture: ActiveCapture | undefined;
    },
  ): void {
    if (argument instanceof GraphCondition && takesAddress(this.#parameters[index]!)) {
      const handle = handleForKernel(argument, { capture, isNode });
      const refused = this.#writers[index]!(this.#launch.parameters, handle);
      if (refused !== undefined) this.#refuse(index, handle, refused);
      return;
    }
    if (!(argument instanceof GraphArgument)) this.#refuse(index, argument as KernelArgument, refusal);
    const { name, value } = argument;
    if (capture === undefined || captureOfArgument(argument) !== capture) {
      throw new TypeError(
        `Cannot pass the graph's argument ${
          shown(name)
        } as parameter ${index} of ${this.name}: it is for launches in ` +
          "the capture that it comes from",
      );
    }
    const refusalOfValue = this.#writers[index]!(this.#launch.parameters, value as KernelArgument);
    if (refusalOfValue !== undefined) this.#refuse(index, value as KernelArgument, refusalOfValue);
  }

  /** Notes the node that a launch has added to the capture of a stream, and what it uses. */
  #noteCaptured(stream: CudaStream, args: readonly unknown[], attributes: AttributedLaunches | undefined): void {
    const { captures } = this.#session;
    const { unsafeHandle } = stream;
    const capture = captures.of(unsafeHandle);
    if (capture === undefined) return;
    this.#noteResources(capture.resources, args);
    captures.noteNode(stream.device.ordinal, unsafeHandle, this.#noteOf(args, attributes));
  }

  /** Records that a graph uses the kernel's module, and the buffers of the latest launch. */
  #noteResources(resources: GraphResources, args: readonly unknown[]): void {
    for (const allocation of this.#buffers) if (allocation !== undefined) resources.allocations.add(allocation);
    for (const argument of args) {
      const buffer = argument instanceof PitchedArray ? argument.buffer : argument;
      if (buffer instanceof HostBuffer) resources.hostMemory.add(lifetimeOfHost(buffer));
    }
    for (const { object, allocation, hold } of this.#objects) {
      resources.keep(object, hold);
      if (allocation !== undefined) resources.allocations.add(allocation);
    }
    resources.keep(this.#isLoaded, this.#keepLoaded);
  }

  /** Describes the latest launch as a node of a graph. */
  #noteOf(args: readonly unknown[], attributes: AttributedLaunches | undefined): KernelNote {
    const { parameters } = this.#launch;
    const addresses: AddressParameter[] = [];
    const named: NamedParameter[] = [];
    let places = 0;
    for (const [index, parameter] of this.#parameters.entries()) {
      const argument = args[index];
      if (argument instanceof GraphArgument) named.push({ index, argument });
      if (!takesAddress(parameter)) continue;
      const place = places++;
      const isAddress = typeof argument === "bigint" ||
        typeof argument === "object" && argument !== null && "address" in argument;
      if (!isAddress) continue;
      const buffer = argument instanceof PitchedArray ? argument.buffer : argument;
      const memory = buffer instanceof HostBuffer ? lifetimeOfHost(buffer) : allocationOf(buffer);
      const { offset } = parameter;
      addresses.push({
        index,
        offset,
        place,
        address: parameters.getBigUint64(offset, true),
        byteLength: memory === undefined
          ? undefined
          : byteLengthOf(argument as HostBuffer | DeviceBuffer | PitchedArray),
        memory,
      });
    }
    const parameterBytes = this.#parameterBytes;
    const launch = copyOfLaunch(this.#session.driver, this.#launch, parameterBytes);
    return {
      ...{ kind: "kernel", kernel: this, launch, parameterBytes, addresses, named },
      attributes: attributes?.forNode(),
    };
  }

  /** Returns the launch attributes that are set by the less common launch options. Undefined if there are none. */
  #readAttributes(options: LaunchOptions, args: readonly unknown[]): AttributedLaunches | undefined {
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

/** Returns the number of bytes that an argument shows. */
function byteLengthOf(argument: HostBuffer | DeviceBuffer | PitchedArray): number {
  return argument instanceof PitchedArray ? byteLengthOfRows(argument) : argument.byteLength;
}
