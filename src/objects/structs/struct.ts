import { noteHostRead } from "../../sanitizer/notifications.ts";
import { nameClass, printAs, printObjectAs } from "../../support/printing.ts";
import type { ParameterType } from "../../ptx/kernel_signature.ts";
import { bytesOf, whatIs } from "../../support/validation.ts";
import { type FieldRefusal, layoutOf, nestedLayouts, type StructLayout } from "./field_layouts.ts";
import { addEntries, RangeError, TypeError } from "../../support/program_errors.ts";

/** The type of a struct's field, or of the elements of an array field: a scalar by its PTX name, or a struct. */
export type FieldType = Exclude<ParameterType, object> | {
  // deno-lint-ignore no-explicit-any
  (values: any): StructValue;
  readonly byteLength: number;
  readonly alignment: number;
};

/**
 * The fields of a struct, in order. Maps each field's name to its type or, for an array, to the element type and the
 * number of elements.
 */
export type StructFields = Record<string, FieldType | readonly [type: FieldType, count: number]>;

/**
 * A value for a field: a number, a bigint or a boolean for a scalar; an object of values, or a `StructValue`, for a
 * struct; an array or a typed array for an array.
 */
export type FieldValue =
  | number
  | bigint
  | boolean
  | { readonly [name: string]: FieldValue }
  | readonly FieldValue[]
  | ArrayBufferView;

/** The values that a field of type `T` accepts. */
export type FieldInput<T> = T extends readonly [infer Element, number]
  ? readonly FieldInput<Element>[] | ArrayBufferView
  : T extends { readonly fields: infer Fields } ? StructInput<Fields> | StructValue<Fields>
  : T extends "f16" | "f32" | "f64" ? number
  : number | bigint | boolean;

/** The values of a struct's fields to write. */
export type StructInput<Fields> = { readonly [name in keyof Fields]: FieldInput<Fields[name]> };

/** The value that a field of type `T` is read as. */
export type FieldOutput<T> = T extends readonly [infer Element, number] ? FieldOutput<Element>[]
  : T extends { readonly fields: infer Fields } ? StructOutput<Fields>
  : T extends "b64" | "u64" | "s64" ? bigint
  : number;

/** The values of a struct's fields as they are read: bigints for 64-bit integers, numbers for other scalars. */
export type StructOutput<Fields> = { -readonly [name in keyof Fields]: FieldOutput<Fields[name]> };

declare const structType: unique symbol;

/**
 * The type of a kernel parameter that is a struct, for use in a {@linkcode Ptx}. An argument is a value of a struct
 * that has these fields, of these types, or a typed array or `DataView` with its bytes. `Fields` is the type of the
 * fields passed to `struct`: `StructArgument<{ x: "f32"; colors: readonly ["u8", 3]; inner: Struct<{ n: "s32" }> }>`.
 * The type checker does not compare the order of the fields; a launch compares the struct's size and alignment with the
 * parameter's.
 *
 * @example
 * ```ts
 * import { struct, type StructArgument } from "./mod.ts";
 *
 * const View = struct({ scale: "f32", limit: "s32" });
 * const view: StructArgument<{ scale: "f32"; limit: "s32" }> = View({ scale: 0.5, limit: 100 });
 * console.log(view.byteLength); // 8
 * ```
 */
export interface StructArgument<Fields> extends ArrayBufferView {
  /**
   * Exists for the type checker only.
   *
   * @internal
   */
  readonly [structType]?: Struct<Fields>;
}

/** The bytes of one struct: an argument for a parameter of the struct's type, or a source of `copyFrom`. */
// deno-lint-ignore no-explicit-any
export interface StructValue<Fields = any> extends StructArgument<Fields> {
  /** The struct's alignment in bytes. A launch compares it with the parameter's. */
  readonly alignment: number;
}

/** A C struct type. Call it with the values of all fields to get a struct's bytes. Returned by `struct`. */
export interface Struct<Fields> {
  (values: { readonly [name in keyof Fields]: FieldValue }): StructValue<Fields>;
  /** Size in bytes, with the padding at the end: C++'s `sizeof`. */
  readonly byteLength: number;
  /** Alignment in bytes: C++'s `alignof`. */
  readonly alignment: number;
  /** The `fields` that were passed to `struct`. */
  readonly fields: Fields;
  /**
   * Returns the bytes of an array of structs, for `copyFrom`.
   *
   * @throws {TypeError} If a field is missing, unknown or has a value of the wrong type
   * @throws {RangeError} If a value is out of its field's range
   */
  encode(values: readonly StructInput<Fields>[]): Uint8Array<ArrayBuffer>;
  /**
   * Returns the values of an array of structs, from the bytes that `read(Uint8Array)` returns.
   *
   * @throws {RangeError} If the number of bytes is not a multiple of the struct's size
   */
  decode(bytes: ArrayBufferView | ArrayBuffer): StructOutput<Fields>[];
}

/** Options of `struct`. */
export interface StructOptions {
  /**
   * An alignment in bytes that is larger than the fields require, as set by `alignas` or `__align__` in C++: a power of
   * two. CUDA's vector types have one: 16 for `float4`, 8 for `float2`.
   */
  alignment?: number;
}

