import { listOf, printAs } from "../../support/printing.ts";
import { CudaKernel } from "../kernels/cuda_kernel.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { type CudaStream, pendingWorkOf } from "../streams/cuda_stream.ts";
import type { OpenedObject } from "../opened_objects.ts";
import { Allocation, type AllocationOwner } from "../../memory/allocation.ts";
import { allocationOf, DeviceBuffer } from "../../memory/device_buffer.ts";
import { cannot, ignoreLoss } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import {
  checkOptions,
  type KnownOptions,
  manglingHint,
  refuseConstruction,
  suggestMangled,
  suggestName,
  whatIs,
} from "../../support/validation.ts";
import type { KernelArgument } from "../kernels/kernel_arguments.ts";
import { type AnyKernels, checkPlaces, signatureFromTypes } from "../kernels/parameter_types.ts";
import type { InstructionSupport, SurveyedPtx } from "../../ptx/instruction_support.ts";
import { type KernelSignature, type ParameterType, untypedSignature } from "../../ptx/kernel_signature.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";

const ownerOfGlobals: AllocationOwner = {
  release() {},
  freeRefusal: "it is a module's variable, which is unloaded with its module",
};

/**
 * Each time the number of streams with launches of the module reaches a multiple of this value, destroyed idle streams
 * are removed.
 */
const sweepSize = 64;

/** Describes the options of `CudaModule.kernel`, for validation by `checkOptions`. */
const kernelOptions: KnownOptions<{ parameters?: readonly ParameterType[] }> = {
  action: "find a kernel",
  names: { parameters: true },
};

const refusalToClone = cloneRefusal("a CudaModule", openInWorker);

/**
 * Kernels and variables that are loaded on a device. Comes from `CudaDevice.loadModule`.
 *
 * `Kernels` maps each kernel's name to the tuple of its parameters; see {@linkcode Ptx}. Without it, TypeScript accepts
 * any kernel name and any arguments of launches.
 *
 * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
 */
