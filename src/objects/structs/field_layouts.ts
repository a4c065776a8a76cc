/**
 * The layout of a struct's fields in memory, and reading and writing their values.
 *
 * @module
 */
import { scalarBytes } from "../../ptx/kernel_signature.ts";
import { checkOptions, type KnownOptions, maximumInt, suggestName, whatIs } from "../../support/validation.ts";
import { countOf } from "../../support/printing.ts";
import { roundUp } from "../../support/rounding.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

const structOptions: KnownOptions<{ alignment?: number }> = { action: "describe a struct", names: { alignment: true } };

/** The reason why a value cannot be written. */
export interface FieldRefusal {
  /** The path of the field in the struct: `".corners[2].x"`; empty for the struct itself. */
  readonly path: string;
  /** The value that could not be written: `"a string"`, `"300"`. */
  readonly what: string;
  readonly reason: string;
  readonly isRangeError: boolean;
  /** Whether `what` is the complete description of the value, so that the expected type is not appended. */
  readonly isComplete?: true;
}

/** The layout of a field type. */
interface FieldLayout {
  readonly byteLength: number;
  readonly alignment: number;
  /** Writes a value to zeroed memory. Returns the refusal if the value does not fit. */
  write(view: DataView, offset: number, value: unknown): FieldRefusal | undefined;
  read(view: DataView, offset: number): unknown;
}

/** The layout of a struct. */
export interface StructLayout extends FieldLayout {
  /** A copy of the `fields` passed to `struct`. */
  readonly fields: unknown;
  /** The fields in printed form: `"x: f32, y: f32, "`. */
  readonly description: string;
}

/** The layouts of the structs that `struct` has returned. */
export const nestedLayouts: WeakMap<object, StructLayout> = new WeakMap();

/** Reads and writes one scalar. */
interface ScalarAccess {
  get(view: DataView, offset: number): number | bigint;
  set(view: DataView, offset: number, value: never): void;
}

const floats: Readonly<Record<string, ScalarAccess>> = {
  f16: { get: (view, at) => view.getFloat16(at, true), set: (view, at, value) => view.setFloat16(at, value, true) },
  f32: { get: (view, at) => view.getFloat32(at, true), set: (view, at, value) => view.setFloat32(at, value, true) },
  f64: { get: (view, at) => view.getFloat64(at, true), set: (view, at, value) => view.setFloat64(at, value, true) },
};
const unsigned: Readonly<Record<number, ScalarAccess>> = {
  8: { get: (view, at) => view.getUint8(at), set: (view, at, value) => view.setUint8(at, value) },
  16: { get: (view, at) => view.getUint16(at, true), set: (view, at, value) => view.setUint16(at, value, true) },
  32: { get: (view, at) => view.getUint32(at, true), set: (view, at, value) => view.setUint32(at, value, true) },
  64: { get: (view, at) => view.getBigUint64(at, true), set: (view, at, value) => view.setBigUint64(at, value, true) },
};
const signed: Readonly<Record<number, ScalarAccess>> = {
  8: { get: (view, at) => view.getInt8(at), set: (view, at, value) => view.setInt8(at, value) },
  16: { get: (view, at) => view.getInt16(at, true), set: (view, at, value) => view.setInt16(at, value, true) },
  32: { get: (view, at) => view.getInt32(at, true), set: (view, at, value) => view.setInt32(at, value, true) },
  64: { get: (view, at) => view.getBigInt64(at, true), set: (view, at, value) => view.setBigInt64(at, value, true) },
};

let madeScalarLayouts: ReadonlyMap<string, FieldLayout> | undefined;

/** Returns the layouts of scalars, by type. */
function scalarLayouts(): ReadonlyMap<string, FieldLayout> {
  return madeScalarLayouts ??= new Map(
    Object.entries(scalarBytes).map(([type, byteLength]) => [
      type,
      type in floats ? floatLayout(type, byteLength) : integerLayout(type, byteLength),
    ]),
  );
}

function floatLayout(type: string, byteLength: number): FieldLayout {
  const { get, set } = floats[type]!;
  return {
    byteLength,
    alignment: byteLength,
    read: get,
    write(view, offset, value) {
      if (typeof value !== "number") return refusalOf(value, `${type} takes a number`);
      set(view, offset, value as never);
      if (Number.isFinite(value) && !Number.isFinite(get(view, offset))) {
        return refusalOf(value, `it is too large for ${type}`, { isRangeError: true });
      }
    },
  };
}

