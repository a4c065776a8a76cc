/**
 * Parses declarations: heads of functions, variables with their initializers, and registers.
 *
 * @module
 */
import {
  type AddressInitializer,
  type CallPrototype,
  type FunctionDeclaration,
  type FunctionDirective,
  type Initializer,
  PtxError,
  type RegisterDeclaration,
  type VariableDeclaration,
} from "../syntax.ts";
import { quote, type TokenReader } from "./token_reader.ts";

/** The state spaces that a pointer parameter may point to. */
const pointees: ReadonlySet<string> = new Set(["global", "shared", "local", "const"]);
const scalarTypes: ReadonlySet<string> = new Set(
  ("b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 pred texref samplerref " +
    "surfref").split(" "),
);
/**
 * Types that are accepted only when kernel heads are parsed without bodies. Otherwise, `.b16` and `.b32` must be used.
 */
const laterTypes: ReadonlySet<string> = new Set(["bf16", "bf16x2"]);
/** The length of a vector, by the name of its directive. */
const vectorLengths: ReadonlyMap<string, number> = new Map([["v2", 2], ["v4", 4]]);
const maximumDimensions = 200;
/**
 * The directives that begin a declaration at module scope. Other directives after the head of a function belong to the
 * function.
 */
const moduleDirectives: ReadonlySet<string> = new Set(
  ("visible extern weak common entry func reg param global shared local const tex address_size target version file " +
    "section alias").split(" "),
);

/** Parses declarations. The caller has already consumed the directive that begins the declaration. */
export class DeclarationParser {
  readonly #reader: TokenReader;
  /**
   * Whether to reject invalid declarations. False if only kernel heads (names, parameters and directives) are parsed,
   * because the PTX may then be of a newer version than this parser supports.
   */
  readonly #isStrict: boolean;

  constructor(reader: TokenReader, { isStrict }: { isStrict: boolean }) {
    this.#reader = reader;
    this.#isStrict = isStrict;
  }

