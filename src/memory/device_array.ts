import { nameClass } from "../support/printing.ts";
import type { Allocation, AllocationPart } from "./allocation.ts";
import { allocationOf, DeviceBuffer } from "./device_buffer.ts";
import type { ReadOptions } from "./reads.ts";
import { checkNumber } from "../support/validation.ts";
import type { TypedArray, TypedArrayConstructor } from "../support/typed_array.ts";

/**
 * A buffer of device memory whose elements have a type. Comes from `allocateArray` of a `MemoryPool` or a
 * `CachingAllocator`.
 */
export class DeviceArray<T extends TypedArray> extends DeviceBuffer {
  /** Number of elements. */
  readonly length: number;
  /** The element type, as the constructor of a typed array. */
  readonly type: TypedArrayConstructor<T>;

  static {
    nameClass(this, "DeviceArray");
  }

  /**
   * Arrays come from `MemoryPool.allocateArray` and `CachingAllocator.allocateArray`.
   *
   * @ignore
   */
  constructor(type: TypedArrayConstructor<T>, allocation: Allocation, part?: AllocationPart) {
    super(allocation, part);
    this.type = type;
    this.length = this.byteLength / type.BYTES_PER_ELEMENT;
  }

  /**
   * Returns a view of the elements from `begin` up to, but not including, `end`. The view shares the array's memory.
   * Only the whole array can be freed.
   *
   * @param begin Index of the first element. Unlike in a typed array, negative indices are not supported.
   * @param end Index after the last element. Defaults to the end of the array.
   * @throws {RangeError} If the range is not in the array
   */
  override subarray(begin: number, end: number = this.length): DeviceArray<T> {
    checkNumber(begin, "the begin of a subarray");
    checkNumber(end, "the end of a subarray");
    if (!Number.isInteger(begin) || !Number.isInteger(end) || begin < 0 || begin > end || end > this.length) {
      throw new RangeError(`Cannot view elements ${begin} to ${end} of an array: it has ${this.length}`);
    }
    const size = this.type.BYTES_PER_ELEMENT;
    const address = this.address + BigInt(begin * size);
    const part = { address, byteLength: (end - begin) * size, stream: this.stream };
    return new DeviceArray(this.type, allocationOf(this), part);
  }

  /**
   * Returns a copy of the array's elements, in stream order, without blocking the event loop.
   *
   * @param options Which elements to read, and on which stream.
   * @throws {RangeError} If the range is not in the array
   * @throws {ReferenceError} If the array was freed
   */
  toTypedArray(options?: ReadOptions): Promise<T> {
    return this.read(this.type, options);
  }
}