/** Returns the layout of an integer. Untyped bits accept signed and unsigned integers, and are read as unsigned. */
function integerLayout(type: string, byteLength: number): FieldLayout {
  const bits = 8 * byteLength;
  const { get, set } = type.startsWith("s") ? signed[bits]! : unsigned[bits]!;
  const minimum = type.startsWith("u") ? 0n : -(2n ** BigInt(bits - 1));
  const maximum = 2n ** BigInt(type.startsWith("s") ? bits - 1 : bits) - 1n;
  const range = `${type} takes a whole number from ${minimum} to ${maximum}`;
  const [first, last] = [Number(minimum), Number(maximum)];
  return {
    byteLength,
    alignment: byteLength,
    read: get,
    write(view, offset, value) {
      if (typeof value === "number") {
        if (!Number.isInteger(value)) return refusalOf(value, range, { isRangeError: true });
        if (bits === 64 && !Number.isSafeInteger(value)) {
          return refusalOf(value, "give a bigint for a number beyond 2 ** 53", { isRangeError: true });
        }
        if (value < first || value > last) return refusalOf(value, range, { isRangeError: true });
        set(view, offset, (bits === 64 ? BigInt(value) : value) as never);
      } else if (typeof value === "bigint") {
        if (value < minimum || value > maximum) return refusalOf(value, range, { isRangeError: true });
        set(view, offset, (bits === 64 ? value : Number(value)) as never);
      } else if (typeof value === "boolean") {
        set(view, offset, (bits === 64 ? BigInt(value) : Number(value)) as never);
      } else {
        const isPointer = bits === 64 && typeof value === "object" && value !== null && "address" in value;
        return refusalOf(value, isPointer ? "give its address, and call its usedOn with the launch's stream" : range);
      }
    },
  };
}

function arrayLayout(element: FieldLayout, count: number): FieldLayout {
  const { byteLength, alignment } = element;
  return {
    byteLength: count * byteLength,
    alignment,
    read: (view, offset) =>
      Array.from({ length: count }, (_, index) => element.read(view, offset + index * byteLength)),
    write(view, offset, value) {
      const isArray = Array.isArray(value) || ArrayBuffer.isView(value) && "length" in value;
      if (!isArray) return refusalOf(value, `it takes an array of ${countOf(count, "element")}`);
      const { length } = value as ArrayLike<unknown>;
      if (length !== count) {
        return { path: "", what: countOf(length, "element"), reason: `it takes ${count}`, isRangeError: true };
      }
      for (let index = 0; index < count; index++) {
        const refusal = element.write(view, offset + index * byteLength, (value as ArrayLike<unknown>)[index]);
        if (refusal !== undefined) return { ...refusal, path: `[${index}]${refusal.path}` };
      }
    },
  };
}

interface Field {
  readonly name: string;
  readonly offset: number;
  readonly layout: FieldLayout;
}

/**
 * Computes the layout of a struct according to C++'s rules. Throws if a field is not valid.
 *
 * @param layoutOfBytes Returns the struct layout of a value; undefined if the value is not a struct's bytes.
 */
export function layoutOf(
  declared: object,
  options: { alignment?: number },
  layoutOfBytes: (value: ArrayBufferView) => StructLayout | undefined,
): StructLayout {
  checkFields(declared);
  checkOptions(options, structOptions);
  const fields: Field[] = [];
  const copies: Record<string, unknown> = {};
  let end = 0;
  let alignment = 1;
  for (const [name, type] of Object.entries(declared)) {
    checkName(name);
    const layout = fieldLayout(type, name);
    const offset = roundUp(end, layout.alignment);
    end = offset + layout.byteLength;
    checkSize(end);
    alignment = Math.max(alignment, layout.alignment);
    fields.push({ name, offset, layout });
    copies[name] = Array.isArray(type) ? Object.freeze([...type]) : type;
  }
  alignment = alignmentOf(options, alignment);
  // An empty struct has a size of 1, so that each object has its own address.
  const byteLength = roundUp(Math.max(end, 1), alignment);
  checkSize(byteLength);
  const description = fields.map(({ name }) => `${name}: ${formatType(copies[name])}, `).join("");
  const self: StructLayout = {
    byteLength,
    alignment,
    fields: Object.freeze(copies),
    description,
    read(view, offset) {
      const values: Record<string, unknown> = {};
      for (const field of fields) values[field.name] = field.layout.read(view, offset + field.offset);
      return values;
    },
    write(view, offset, value) {
      if (ArrayBuffer.isView(value) && layoutOfBytes(value) === self) {
        const bytes = new Uint8Array(value.buffer, value.byteOffset, byteLength);
        new Uint8Array(view.buffer, view.byteOffset + offset, byteLength).set(bytes);
        return;
      }
      if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) {
        return refusalOf(
          value,
          `it takes an object${fields.length === 0 ? "" : ` with the fields ${listNames(fields)}`}`,
        );
      }
      const given = value as Readonly<Record<string, unknown>>;
      for (const name of Object.keys(given)) {
        if (!Object.hasOwn(copies, name)) {
          const suggestion = fields.length === 0
            ? "it has no fields"
            : suggestName(name, fields.map((field) => field.name), "its fields are");
          return refusalOfField(`the field "${name}"`, `there is none; ${suggestion}`);
        }
      }
      for (const field of fields) {
        if (!Object.hasOwn(given, field.name)) {
          return refusalOfField(`a struct without its field "${field.name}"`, `it takes ${listNames(fields)}`);
        }
        const refusal = field.layout.write(view, offset + field.offset, given[field.name]);
        if (refusal !== undefined) return { ...refusal, path: `.${field.name}${refusal.path}` };
      }
    },
  };
  return self;
}