  functionHead(kind: "entry" | "func", linkage: string | undefined, line: number): FunctionDeclaration {
    const attributes: FunctionDirective[] = [];
    while (this.#reader.token.text === ".attribute") attributes.push(...this.#attributes());
    if (kind === "entry" && this.#reader.at("(")) {
      throw this.#reader.unexpected("the name of a kernel, which has no results");
    }
    const results = this.#reader.at("(") ? this.#parameterList() : [];
    const name = this.#reader.identifier();
    const parameters = this.#reader.at("(") ? this.#parameterList() : [];
    const directives = [...attributes, ...this.#functionDirectives()];
    const noReturn = directives.find(({ name }) => name === "noreturn");
    if (this.#isStrict && noReturn !== undefined && (kind === "entry" || results.length > 0)) {
      throw new PtxError(noReturn.line, 'cannot use the directive ".noreturn": only functions without results have it');
    }
    return { kind, name, linkage, results, parameters, directives, body: undefined, line };
  }

  /** Parses `.attribute(.unified(1, 2), .managed)`. */
  #attributes(): FunctionDirective[] {
    this.#reader.take();
    return this.#attributeList();
  }

  #attributeList(): FunctionDirective[] {
    this.#reader.expect("(");
    const attributes: FunctionDirective[] = [];
    do {
      const { line } = this.#reader.token;
      attributes.push({ name: this.#reader.directive(), values: [], line });
      if (this.#reader.at("(")) this.#reader.skipParentheses();
    } while (this.#reader.accept(","));
    this.#reader.expect(")");
    return attributes;
  }

  #functionDirectives(): FunctionDirective[] {
    const directives: FunctionDirective[] = [];
    while (this.#reader.token.kind === "directive" && !this.isAtDeclaration) directives.push(this.#functionDirective());
    return directives;
  }

  /** Whether the current token begins another declaration at module scope. */
  get isAtDeclaration(): boolean {
    const { kind, text } = this.#reader.token;
    return kind === "directive" && moduleDirectives.has(text.slice(1));
  }

  #functionDirective(): FunctionDirective {
    const { line } = this.#reader.token;
    const name = this.#reader.directive();
    const values: number[] = [];
    while (this.#reader.token.kind === "number" || this.#reader.token.kind === "string") {
      if (this.#reader.token.kind === "string") this.#reader.take();
      else values.push(this.#reader.smallInteger());
      if (!this.#reader.accept(",")) break;
    }
    if (name === "pragma") this.#reader.expect(";");
    return { name, values, line };
  }

  #parameterList(): VariableDeclaration[] {
    this.#reader.expect("(");
    const parameters: VariableDeclaration[] = [];
    while (!this.#reader.accept(")")) {
      if (parameters.length > 0) this.#reader.expect(",");
      const line = this.#reader.token.line;
      const space = this.#reader.directive();
      if (space !== "param" && space !== "reg") {
        throw new PtxError(line, `cannot declare a parameter in ".${space}": parameters are ".param"`);
      }
      parameters.push(this.#variable(space, undefined));
    }
    return parameters;
  }

  variables(space: string, linkage: string | undefined): VariableDeclaration[] {
    const first = this.#variable(space, linkage);
    const variables = [first];
    while (this.#reader.accept(",")) variables.push(this.#declarator(first));
    this.#reader.expect(";");
    return variables;
  }

  /** Parses a texture declaration in the syntax of PTX before 1.5: `.tex .u64 name;`. */
  textures(linkage: string | undefined): VariableDeclaration[] {
    return this.variables("tex", linkage).map((declared) => ({ ...declared, space: "global", type: "texref" }));
  }

  /**
   * Parses a variable. The directives before its name must be in this order: attributes and alignment, vector length,
   * type, and for a parameter `.ptr` with the state space and alignment of its target.
   */
  #variable(space: string, linkage: string | undefined): VariableDeclaration {
    const line = this.#reader.token.line;
    if (space === "const") this.#reader.skipConstantBank();
    let type: string | undefined;
    let vectorLength = 1;
    let alignment: number | undefined;
    let pointer = false;
    let pointee = "generic";
    let last = 0;
    while (this.#reader.token.kind === "directive") {
      const name = this.#reader.directive();
      const order = orderOf(name, pointer);
      if (this.#isStrict && order < last) {
        throw new PtxError(line, `cannot declare a variable with ".${name}" here: it stands further in front`);
      }
      last = order;
      if (name === "align") {
        const value = this.#alignment();
        // After ".ptr", `.align` specifies the alignment of the pointer's target, not of the parameter.
        if (!pointer) alignment = value;
      } else if (vectorLengths.has(name)) {
        vectorLength = vectorLengths.get(name)!;
      } else if (name === "ptr") {
        pointer = true;
      } else if (name === "attribute") {
        for (const attribute of this.#attributeList()) {
          if (attribute.name === "managed" || attribute.name === "unified") continue;
          throw new PtxError(
            line,
            `cannot declare a variable with the attribute ".${attribute.name}": it is not known`,
          );
        }
      } else if (scalarTypes.has(name) || (!this.#isStrict && laterTypes.has(name))) {
        type = name;
      } else if (pointer && pointees.has(name)) {
        pointee = name;
      } else {
        throw new PtxError(line, `cannot declare a variable with ".${name}": it is not a known type`);
      }
    }
    if (type === undefined) throw this.#reader.unexpected("a type");
    // In state spaces other than global, addresses are small offsets, which the caller passes as integers.
    const isPointer = pointer && (pointee === "generic" || pointee === "global");
    return this.#declarator({
      kind: "variable",
      space,
      linkage,
      type,
      vectorLength,
      alignment,
      ...(isPointer ? { isPointer } : {}),
    });
  }

  #alignment(): number {
    const { line } = this.#reader.token;
    const value = this.#reader.smallInteger();
    if (value !== 0 && (value & (value - 1)) === 0) return value;
    throw new PtxError(line, `cannot align to ${value} bytes: an alignment is a power of two`);
  }

  #declarator(
    variable: Omit<VariableDeclaration, "name" | "dimensions" | "elementCount" | "initializer" | "line">,
  ): VariableDeclaration {
    const line = this.#reader.token.line;
    const name = this.#reader.identifier();
    const dimensions: number[] = [];
    while (this.#reader.accept("[")) {
      // Only the first length may be omitted: the initializer or, for dynamic shared memory, the launch determines it.
      dimensions.push(dimensions.length === 0 && this.#reader.at("]") ? 0 : this.#reader.smallInteger());
      this.#reader.expect("]");
      if (dimensions.length > maximumDimensions) {
        throw new PtxError(line, `cannot declare "${name}": it has more than ${maximumDimensions} dimensions`);
      }
    }
    const depth = dimensions.length + (variable.vectorLength > 1 ? 1 : 0);
    const initializer = this.#acceptSettings(variable.type) || !this.#reader.accept("=")
      ? undefined
      : this.#initializer(depth);
    if (dimensions[0] === 0 && initializer?.kind === "elements") dimensions[0] = initializer.elements.length;
    const elementCount = dimensions.length === 0
      ? undefined
      : dimensions.reduce((product, length) => product * length, 1);
    if (elementCount !== undefined && !Number.isSafeInteger(elementCount)) {
      throw new PtxError(line, `cannot declare "${name}": it is too large`);
    }
    return { ...variable, name, dimensions, elementCount, initializer, line };
  }

  /** Skips the settings of a texture or sampler, such as `= { addr_mode_0 = wrap, filter_mode = linear }`. */
  #acceptSettings(type: string): boolean {
    if (!type.endsWith("ref") || !this.#reader.at("=") || this.#reader.peek(1).text !== "{") return false;
    this.#reader.take();
    this.#reader.skipBraces();
    return true;
  }

  /** Parses an initializer. `depth` is the number of levels of braces that the variable's dimensions still allow. */
  #initializer(depth: number): Initializer {
    const { line } = this.#reader.token;
    if (this.#reader.at("{")) {
      if (depth === 0) throw this.#reader.unexpected("a number or the address of a variable");
      this.#reader.take();
      const elements: Initializer[] = [];
      while (!this.#reader.accept("}")) {
        if (elements.length > 0) this.#reader.expect(",");
        elements.push(this.#initializer(depth - 1));
      }
      return { kind: "elements", elements, line };
    }
    if (!this.#reader.isAtConstant && this.#reader.token.kind === "identifier") {
      return this.#addressInitializer(undefined);
    }
    const number = this.#reader.constant();
    if (number.kind !== "integer" || !this.#reader.accept("(")) return number;
    const address = this.#addressInitializer(number.value);
    this.#reader.expect(")");
    return address;
  }

  #addressInitializer(mask: bigint | undefined): AddressInitializer {
    const { line } = this.#reader.token;
    const isGeneric = this.#reader.token.text === "generic" && this.#reader.peek(1).text === "(";
    let name = isGeneric ? this.#reader.word() : this.#reader.identifier();
    if (isGeneric && this.#reader.accept("(")) {
      name = this.#reader.identifier();
      this.#reader.expect(")");
    }
    return { kind: "addressOf", name, offset: this.#reader.offset(), mask, line };
  }

  registers(line: number): RegisterDeclaration {
    let type = this.#reader.directive();
    // Registers have no addresses, so alignment has no effect on them.
    if (type === "align") {
      this.#alignment();
      type = this.#reader.directive();
    }
    const vectorLength = vectorLengths.get(type) ?? 1;
    if (vectorLength > 1) type = this.#reader.directive();
    if (!scalarTypes.has(type)) {
      throw new PtxError(line, `cannot declare registers of type ".${type}": it is not a known type`);
    }
    const names: { name: string; count: number | undefined }[] = [];
    do {
      if (this.#reader.token.text === "_") throw this.#reader.unexpected("the name of a register");
      const name = this.#reader.identifier();
      let count: number | undefined;
      if (this.#reader.accept("<")) {
        count = this.#reader.smallInteger();
        this.#reader.expect(">");
      }
      names.push({ name, count });
    } while (this.#reader.accept(","));
    this.#reader.expect(";");
    return { kind: "registers", type, vectorLength, names, line };
  }

  callPrototype(name: string, line: number): CallPrototype {
    this.#reader.take();
    const results = this.#reader.at("(") ? this.#parameterList() : [];
    const placeholder = this.#reader.token;
    if (this.#reader.identifier() !== "_") {
      throw new PtxError(placeholder.line, `cannot read ${quote(placeholder)}: "_" stands for a prototype's function`);
    }
    const parameters = this.#reader.at("(") ? this.#parameterList() : [];
    const directives = this.#functionDirectives();
    this.#reader.expect(";");
    return { kind: "callPrototype", name, results, parameters, directives, line };
  }
}

/** Returns the rank of a directive in the required order of the directives before a variable's name. */
function orderOf(name: string, isPointer: boolean): number {
  if (isPointer) return name === "align" ? 6 : 5;
  if (name === "ptr") return 4;
  return name === "align" || name === "attribute" ? 1 : vectorLengths.has(name) ? 2 : 3;
}
