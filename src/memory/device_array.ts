import { nameClass } from "../support/printing.ts";
import { DeviceBuffer, type DeviceBufferParts, partsOf, type ReadOptions } from "./device_buffer.ts";
import type { TypedArray, TypedArrayConstructor } from "../support/typed_array.ts";

/** Memory of a device whose elements have a type. Made by `allocateArray` of a pool or an allocator. */
export class DeviceArray<T extends TypedArray> extends DeviceBuffer {
  /** How many elements there are. */
  readonly length: number;
  /** What it is read as. */
  readonly type: TypedArrayConstructor<T>;

  static {
    nameClass(this, "DeviceArray");
  }

  /**
   * Made by `MemoryPool.allocateArray`.
   *
   * @ignore
   */
  constructor(type: TypedArrayConstructor<T>, ...parts: DeviceBufferParts) {
    const [session, owner, pool, address, byteLength, stream, whole] = parts;
    super(session, owner, pool, address, byteLength, stream, whole);
    this.type = type;
    this.length = this.byteLength / type.BYTES_PER_ELEMENT;
  }

  /**
   * A view of a part, counted in elements as in a typed array, but never from the end.
   *
   * @param begin Its first element.
   * @param end The element behind its last; all the rest unless given.
   * @throws {RangeError} where the array does not have these elements
   */
  override subarray(begin: number, end: number = this.length): DeviceArray<T> {
    if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > this.length) {
      throw new RangeError(`Cannot view elements ${begin} to ${end} of an array: it has ${this.length}`);
    }
    const size = this.type.BYTES_PER_ELEMENT;
    const part = new DeviceArray(this.type, ...partsOf(this, begin * size, end * size));
    part.stream = this.stream;
    return part;
  }

  /**
   * Copies the array out, without blocking the event loop.
   *
   * @param options Which elements, and on which stream.
   * @throws {RangeError} where the range is not in the array
   * @throws {ReferenceError} where the array was freed
   */
  toTypedArray(options?: ReadOptions): Promise<T> {
    return this.read(this.type, options);
  }
}