function refusalOf(value: unknown, reason: string, { isRangeError = false } = {}): FieldRefusal {
  const isNumber = typeof value === "number" || typeof value === "bigint" && isRangeError;
  return { path: "", what: isNumber ? String(value) : whatIs(value), reason, isRangeError };
}

function refusalOfField(what: string, reason: string): FieldRefusal {
  return { path: "", what, reason, isRangeError: false, isComplete: true };
}

function listNames(fields: readonly Field[]): string {
  const listed = 12;
  const names = fields.slice(0, listed).map(({ name }) => name).join(", ");
  return fields.length > listed ? `${names} and ${fields.length - listed} more` : names;
}

function checkFields(declared: object): void {
  const example = 'give an object of its fields, such as { x: "f32", count: "s32" }';
  if (typeof declared !== "object" || declared === null || Array.isArray(declared)) {
    throw new TypeError(`Cannot lay out ${whatIs(declared)} as a struct: ${example}`);
  }
  const prototype = Object.getPrototypeOf(declared);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw new TypeError(`Cannot lay out a struct of fields that an object inherits: ${example}`);
  }
  if (Object.getOwnPropertySymbols(declared).length > 0) {
    throw new TypeError("Cannot lay out a struct with a symbol as the name of a field: a name is a string");
  }
}

function checkName(name: string): void {
  const index = Number(name);
  if (Number.isInteger(index) && index >= 0 && index < 2 ** 32 - 1 && String(index) === name) {
    throw new RangeError(
      `Cannot lay out a struct with the field "${name}": JavaScript moves names that are whole numbers to the front; ` +
        `call it "_${name}", for example`,
    );
  }
  if (name !== "__proto__") return;
  throw new RangeError(
    'Cannot lay out a struct with the field "__proto__": in an object, JavaScript takes the name for its prototype; ' +
      "call it otherwise",
  );
}

function fieldLayout(type: unknown, name: string): FieldLayout {
  if (!Array.isArray(type)) return elementLayout(type, name);
  const [element, count, ...rest] = type;
  if (type.length < 2 || rest.length > 0) {
    const advice = "an array is given as [type, count], of several dimensions with the product of their counts";
    throw new TypeError(`Cannot lay out the field "${name}" as an array of ${type.length} items: ${advice}`);
  }
  if (typeof count !== "number") {
    throw new TypeError(`Cannot lay out the field "${name}" with ${whatIs(count)} as its count: it must be a number`);
  }
  if (!Number.isSafeInteger(count) || count < 1) {
    throw new RangeError(
      `Cannot lay out the field "${name}" as an array of ${count} elements: give a whole number, at least 1`,
    );
  }
  return arrayLayout(elementLayout(element, name), count);
}

function elementLayout(type: unknown, name: string): FieldLayout {
  const found = typeof type === "string"
    ? scalarLayouts().get(type)
    : typeof type === "function"
    ? nestedLayouts.get(type)
    : undefined;
  if (found !== undefined) return found;
  const names = [...scalarLayouts().keys()].join(", ");
  const shown = typeof type === "string" ? `"${type}"` : whatIs(type);
  throw new TypeError(
    `Cannot lay out the field "${name}" as ${shown}: a type is one of ${names}, a struct, or [type, count]`,
  );
}

function alignmentOf({ alignment }: { alignment?: number }, natural: number): number {
  if (alignment === undefined) return natural;
  if (typeof alignment !== "number") {
    throw new TypeError(`Cannot align a struct to ${whatIs(alignment)}: give a number of bytes`);
  }
  if (!Number.isInteger(Math.log2(alignment)) || alignment < natural || alignment > maximumInt) {
    throw new RangeError(
      `Cannot align a struct to ${alignment} bytes: give a power of two, at least the ${natural} that its fields need`,
    );
  }
  return alignment;
}

function checkSize(byteLength: number): void {
  if (byteLength <= maximumInt) return;
  throw new RangeError(`Cannot lay out a struct of ${byteLength} bytes: it can have at most ${maximumInt}`);
}

function formatType(type: unknown): string {
  if (Array.isArray(type)) return `${formatType(type[0])}[${type[1]}]`;
  return typeof type === "string" ? type : `struct of ${(type as { byteLength: number }).byteLength} bytes`;
}
