/**
 * Lays out the `.global` and `.const` variables of a module as one image, with their initial values (PTX ISA, section
 * 5.4).
 *
 * @module
 */
import {
  type AddressInitializer,
  type FloatOperand,
  type Initializer,
  PtxError,
  type VariableDeclaration,
} from "../../../ptx/syntax.ts";
import { boundsGranuleBytes, functionAddress } from "../../abi/addresses.ts";
import { byteLengthOfVariable, elementLayout, SpaceLayout } from "../../../ptx/instructions/names.ts";
import type { FunctionName, Variable } from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, singleBits } from "../../../ptx/instructions/scalar_types.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";

/** A variable, with its offset in the image. */
export interface ImageVariable {
  readonly space: "global" | "const";
  /** The offset from the start of the image, in bytes. */
  readonly offset: number;
  readonly byteLength: number;
  /**
   * If the variable is an array, the number of bytes by which the address increases per index, as in {@linkcode
   * Variable}.
   */
  readonly elementBytes?: number | undefined;
}

/** A value to store in the image before any kernel runs. */
export interface InitialValue {
  /** The offset from the start of the image, in bytes. */
  readonly offset: number;
  readonly byteLength: number;
  readonly value: bigint;
  /**
   * Set if `value` is relative to the start of the image: the value to store is the sum of `value` and the address of
   * the image, shifted to the right by this number of bits.
   */
  readonly addressShift: bigint | undefined;
}

/**
 * The image of a module's variables. Each variable begins at a multiple of `boundsGranuleBytes`, so that the bounds
 * table can record its bounds.
 */
export interface ModuleImage {
  readonly byteLength: number;
  readonly variables: ReadonlyMap<string, ImageVariable>;
  /** Variables that the device does not support, with the reasons. The image does not contain them. */
  readonly refusals: ReadonlyMap<string, UnsupportedPtxError>;
  /** The part of the image that contains the `.const` variables. */
  readonly constants: { readonly offset: number; readonly byteLength: number };
  /** All initial values other than zeros. */
  readonly initialValues: readonly InitialValue[];
}

/** The maximum size of an image, in bytes: the size of the device's linear memory. */
const maximumImageBytes = 2 ** 32;
const maximumConstantBytes = 65536;
/** The maximum alignment of a variable, in bytes: the alignment of the image itself. */
const maximumAlignment = 65536;

/**
 * Returns the variables of a module by name. A definition takes precedence over `.extern` declarations. Throws
 * `PtxError` if a variable is defined twice.
 *
 * @param allowsLocal whether the module may have variables in `.local`
 */
export function variablesByName(
  declarations: readonly VariableDeclaration[],
  { allowsLocal }: { allowsLocal: boolean },
): ReadonlyMap<string, VariableDeclaration> {
  const variables = new Map<string, VariableDeclaration>();
  for (const declaration of declarations) {
    const { name, linkage, line } = declaration;
    checkPlace(declaration, allowsLocal);
    const other = variables.get(name);
    if (other === undefined || other.linkage === "extern") variables.set(name, declaration);
    else if (linkage !== "extern") throw new PtxError(line, `cannot define the variable "${name}" twice`);
  }
  return variables;
}

/** Throws `PtxError` for a state space, linkage or initializer that a variable at module scope cannot have. */
function checkPlace(declaration: VariableDeclaration, allowsLocal: boolean): void {
  const { name, line, space, linkage, initializer } = declaration;
  if (space === "param") throw new PtxError(line, `cannot declare "${name}" in ".param" outside a function`);
  if (space === "local" && !allowsLocal) {
    throw new PtxError(line, `cannot declare "${name}" in ".local" outside a function: only PTX before 3.0 can`);
  }
  if (linkage === "common" && space !== "global") {
    throw new PtxError(line, `cannot declare "${name}" as .common: only variables in .global can be`);
  }
  const isInitializable = space === "global" || space === "const";
  if (initializer !== undefined && (linkage === "extern" || !isInitializable)) {
    throw new PtxError(line, `cannot initialize "${name}": it is ${isInitializable ? "external" : `in ".${space}"`}`);
  }
  if (space === "local") byteLengthOfVariable(declaration);
}

/**
 * Lays out the variables that a module defines, except those that are not supported. Throws `PtxError` if a variable or
 * its initializer is not valid PTX.
 */
