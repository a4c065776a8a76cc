/**
 * Drivers that override some calls of another driver.
 *
 * @module
 */
import type { Driver, GraphCopy, GraphFill, PitchedCopy } from "./driver.ts";

/** A method of a driver, which must be called with the driver as `this`. */
export type DriverMethod = (...parameters: readonly unknown[]) => unknown;

/**
 * Returns a driver that forwards to another driver, except for some calls.
 *
 * @param calls the calls that replace those of `driver`
 * @param wrap called with each method, including those in `calls`, on first use. Returns the method to call instead. By
 * default, the method is called unchanged
 */
export function intercept(
  driver: Driver,
  calls: Partial<Driver>,
  wrap?: (name: PropertyKey, method: DriverMethod) => DriverMethod,
): Driver {
  // On first use, a property is defined on the layer itself: engines find an own property faster than they call a trap.
  const layer: Driver = Object.create(
    // The proxy's target is an empty object and not `driver`: a trap must return the target's own non-configurable
    // properties unchanged, and a `driver` that is itself a layer may have such properties.
    new Proxy({}, {
      get(_, name) {
        const value: unknown = calls[name as keyof Driver] ?? Reflect.get(driver, name, driver);
        if (typeof value !== "function") return value;
        const method = wrap === undefined ? value.bind(driver) : wrap(name, value as DriverMethod);
        Object.defineProperty(layer, name, { value: method, writable: true, configurable: true });
        return method;
      },
    }),
  );
  return layer;
}

/** Returns a driver that cannot be used: every property access throws an error. */
export function refuse(error: () => Error): Driver {
  return new Proxy({} as Driver, {
    get() {
      throw error();
    },
  });
}

/** A node that copies. */
export interface CopyNote {
  readonly kind: "copy";
  readonly device: number;
  readonly copy: GraphCopy;
}

/** A node that copies rows. CUDA changes nothing of it in an executable graph. */
export interface RowsNote {
  readonly kind: "rows";
  readonly device: number;
  readonly copy: PitchedCopy;
}

/** A node that fills. */
export interface FillNote {
  readonly kind: "fill";
  readonly device: number;
  readonly fill: GraphFill;
}

/** A node that allocates memory. */
export interface AllocationNote {
  readonly kind: "allocate";
  readonly address: bigint;
  readonly byteLength: number;
}

/** A node that frees memory. */
export interface FreeNote {
  readonly kind: "free";
  readonly address: bigint;
}

/** What a call adds to a capture. */
export type CapturedNote = CopyNote | RowsNote | FillNote | AllocationNote | FreeNote;

/** Takes the note of the node that a call has just added to the capture of a stream. */
export type NoteNode = (device: number, stream: bigint, note: CapturedNote) => void;

/**
 * Returns calls that note the nodes which they add to a capture: copies, fills, allocations and frees. Launches are
 * noted by their kernel.
 */
export function notedCalls(base: Driver, note: NoteNode): Partial<Driver> {
  const fills = (device: number, stream: bigint, fill: GraphFill) =>
    note(device, stream, { kind: "fill", device, fill });
  const copies = (device: number, stream: bigint, copy: GraphCopy) =>
    note(device, stream, { kind: "copy", device, copy });
  const row = { height: 1, pitch: 0 };
  return {
    memcpyHtoDAsync(device, destination, source, stream) {
      base.memcpyHtoDAsync(device, destination, source, stream);
      copies(device, stream, { destination, source, byteLength: source.byteLength });
    },
    memcpyDtoHAsync(device, destination, source, stream, onUninitialized) {
      base.memcpyDtoHAsync(device, destination, source, stream, onUninitialized);
      copies(device, stream, { destination, source, byteLength: destination.byteLength });
    },
    memcpyAsync(device, destination, source, byteLength, stream) {
      base.memcpyAsync(device, destination, source, byteLength, stream);
      copies(device, stream, { destination, source, byteLength });
    },
    memcpy3DAsync(device, copy, stream, onUninitialized) {
      base.memcpy3DAsync(device, copy, stream, onUninitialized);
      note(device, stream, { kind: "rows", device, copy });
    },
    memsetAsync(device, address, value, width, stream) {
      base.memsetAsync(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 1, width, ...row });
    },
    memsetD16Async(device, address, value, width, stream) {
      base.memsetD16Async(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 2, width, ...row });
    },
    memsetD32Async(device, address, value, width, stream) {
      base.memsetD32Async(device, address, value, width, stream);
      fills(device, stream, { address, value, elementSize: 4, width, ...row });
    },
    memsetD2D8Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D8Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 1, width, height, pitch });
    },
    memsetD2D16Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D16Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 2, width, height, pitch });
    },
    memsetD2D32Async(device, address, pitch, value, width, height, stream) {
      base.memsetD2D32Async(device, address, pitch, value, width, height, stream);
      fills(device, stream, { address, value, elementSize: 4, width, height, pitch });
    },
    mallocFromPoolAsync(device, byteLength, pool, stream) {
      const address = base.mallocFromPoolAsync(device, byteLength, pool, stream);
      note(device, stream, { kind: "allocate", address, byteLength });
      return address;
    },
    freeAsync(device, address, stream) {
      base.freeAsync(device, address, stream);
      note(device, stream, { kind: "free", address });
    },
  };
}
