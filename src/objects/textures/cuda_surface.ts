/**
 * Surface objects, by which kernels read and write arrays.
 *
 * @module
 */
import { CudaArray, extentsText, stateOfArray } from "../../memory/arrays/cuda_array.ts";
import { TrackedHandle, type UsedHandle, usedTogether } from "../../memory/arrays/tracked_handle.ts";
import type { Session } from "../../session.ts";
import { cloneRefusal, openInWorker } from "../../support/cloning.ts";
import { cannot } from "../../support/driver_errors.ts";
import { printAs } from "../../support/printing.ts";
import { RangeError, ReferenceError, TypeError } from "../../support/program_errors.ts";
import { errorOfAnotherCuda, refuseConstruction, whatIs } from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { KernelObjectState } from "./cuda_texture.ts";

/** Returns what the library knows of a surface. Undefined for another value. Throws if it was disposed. */
export let stateOfSurface: (value: unknown) => KernelObjectState | undefined;

const refusalToClone = cloneRefusal("a CudaSurface", openInWorker);

/**
 * What a kernel reads and writes with functions such as `surf2Dread` and `surf2Dwrite`: pass it to a launch for a
 * `cudaSurfaceObject_t`. Comes from `CudaDevice.createSurface`.
 *
 * @see https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__SURFACE__OBJECT.html
 */
export class CudaSurface implements Disposable {
  // Must be the first property: see `cloneRefusal`.
  private readonly cloneRefusal = refusalToClone;
  /** The device whose kernels can use the surface. */
  readonly device: CudaDevice;
  /** The array that kernels read and write. */
  readonly array: CudaArray;
  readonly #session: Session;
  readonly #memory: UsedHandle;
  readonly #own: TrackedHandle;

  static {
    stateOfSurface = (value) => {
      const isSurface = typeof value === "object" && value !== null && #session in value;
      return isSurface ? value.#state() : undefined;
    };
    printAs(this, "CudaSurface", (surface) => {
      const state = surface.#isGone ? ", disposed" : "";
      return `CudaSurface { device ${surface.device.ordinal}, CudaArray ${extentsText(surface.array)}${state} }`;
    }, ["device", "array", ["disposed", (surface) => surface.#isGone]]);
  }

  /**
   * Surfaces come from `CudaDevice.createSurface`.
   *
   * @ignore
   */
  constructor(
    session: Session,
    { array, handle, memory }: { array: CudaArray; handle: bigint; memory: UsedHandle } = {} as never,
  ) {
    if (session?.opened === undefined) refuseConstruction("CudaSurface", "CudaDevice.createSurface");
    const { device } = array;
    this.#session = session;
    this.device = device;
    this.array = array;
    this.#memory = memory;
    this.#own = new TrackedHandle(session, {
      handle,
      kind: "surface",
      release: (driver, handle) => driver.surfObjectDestroy(device.ordinal, handle),
    });
  }

  get #isGone(): boolean {
    return this.#own.isDisposed || this.#memory.isDisposed || this.#session.hasEnded;
  }

  /**
   * The `cudaSurfaceObject_t`, which kernels get. It is still owned by this object.
   *
   * @throws {ReferenceError} If the surface or its array was disposed
   */
  get unsafeHandle(): bigint {
    return this.#state().handle;
  }

  #state(): KernelObjectState {
    const { handle, isDisposed } = this.#own;
    if (isDisposed) throw new ReferenceError("Cannot use a surface: it was disposed");
    if (this.#memory.isDisposed) throw new ReferenceError("Cannot use a surface: its array was disposed");
    return {
      object: this,
      session: this.#session,
      handle,
      allocation: undefined,
      ...usedTogether(this.#own, this.#memory),
    };
  }

  /** Destroys the surface when the kernels and graphs that use it are done with it, without waiting for them. */
  [Symbol.dispose](): void {
    this.#own.dispose();
  }
}

/** Creates a surface with `cudaCreateSurfaceObject`. */
export function createSurface(session: Session, device: CudaDevice, array: CudaArray): CudaSurface {
  if (!(array instanceof CudaArray)) {
    throw new TypeError(`Cannot create a surface of ${whatIs(array, "CudaArray")}: give a CudaArray`);
  }
  const { session: theirs, memory, shape } = stateOfArray(array);
  if (theirs !== session) throw errorOfAnotherCuda("create a surface");
  if (array.device !== device) {
    throw new RangeError(
      `Cannot create a surface on device ${device.ordinal}: the array is on device ${array.device.ordinal}`,
    );
  }
  if (!shape.surface) {
    throw new RangeError("Cannot create a surface of the array: create the array with { surface: true }");
  }
  try {
    const handle = session.driver.surfObjectCreate(device.ordinal, memory.handle);
    return new CudaSurface(session, { array, handle, memory });
  } catch (error) {
    throw cannot(`create a surface on device ${device.ordinal}`, error);
  }
}