export class CudaModule<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] } = AnyKernels>
  implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /**
   * Exists only for the type checker, to distinguish modules with different kernels. A mapped type, because an
   * interface lacks the index signature that `AnyKernels` requires.
   *
   * @internal
   */
  declare protected readonly kernelTypes: { readonly [Name in keyof Kernels]: Kernels[Name] };
  /**
   * The messages of the compiler and of the driver's JIT for the module, such as warnings; empty if there were none. If
   * the driver finds the compiled code of the PTX in its cache, there are no messages.
   */
  readonly log: string;
  readonly #session: Session;
  readonly #device: CudaDevice;
  readonly #signatures: ReadonlyMap<string, KernelSignature>;
  readonly #variableNames: readonly string[];
  /** Whether an image of the module is binary, so that there may be kernels that no PTX declares. */
  readonly #isBinary: boolean;
  #binaryNames: readonly string[] | undefined;
  /** The PTX of the module; undefined if an image is not PTX. */
  readonly #ptx: readonly SurveyedPtx[] | undefined;
  #instructionSupport: readonly InstructionSupport[] | undefined;
  readonly #loweredNames: ReadonlyMap<string, string>;
  /** The first C++ name expression of each PTX symbol that was compiled from one. */
  readonly #expressions: ReadonlyMap<string, string>;
  readonly #kernels = new Map<string, CudaKernel>();
  readonly #globals = new Map<string, DeviceBuffer>();
  /** The streams on which kernels were launched. */
  readonly #streams = new Set<CudaStream>();
  /** The number of graphs with kernels of the module, which is not unloaded before they are disposed. */
  #graphCount = 0;
  /** Unloads the module. Set once it was disposed and its launches are complete. */
  #unload: (() => void) | undefined;
  readonly #keepLoaded = () => {
    this.#graphCount++;
    return () => {
      this.#graphCount--;
      this.#unloadIfUnused();
    };
  };
  readonly #opened: OpenedObject;
  #handle: bigint | undefined;

  static {
    printAs(this, "CudaModule", (module) => {
      const { kernelNames } = module;
      const kernels = kernelNames.length === 0 ? "no kernels known" : `kernels: ${listOf(kernelNames)}`;
      const state = module.#handle === undefined || module.#session.hasEnded ? "disposed" : kernels;
      return `CudaModule { device ${module.#device.ordinal}, ${state} }`;
    }, [["device", (module) => module.#device], "kernelNames", [
      "disposed",
      (module) => module.#handle === undefined || module.#session.hasEnded,
    ]]);
  }

  /**
   * Modules come from `CudaDevice.loadModule`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    {
      device,
      handle = refuseConstruction("CudaModule", "CudaDevice.loadModule"),
      signatures,
      variableNames,
      isBinary = false,
      ptx,
      loweredNames = new Map(),
      log = "",
    }: {
      device: CudaDevice;
      handle: bigint;
      signatures: readonly KernelSignature[];
      /** The variables that the PTX declares. May be incomplete. */
      variableNames: readonly string[];
      /** Whether an image is not PTX, so that the kernels' names come from the driver. */
      isBinary?: boolean;
      /** The module's PTX. Undefined if an image is not PTX. */
      ptx?: readonly SurveyedPtx[] | undefined;
      /** The PTX symbol of each C++ name expression; kernels and variables are found by the expression as well. */
      loweredNames?: ReadonlyMap<string, string>;
      /** The messages of the compilers. */
      log?: string;
    } = {} as never,
  ) {
    this.#session = session;
    this.#device = device;
    this.#handle = handle;
    this.#signatures = new Map(signatures.map((signature) => [signature.name, signature]));
    this.#variableNames = variableNames;
    this.#isBinary = isBinary;
    this.#ptx = ptx;
    this.#loweredNames = loweredNames;
    this.#expressions = new Map([...loweredNames].reverse().map(([expression, lowered]) => [lowered, expression]));
    this.log = log;
    this.#opened = { kind: "module", release: (driver) => driver.moduleUnload(device.ordinal, handle) };
    session.opened.add(this.#opened);
  }

  /**
   * The names of the kernels in the module's PTX. A kernel that was compiled for a name expression, such as
   * `scale<float>`, is listed by the expression instead. The names in a binary image are read from the driver; a driver
   * older than CUDA 12.4 does not list them.
   */
  get kernelNames(): readonly string[] {
    const names = new Set(this.#signatures.keys());
    if (this.#isBinary) { for (const name of this.#namesInImage()) names.add(name); }
    return Array.from(names, (name) => this.#nameOf(name));
  }

  /**
   * Returns a kernel by its name. C++ mangles the names of kernels that are not declared `extern "C"`. A kernel that
   * was compiled for a name expression, such as `scale<float>`, is found by the expression as well as by its mangled
   * name; its `name` is the name passed to this method.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
   * @param name The name in the PTX, or a name expression.
   * @param options.parameters The parameters' types. For a binary image, only the sizes of the parameters are known,
   * since CUDA 12.4: without types, a launch accepts arguments that have a size, such as buffers and structs, but no
   * numbers. Before CUDA 12.4, the types are required. For PTX, they add information that PTX lacks: whether an integer
   * is signed, and whether 64 bits are a `"pointer"`.
   * @throws {RangeError} If the PTX has no such kernel, the size of a parameter is not valid, or `parameters` is
   * required but not given
   * @throws {TypeError} If a parameter's type is not valid, or contradicts the PTX or the image
   * @throws {CudaError} `cudaErrorSymbolNotFound` if there is no such kernel and an image is binary or `parameters` is
   * given; `cudaErrorNotSupported`, with the line and the reason, if the software device cannot run this kernel
   * @throws {ReferenceError} If the module was disposed
   */
  kernel<Name extends keyof Kernels & string>(
    name: Name,
    options: { parameters?: readonly (ParameterType | "pointer")[] } = {},
  ): CudaKernel<Kernels[Name]> {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the module: it was disposed");
    checkName(name, "kernel");
    checkOptions(options, kernelOptions);
    const known = this.#kernels.get(name);
    if (known !== undefined && options.parameters === undefined) return known as CudaKernel<Kernels[Name]>;
    const lowered = this.#loweredNames.get(name) ?? name;
    const declared = this.#signatures.get(lowered);
    const stated = options.parameters === undefined
      ? undefined
      : signatureFromTypes(name, options.parameters, declared);
    if (stated === undefined && declared === undefined && !this.#isBinary) {
      throw new RangeError(`Cannot find the kernel "${name}" in the module: ${this.#suggestKernel(name)}`);
    }
    try {
      const handle = this.#session.driver.moduleGetFunction(this.#handle, lowered);
      const signature = declared === undefined
        ? this.#signatureInImage(name, { handle, stated })
        : stated ?? { ...declared, name };
      const isLoaded = () => this.#handle !== undefined;
      const onStream = (stream: CudaStream) => this.#addStream(stream);
      const kernel = new CudaKernel<Kernels[Name]>(this.#session, {
        device: this.#device,
        handle,
        signature,
        isLoaded,
        onStream,
        keepLoaded: this.#keepLoaded,
      });
      if (options.parameters === undefined) this.#kernels.set(name, kernel);
      return kernel;
    } catch (error) {
      if (isUnsupported(error)) {
        throw cannot(
          `get the kernel "${name}" of the module on device ${this.#device.ordinal}`,
          error,
          // On a GPU, too, this library binds nothing to a texture reference.
          /"\.(tex|sampler|surf)ref"/.test(error.message)
            ? "let it take a texture object, and give it a CudaTexture or CudaSurface"
            : "run this kernel on a GPU",
        );
      }
      const hint = this.kernelNames.length === 0 ? manglingHint : this.#suggestKernel(name);
      throw cannot(`find the kernel "${name}" in the module`, error, hint);
    }
  }

  /**
   * Returns a variable of the module as a buffer. The buffer cannot be freed: the variable is unloaded with the module.
   *
   * @see https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
   * @param name The name in the PTX, or a name expression such as `&table<float>`.
   * @throws {CudaError} `cudaErrorSymbolNotFound` if there is no such variable, `cudaErrorNotSupported` if the software
   * device does not support its type or size
   * @throws {ReferenceError} If the module was disposed
   */
  getGlobal(name: string): DeviceBuffer {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the module: it was disposed");
    checkName(name, "variable");
    let global = this.#globals.get(name);
    if (global === undefined) {
      try {
        // A variable is also found by its name without `&`: the name expression of a variable is its address, such as
        // `&table`.
        const lowered = this.#loweredNames.get(name) ?? this.#loweredNames.get(`&${name}`) ?? name;
        const { address, byteLength } = this.#session.driver.moduleGetGlobal(this.#handle, lowered);
        const device = this.#device;
        const allocation = new Allocation(
          this.#session,
          ownerOfGlobals,
          undefined,
          address,
          byteLength,
          device,
          device.defaultStream,
        );
        global = new DeviceBuffer(allocation);
      } catch (error) {
        if (isUnsupported(error)) {
          throw cannot(
            `get the variable "${name}" of the module on device ${this.#device.ordinal}`,
            error,
            "use it on a GPU",
          );
        }
        throw cannot(`find the variable "${name}" in the module`, error, this.#suggestVariable(name));
      }
      this.#globals.set(name, global);
    }
    return global;
  }

  /**
   * Lists the instructions in the module's kernels and in the functions that they may call, and how the software device
   * supports each instruction: exactly, within the error bound of the PTX manual, as a hint without effect, or not at
   * all. Unsupported instructions come first. For a module on a GPU, the list shows whether the software device could
   * run the module.
   *
   * The first call compiles the module for the software device. Later calls return the same list.
   *
   * @throws {CudaError} `cudaErrorInvalidPtx` or `cudaErrorUnsupportedPtxVersion` if a GPU has loaded PTX that the
   * software device does not load, such as one for `sm_100a`; `cudaErrorInvalidSource` if the software device cannot
   * link the module
   * @throws {TypeError} If the module, or one of the images that it was linked from, is not PTX
   * @throws {ReferenceError} If the module was disposed
   *
   * @example
   * ```ts
   * import { open } from "./mod.ts";
   *
   * using cuda = open();
   * using module = cuda.device(0).loadModule(`.version 7.0
   * .target sm_75
   * .address_size 64
   * .visible .entry wave(.param .u64 out) {
   *   .reg .b64 %rd<2>; .reg .f32 %f<3>;
   *   ld.param.u64 %rd1, [out];
   *   ld.global.f32 %f1, [%rd1];
   *   sin.approx.f32 %f2, %f1;
   *   st.global.f32 [%rd1], %f2;
   *   ret;
   * }`);
   * for (const each of module.instructionSupport()) {
   *   if (each.support === "unsupported") console.log(each.instruction, each.reason, each.kernels);
   *   if (each.support === "approximate") console.log(each.instruction, each.lines); // sin.approx.f32 [ 8 ]
   * }
   * ```
   */
  instructionSupport(): readonly InstructionSupport[] {
    if (this.#handle === undefined) throw new ReferenceError("Cannot use the module: it was disposed");
    if (this.#instructionSupport !== undefined) return this.#instructionSupport;
    if (this.#ptx === undefined) {
      throw new TypeError("Cannot list the instructions of the module: not all of it is PTX; load the PTX itself");
    }
    try {
      return this.#instructionSupport = this.#session.instructionSupport(this.#ptx).map((each) => ({
        ...each,
        kernels: each.kernels.map((name) => this.#nameOf(name)),
      }));
    } catch (error) {
      throw cannot(
        "list how the software device supports the instructions of the module",
        error,
        "the software device does not load this module",
      );
    }
  }

  /**
   * Unloads the module. Does not block: kernels that were launched earlier continue, and the module is unloaded when
   * they are done. If a variable of the module was requested, the module is unloaded when all streams have completed
   * their earlier work.
   */
  [Symbol.dispose](): void {
    if (this.#handle === undefined) return;
    const handle = this.#handle;
    const session = this.#session;
    this.#handle = undefined;
    for (const global of this.#globals.values()) allocationOf(global).unload();
    session.opened.markDisposed(this.#opened);
    ignoreLoss(() =>
      session.afterWork(this.#globals.size > 0 ? session.streams : this.#streams, () => {
        this.#unload = () => {
          session.opened.delete(this.#opened);
          session.driver.moduleUnload(this.#device.ordinal, handle);
        };
        this.#unloadIfUnused();
      })
    );
  }

  #unloadIfUnused(): void {
    if (this.#graphCount > 0 || this.#unload === undefined || this.#session.hasEnded) return;
    ignoreLoss(this.#unload);
    this.#unload = undefined;
  }

  /**
   * Returns the signature of a kernel that no PTX declares. This is the signature that the program has stated, checked
   * against the kernel's code, or else the signature that the driver reports.
   */
  #signatureInImage(
    name: string,
    { handle, stated }: { handle: bigint; stated: KernelSignature | undefined },
  ): KernelSignature {
    const places = this.#session.driver.funcGetParamInfo(handle);
    if (places === undefined) {
      if (stated !== undefined) return stated;
      const reason = "its image does not list its kernels, and before CUDA 12.4 the driver does not say what they take";
      throw new RangeError(
        `Cannot find the kernel "${name}" in the module: ${reason}; give the "parameters" of this one`,
      );
    }
    const found = untypedSignature(name, places);
    if (stated === undefined) return found;
    checkPlaces(found, stated);
    return stated;
  }

  /**
   * Returns the names of the kernels that the driver lists. Empty if the driver cannot list them, or the module was
   * disposed.
   */
  #namesInImage(): readonly string[] {
    if (this.#binaryNames !== undefined) return this.#binaryNames;
    if (this.#handle === undefined || this.#session.hasEnded) return [];
    try {
      return this.#binaryNames = this.#session.driver.moduleGetFunctionNames(this.#handle) ?? [];
    } catch (error) {
      if (error instanceof CudaError) return [];
      throw error;
    }
  }

  /** Returns the C++ name expression of a PTX symbol that was compiled from one, otherwise the symbol. */
  #nameOf(name: string): string {
    return this.#expressions.get(name) ?? name;
  }

  #suggestKernel(name: string): string {
    // Suggests no mangled name if the program compiles name expressions: the kernel most likely has an expression, or
    // the program must add one.
    const mangled = this.#loweredNames.size > 0 ? undefined : suggestMangled(name, this.kernelNames);
    if (mangled !== undefined) return mangled;
    if (this.#variableNames.includes(this.#loweredNames.get(name) ?? name)) {
      return `it is a variable: use getGlobal("${name}")`;
    }
    const suggestion = suggestName(name, this.kernelNames, "its kernels are");
    return this.#loweredNames.size === 0 ? suggestion : `${suggestion}; compile others as "nameExpressions"`;
  }

  #suggestVariable(name: string): string {
    if (this.#signatures.has(this.#loweredNames.get(name) ?? name)) return `it is a kernel: use kernel("${name}")`;
    const mangled = this.#loweredNames.size > 0 ? undefined : suggestMangled(name, this.#variableNames);
    if (mangled !== undefined) return mangled;
    // Leaves out the names of variables that the compiler has generated, such as those of strings.
    const names = this.#variableNames.filter((name) => !/^(?:\$|__unnamed_)/.test(name)).map((name) =>
      this.#nameOf(name)
    );
    return names.length === 0 ? manglingHint : suggestName(name, names, "its variables are");
  }

  /** Adds a stream on which a kernel is launched. */
  #addStream(stream: CudaStream): void {
    this.#streams.add(stream);
    if (this.#streams.size % sweepSize !== 0) return;
    for (const each of this.#streams) {
      if (each.disposed && pendingWorkOf(each) === undefined) this.#streams.delete(each);
    }
  }
}

function isUnsupported(error: unknown): error is CudaError {
  return error instanceof CudaError && error.code === "cudaErrorNotSupported";
}

function checkName(name: string, what: string): void {
  if (typeof name !== "string") throw new TypeError(`Cannot find a ${what} by ${whatIs(name)}: a name is a string`);
  if (name.includes("\0")) {
    throw new RangeError(`Cannot find the ${what} ${JSON.stringify(name)}: a name cannot contain a NUL`);
  }
}