/** Returns the layout of a struct's bytes; undefined for any other view. */
export let layoutOfBytes: (view: ArrayBufferView) => StructLayout | undefined;

/** The bytes of a struct, together with the struct's alignment. */
class StructBytes extends DataView<ArrayBuffer> implements StructValue {
  readonly alignment: number;
  readonly #layout: StructLayout;

  static {
    // Comparing the constructor is much faster than `#layout in view` for the typed arrays among a launch's arguments.
    layoutOfBytes = (view) => view.constructor === StructBytes ? (view as StructBytes).#layout : undefined;
    printAs(this, "StructValue", (value) => `StructValue { ${value.byteLength} bytes }`, ["byteLength", "alignment"]);
    nameClass(this, "StructValue");
  }

  constructor(layout: StructLayout) {
    super(new ArrayBuffer(layout.byteLength));
    this.alignment = layout.alignment;
    this.#layout = layout;
  }
}

/**
 * Describes a C struct: a kernel's parameter of an aggregate type, or the elements of an array in device memory. Its
 * layout, with padding, is that of C++.
 *
 * @example Pass a struct to a kernel, and read an array of them
 * ```ts
 * import { struct } from "./mod.ts";
 *
 * const Point = struct({ x: "f32", y: "f32" });
 * const View = struct({ center: Point, colors: ["u8", 3], limit: "s32" });
 * console.log(View.byteLength, View.alignment); // 16 4
 * const view = View({ center: { x: 0.5, y: -0.5 }, colors: [255, 0, 0], limit: 100 }); // an argument of a launch
 * const points = Point.decode(Point.encode([{ x: 1, y: 2 }, { x: 3, y: 4 }]));
 * console.log(view.byteLength, points[1]?.x); // 16 3
 * ```
 *
 * @param fields Each field's type by its name, in the order of the declaration in C++. `["f32", 4]` is `float[4]`; a
 * multidimensional array is given as one array of all its elements.
 * @param options A larger alignment than the fields require.
 * @throws {TypeError} If a field's type is unknown
 * @throws {RangeError} If a field's name is an integer, which JavaScript would reorder, or a count or the alignment is
 * not valid
 */
export function struct<const Fields extends StructFields>(fields: Fields, options: StructOptions = {}): Struct<Fields> {
  const layout = layoutOf(fields, options, layoutOfBytes);
  const make = (values: unknown): StructValue => {
    const bytes = new StructBytes(layout);
    refuse(layout.write(bytes, 0, values), "a struct");
    return bytes;
  };
  const properties = {
    byteLength: layout.byteLength,
    alignment: layout.alignment,
    fields: layout.fields as Fields,
    encode(values: readonly unknown[]): Uint8Array<ArrayBuffer> {
      if (!Array.isArray(values)) {
        throw new TypeError(`Cannot encode ${whatIs(values)} as an array of structs: give an array of their values`);
      }
      const { byteLength } = layout;
      const bytes = new Uint8Array(values.length * byteLength);
      const view = new DataView(bytes.buffer);
      for (let index = 0; index < values.length; index++) {
        const refusal = layout.write(view, index * byteLength, values[index]);
        if (refusal !== undefined) refuse({ ...refusal, path: `[${index}]${refusal.path}` }, "an array of structs");
      }
      return bytes;
    },
    decode(source: ArrayBufferView | ArrayBuffer): unknown[] {
      if (!ArrayBuffer.isView(source) && Object.prototype.toString.call(source) !== "[object ArrayBuffer]") {
        const advice = "give the bytes that read(Uint8Array) resolves to";
        throw new TypeError(`Cannot decode ${whatIs(source)} as an array of structs: ${advice}`);
      }
      const { buffer, byteOffset, byteLength } = bytesOf(source);
      if (byteLength % layout.byteLength !== 0) {
        throw new RangeError(
          `Cannot decode ${byteLength} bytes as an array of structs: a struct has ${layout.byteLength} bytes`,
        );
      }
      noteHostRead(source, "decode");
      const view = new DataView(buffer, byteOffset, byteLength);
      const count = byteLength / layout.byteLength;
      return Array.from({ length: count }, (_, index) => layout.read(view, index * layout.byteLength));
    },
  };
  for (const [name, value] of Object.entries(properties)) {
    Object.defineProperty(make, name, { value, enumerable: true });
  }
  Object.defineProperty(make, "name", { value: "struct" });
  nestedLayouts.set(make, layout);
  const made = make as unknown as Struct<Fields>;
  const format = () => `Struct { ${layout.description}${layout.byteLength} bytes }`;
  printObjectAs(made, format, ["byteLength", "alignment", "fields"]);
  return made;
}

function refuse(refusal: FieldRefusal | undefined, whole: string): void {
  if (refusal === undefined) return;
  const { path, what, reason, isRangeError, isComplete } = refusal;
  const field = path.startsWith(".") ? path.slice(1) : path;
  const place = field !== "" ? ` as ${field} of ${whole}` : isComplete ? "" : ` as ${whole}`;
  const message = `Cannot write ${what}${place}: ${reason}`;
  throw isRangeError ? new RangeError(message) : new TypeError(message);
}

addEntries(struct);