export function layOutImage(
  declarations: Iterable<VariableDeclaration>,
  functions: ReadonlyMap<string, FunctionName>,
): ModuleImage {
  const ofImage = [...declarations].filter(({ space }) => space === "global" || space === "const");
  const defined = ofImage.filter(({ linkage }) => linkage !== "extern");
  const variables = new Map<string, ImageVariable>();
  const refusals = new Map<string, UnsupportedPtxError>();
  let end = 0;
  const place = (space: ImageVariable["space"]) => {
    const offset = end;
    for (const declaration of defined) {
      if (declaration.space !== space) continue;
      const variable = placeIfSupported(declaration, { space, end, refusals });
      if (variable === undefined) continue;
      variables.set(declaration.name, variable);
      end = Math.ceil((variable.offset + variable.byteLength) / boundsGranuleBytes) * boundsGranuleBytes;
    }
    return { offset, byteLength: end - offset };
  };
  place("global");
  const constants = place("const");
  refuseDependents(ofImage, refusals);
  for (const name of refusals.keys()) variables.delete(name);
  checkConstants(defined.filter(({ name }) => variables.has(name)));
  const initialValues: InitialValue[] = [];
  for (const declaration of defined) {
    const { initializer, name, dimensions, vectorLength } = declaration;
    const variable = variables.get(name);
    if (initializer === undefined || variable === undefined) continue;
    const { offset } = variable;
    const shape = vectorLength > 1 ? [...dimensions, vectorLength] : dimensions;
    new ImageWriter(initialValues, { declaration, variables, functions }).write(initializer, { shape, offset });
  }
  return { byteLength: end, variables, refusals, constants, initialValues };
}

/** Stores the initial values of the variables in zeroed memory, for an image at the given address. */
export function initializeImage(
  { initialValues }: ModuleImage,
  { view, address }: { view: DataView; address: bigint },
): void {
  for (const { offset, byteLength, value, addressShift } of initialValues) {
    const bits = BigInt.asUintN(8 * byteLength, addressShift === undefined ? value : value + address >> addressShift);
    if (byteLength === 1) view.setUint8(offset, Number(bits));
    else if (byteLength === 2) view.setUint16(offset, Number(bits), true);
    else if (byteLength === 4) view.setUint32(offset, Number(bits), true);
    else view.setBigUint64(offset, bits, true);
  }
}

/**
 * Assigns a variable its offset in the image. If the variable is not supported, adds the error to `refusals` and
 * returns undefined.
 */
function placeIfSupported(
  declaration: VariableDeclaration,
  { refusals, ...where }: { space: ImageVariable["space"]; end: number; refusals: Map<string, UnsupportedPtxError> },
): ImageVariable | undefined {
  try {
    return placeVariable(declaration, where);
  } catch (error) {
    if (!(error instanceof UnsupportedPtxError)) throw error;
    refusals.set(declaration.name, error);
    return undefined;
  }
}

/**
 * Adds an error to `refusals` for each variable whose initializer contains the address of a variable that is not in the
 * image.
 */
function refuseDependents(
  declarations: readonly VariableDeclaration[],
  refusals: Map<string, UnsupportedPtxError>,
): void {
  const undefinedNames = declarations.filter(({ linkage }) => linkage === "extern").map(({ name }) => name);
  const waiting = [...refusals.keys(), ...undefinedNames];
  if (waiting.length === 0) return;
  const dependents = new Map<string, Set<VariableDeclaration>>();
  for (const declaration of declarations) {
    for (const name of addressesIn(declaration.initializer)) {
      const known = dependents.get(name);
      if (known === undefined) dependents.set(name, new Set([declaration]));
      else known.add(declaration);
    }
  }
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const why = refusals.has(name) ? "it is not supported" : "this module declares it but does not define it";
    for (const { name: dependent, line } of dependents.get(name) ?? []) {
      if (refusals.has(dependent)) continue;
      const message = `cannot initialize "${dependent}" with the address of "${name}": ${why}`;
      refusals.set(dependent, new UnsupportedPtxError(line, message));
      waiting.push(dependent);
    }
  }
}

function addressesIn(initializer: Initializer | undefined): readonly string[] {
  if (initializer?.kind === "addressOf") return [initializer.name];
  return initializer?.kind === "elements" ? initializer.elements.flatMap(addressesIn) : [];
}

function placeVariable(
  declaration: VariableDeclaration,
  { space, end }: { space: ImageVariable["space"]; end: number },
): ImageVariable {
  const { name, line } = declaration;
  const byteLength = byteLengthOfVariable(declaration);
  const alignment = Math.max(elementLayout(declaration).alignment, boundsGranuleBytes);
  if (alignment > maximumAlignment) {
    throw new UnsupportedPtxError(
      line,
      `cannot align "${name}" to ${alignment} bytes: the maximum is ${maximumAlignment}`,
    );
  }
  const offset = Math.ceil(end / alignment) * alignment;
  if (offset + byteLength > maximumImageBytes) {
    throw new UnsupportedPtxError(line, `cannot place "${name}": the module's variables do not fit in memory`);
  }
  if (declaration.elementCount === undefined) return { space, offset, byteLength };
  return { space, offset, byteLength, elementBytes: elementLayout(declaration).type.bits / 8 };
}

/** Throws `PtxError` if a module's `.const` variables exceed 64 KiB, the limit of a GPU. */
function checkConstants(defined: readonly VariableDeclaration[]): void {
  const layout = new SpaceLayout("const");
  for (const declaration of defined) {
    if (declaration.space !== "const") continue;
    layout.place({ ...declaration, initializer: undefined });
    if (layout.byteLength > maximumConstantBytes) {
      throw new PtxError(
        declaration.line,
        `cannot place "${declaration.name}": a module may have at most ${maximumConstantBytes} bytes of .const variables`,
      );
    }
  }
}

/** Writes the initial value of one variable. */
class ImageWriter {
  readonly #values: InitialValue[];
  readonly #declaration: VariableDeclaration;
  readonly #type: ScalarType;
  readonly #variables: ReadonlyMap<string, ImageVariable>;
  readonly #functions: ReadonlyMap<string, FunctionName>;

  constructor(
    values: InitialValue[],
    { declaration, variables, functions }: {
      declaration: VariableDeclaration;
      variables: ReadonlyMap<string, ImageVariable>;
      functions: ReadonlyMap<string, FunctionName>;
    },
  ) {
    this.#values = values;
    this.#functions = functions;
    this.#declaration = declaration;
    this.#type = elementLayout(declaration).type;
    this.#variables = variables;
  }

  /** Writes a value, or recursively an array of values. Elements without an initializer stay 0. */
  write(initializer: Initializer, { shape, offset }: { shape: readonly number[]; offset: number }): void {
    const [length, ...inner] = shape;
    if (length === undefined) return this.#writeElement(initializer, offset);
    if (initializer.kind !== "elements") {
      this.#fail("an array needs braces around its values, one pair for each dimension");
    }
    const { elements, line } = initializer;
    if (inner.length === 0 && this.#declaration.vectorLength > 1 && elements.length !== length) {
      this.#fail(`a vector needs ${length} values, and it is given ${elements.length}`, line);
    }
    if (elements.length > length) this.#fail(`it is given ${elements.length} values and has room for ${length}`, line);
    const stride = inner.reduce((product, count) => product * count, this.#type.bits / 8);
    elements.forEach((element, index) => this.write(element, { shape: inner, offset: offset + index * stride }));
  }

  #writeElement(initializer: Initializer, offset: number): void {
    const byteLength = this.#type.bits / 8;
    if (initializer.kind === "addressOf") {
      const addressShift = this.#shiftOf(initializer);
      const called = this.#functions.get(initializer.name);
      if (called !== undefined) {
        const value = functionAddress(called.index) + initializer.offset >> addressShift;
        this.#values.push({ offset, byteLength, value, addressShift: undefined });
        return;
      }
      this.#values.push({ offset, byteLength, value: this.#addressOf(initializer), addressShift });
      return;
    }
    if (initializer.kind === "elements") this.#fail("it is given more braces than it has dimensions", initializer.line);
    const value = initializer.kind === "integer" ? this.#integer(initializer.value) : this.#float(initializer);
    if (value !== 0n) this.#values.push({ offset, byteLength, value, addressShift: undefined });
  }

  /**
   * Returns the position of the lowest bit of the part of an address that an initializer selects with a mask. Returns 0
   * if there is no mask.
   */
  #shiftOf({ mask, line }: AddressInitializer): bigint {
    const { bits, kind, name } = this.#type;
    // An element of 32 bits is initialized with the lower half of the address.
    if (mask === undefined && bits >= 32 && kind !== "float") return 0n;
    for (let shift = 0n; mask !== undefined && shift < 64n && bits === 8 && kind !== "bits"; shift += 8n) {
      if (mask === 0xffn << shift) return shift;
    }
    this.#fail(`${mask === undefined ? "an address" : "that part of an address"} does not fit in ".${name}"`, line);
  }

  #addressOf({ name, offset, line }: AddressInitializer): bigint {
    const variable = this.#variables.get(name);
    if (variable === undefined) {
      this.#fail(`"${name}" is neither a function nor a variable in .global or .const that this module defines`, line);
    }
    return BigInt(variable.offset) + offset;
  }

  /** Returns the bits of an integer. Drops the high bits of an integer that is too large, as a GPU's driver does. */
  #integer(value: bigint): bigint {
    const { kind, bits, name } = this.#type;
    if (kind === "float") this.#fail(`the integer ${value} is used where a ".${name}" is needed`);
    return BigInt.asUintN(bits, value);
  }

  /**
   * Returns the bits of a floating-point number. As in `ptxas`, an element of type `b8` or `b16` is set to the low bits
   * of the number, and a 64-bit element to the zero-extended bits of a single-precision number.
   */
  #float({ precision, bits }: FloatOperand): bigint {
    const { kind, bits: width, name, value } = this.#type;
    const takesFloats = kind === "bits" || value === "f32" || value === "f64";
    if (!takesFloats) this.#fail(`a floating-point number is used where a ".${name}" is needed`);
    if (width === 32) return precision === "single" ? bits : singleBits(bits);
    return BigInt.asUintN(width, bits);
  }

  #fail(reason: string, line: number = this.#declaration.line): never {
    throw new PtxError(line, `cannot initialize "${this.#declaration.name}": ${reason}`);
  }
}

/** Returns a variable of the image as an operand of instructions. */
export function operandOf(name: string, { space, offset, byteLength, elementBytes }: ImageVariable): Variable {
  return { kind: "variable", name, space, offset, byteLength, elementBytes };
}
