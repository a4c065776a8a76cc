import { beginsConstant, integerValue, readConstant, type TokenSource } from "./constant_expressions.ts";
import { type Token, tokenize } from "./lexer.ts";
import { LineInfo } from "./line_info.ts";
import {
  type AddressInitializer,
  type AddressOperand,
  type CallPrototype,
  type ElementOperand,
  type FloatOperand,
  type FunctionAlias,
  type FunctionDeclaration,
  type FunctionDirective,
  type Initializer,
  type Instruction,
  type IntegerOperand,
  type NameOperand,
  type Operand,
  type Predicate,
  PtxError,
  type PtxHeader,
  type PtxModule,
  type RegisterDeclaration,
  type Statement,
  type TextureOperand,
  type VariableDeclaration,
} from "./syntax.ts";

const stateSpaces: ReadonlySet<string> = new Set(["reg", "param", "global", "shared", "local", "const"]);
/** The state spaces that a pointer parameter may point to. */
const pointees: ReadonlySet<string> = new Set(["global", "shared", "local", "const"]);
const linkages: ReadonlySet<string> = new Set(["visible", "extern", "weak", "common"]);
const scalarTypes: ReadonlySet<string> = new Set(
  ("b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 pred texref samplerref " +
    "surfref").split(" "),
);
/** Types that a head may have, and no variable: `.b16` and `.b32` stand for them. */
const laterTypes: ReadonlySet<string> = new Set(["bf16", "bf16x2"]);
/** By the modifier that states them. */
const vectorLengths: ReadonlyMap<string, number> = new Map([["v2", 2], ["v4", 4]]);
const maximumScopeDepth = 200;

/** How text is parsed that becomes a part of a larger module. */
export interface ParseOptions {
  /** The number of the first line. Default: 1. */
  readonly firstLine?: number;
  /** New names for some of the names in the text, wherever they stand. */
  readonly renamed?: ReadonlyMap<string, string>;
}

/**
 * Parses PTX text. Instructions are parsed by their syntax alone, known or not. Throws {@linkcode PtxError} if the text
 * cannot be parsed.
 *
 * @param checkHeader called with the header before the rest is parsed
 */
export function parsePtx(
  text: string,
  checkHeader?: (header: PtxHeader) => void,
  options: ParseOptions = {},
): PtxModule {
  const parser = new Parser(text, options);
  try {
    return parser.module(checkHeader);
  } catch (error) {
    throw parser.explainCutOff(error);
  }
}

/**
 * Parses the heads of the kernels that PTX text defines. Everything else, including bodies, is skipped by matching
 * braces.
 */
export function parseKernelHeads(text: string): FunctionDeclaration[] {
  return new Parser(text).kernelHeads();
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #renamed: ReadonlyMap<string, string> | undefined;
  readonly #lineInfo = new LineInfo();
  readonly #source: TokenSource = { peek: (distance) => this.#peek(distance), take: () => this.#take() };
  #position = 0;
  #scopeDepth = 0;
  /** Whether the whole text is read. A head alone may be of a PTX version that this parser does not know. */
  #isStrict = false;
  /** The function whose body is being read. */
  #function: string | undefined;

  constructor(text: string, { firstLine, renamed }: ParseOptions = {}) {
    this.#tokens = tokenize(text, firstLine);
    this.#renamed = renamed;
  }

  module(checkHeader?: (header: PtxHeader) => void): PtxModule {
    this.#isStrict = true;
    const header = { version: this.#version(), target: this.#target() };
    checkHeader?.(header);
    const functions: FunctionDeclaration[] = [];
    const variables: VariableDeclaration[] = [];
    const aliases: FunctionAlias[] = [];
    let linkage: string | undefined;
    while (this.#token.kind !== "end") {
      if (this.#accept(";") || this.#acceptDebugLine()) continue;
      const token = this.#token;
      const name = this.#directive();
      if (linkages.has(name)) {
        if (linkage !== undefined) throw new PtxError(token.line, `cannot declare both ".${linkage}" and ".${name}"`);
        linkage = name;
        continue;
      }
      if (name === "entry" || name === "func") {
        if (linkage === "common") throw new PtxError(token.line, 'cannot declare a function as ".common"');
        const head = this.#functionHead(name, linkage, token.line);
        if (this.#at("{")) this.#lineInfo.beginFunction(this.#token.line);
        this.#function = head.name;
        functions.push({ ...head, body: this.#accept(";") ? undefined : this.#body() });
        this.#function = undefined;
      } else if (stateSpaces.has(name)) {
        for (const variable of this.#variables(name, linkage, token.line)) variables.push(variable);
      } else if (name === "tex") {
        throw new PtxError(
          token.line,
          'cannot use the directive ".tex": since PTX 1.5, textures are ".global .texref"',
        );
      } else if (name === "address_size") {
        const size = this.#take();
        if (size.text !== "64") {
          throw new PtxError(size.line, `cannot use an address size of ${quote(size)}: only 64 is supported`);
        }
      } else if (name === "target") {
        // Only the first target counts.
        this.#targetNames();
      } else if (name === "file") {
        this.#lineInfo.addFile(this.#skipLine(token.line));
      } else if (name === "pragma") {
        this.#skipPragma();
      } else if (name === "section") {
        while (!this.#at("{")) this.#take();
        this.#skipBraces();
      } else if (name === "alias") {
        aliases.push(this.#alias(token.line));
      } else {
        throw new PtxError(token.line, `cannot use the directive ".${name}": it is not known at module scope`);
      }
      linkage = undefined;
    }
    return { ...header, functions, variables, aliases, lineInfo: this.#lineInfo };
  }

  kernelHeads(): FunctionDeclaration[] {
    const heads: FunctionDeclaration[] = [];
    let linkage: string | undefined;
    while (this.#token.kind !== "end") {
      const token = this.#token;
      if (this.#at("{")) {
        this.#skipBraces();
        continue;
      }
      this.#take();
      if (token.kind === "directive" && linkages.has(token.text.slice(1))) {
        linkage = token.text.slice(1);
      } else if (token.kind === "directive" && token.text === ".entry") {
        const head = this.#functionHead("entry", linkage, token.line);
        if (!this.#accept(";")) {
          heads.push(head);
          if (!this.#at("{")) throw this.#unexpected('"{" or ";" after the head of a kernel');
        }
      } else {
        linkage = undefined;
      }
    }
    return heads;
  }

  get #token(): Token {
    return this.#tokens[this.#position]!;
  }

  #peek(distance: number): Token {
    return this.#tokens[Math.min(this.#position + distance, this.#tokens.length - 1)]!;
  }

  #take(): Token {
    const token = this.#token;
    if (token.kind === "end") {
      throw new PtxError(token.line, "cannot read the text to its end: it stops in the middle of a statement");
    }
    this.#position++;
    return token;
  }

  #at(punctuation: string): boolean {
    return this.#token.kind === "punctuation" && this.#token.text === punctuation;
  }

  #accept(punctuation: string): boolean {
    if (!this.#at(punctuation)) return false;
    this.#position++;
    return true;
  }

  #expect(punctuation: string): void {
    if (!this.#accept(punctuation)) throw this.#unexpected(`"${punctuation}"`);
  }

  #unexpected(wanted: string): PtxError {
    const token = this.#token;
    const found = token.kind === "end" ? "the end of the text" : quote(token);
    return new PtxError(token.line, `cannot read ${found}: ${wanted} was expected`);
  }

  /** Returns the error, which adds that the text ends in the middle of a function if that is so. */
  explainCutOff(error: unknown): unknown {
    const isCutOff = error instanceof PtxError && this.#function !== undefined &&
      !this.#tokens.slice(this.#position).some(({ text }) => text === "}");
    if (isCutOff) error.message += `; the text ends in the middle of "${this.#function}": it may have been cut off`;
    return error;
  }

  #directive(): string {
    if (this.#token.kind !== "directive") throw this.#unexpected("a directive");
    return this.#take().text.slice(1);
  }

  /** A word that is no name: an opcode, or the target. */
  #word(): string {
    if (this.#token.kind !== "identifier") throw this.#unexpected("a name");
    return this.#take().text;
  }

  #identifier(): string {
    const { line } = this.#token;
    const name = this.#word();
    if (name === "%" || name === "$") {
      throw new PtxError(line, `cannot use the name "${name}": a name has more than this character`);
    }
    return this.#renamed?.get(name) ?? name;
  }

  #smallInteger(): number {
    const token = this.#take();
    const value = token.kind === "number" ? integerValue(token) : undefined;
    if (value === undefined || value > 0x7fff_ffffn) {
      throw new PtxError(token.line, `cannot read ${quote(token)}: an integer below 2147483648 was expected`);
    }
    return Number(value);
  }

  /** Returns the skipped tokens. */
  #skipLine(line: number): readonly Token[] {
    const begin = this.#position;
    while (this.#token.kind !== "end" && this.#token.line === line) {
      if (this.#at(";") || this.#at("{")) {
        throw new PtxError(line, "cannot read code after a directive: put it on a line of its own");
      }
      this.#position++;
    }
    return this.#tokens.slice(begin, this.#position);
  }

  /** `@@DWARF .byte 0x2b`: debug information, as compilers wrote it before `.section` existed. */
  #acceptDebugLine(): boolean {
    if (!this.#at("@") || this.#peek(1).text !== "@" || this.#peek(2).text !== "DWARF") return false;
    this.#skipLine(this.#token.line);
    return true;
  }

  #skipStatement(): void {
    while (!this.#accept(";")) {
      if (this.#at("{") || this.#at("}")) throw this.#unexpected('";"');
      this.#take();
    }
  }

  /** The strings of a `.pragma`. Without its semicolon, the next instruction would be skipped, too. */
  #skipPragma(): void {
    do {
      if (this.#token.kind !== "string") throw this.#unexpected("a string");
      this.#take();
    } while (this.#accept(","));
    this.#expect(";");
  }

  #skipBraces(): void {
    const opening = this.#token;
    let depth = 0;
    do {
      if (this.#token.kind === "end") {
        throw new PtxError(opening.line, 'cannot find the "}" for the "{" on this line');
      }
      if (this.#at("{")) depth++;
      if (this.#at("}")) depth--;
      this.#position++;
    } while (depth > 0);
  }

  #version(): PtxHeader["version"] {
    const token = this.#token;
    if (token.text !== ".version") {
      throw new PtxError(token.line, 'cannot read this as PTX: it must begin with a ".version" directive');
    }
    this.#take();
    const version = this.#take();
    const match = /^([0-9]+)\.([0-9]+)$/.exec(version.text);
    if (match === null) throw new PtxError(version.line, `cannot read ${quote(version)} as a PTX version such as 7.0`);
    return { major: Number(match[1]), minor: Number(match[2]), line: version.line };
  }

  #target(): PtxHeader["target"] {
    const { text, line } = this.#token;
    if (text !== ".target") throw this.#unexpected('".target"');
    this.#take();
    return { names: this.#targetNames(), line };
  }

  #targetNames(): string[] {
    const names = [this.#word()];
    while (this.#accept(",")) names.push(this.#word());
    return names;
  }

  #alias(line: number): FunctionAlias {
    const name = this.#identifier();
    this.#expect(",");
    const target = this.#identifier();
    this.#expect(";");
    return { name, target, line };
  }

  #functionHead(kind: "entry" | "func", linkage: string | undefined, line: number): FunctionDeclaration {
    const attributes: FunctionDirective[] = [];
    while (this.#token.text === ".attribute") attributes.push(...this.#attributes());
    if (kind === "entry" && this.#at("(")) throw this.#unexpected("the name of a kernel, which has no results");
    const results = this.#at("(") ? this.#parameterList() : [];
    const name = this.#identifier();
    const parameters = this.#at("(") ? this.#parameterList() : [];
    const directives = [...attributes, ...this.#functionDirectives()];
    const noReturn = directives.find(({ name }) => name === "noreturn");
    if (this.#isStrict && noReturn !== undefined && (kind === "entry" || results.length > 0)) {
      throw new PtxError(noReturn.line, 'cannot use the directive ".noreturn": only functions without results have it');
    }
    return { kind, name, linkage, results, parameters, directives, body: undefined, line };
  }

  /** `.attribute(.unified(1, 2), .managed)` */
  #attributes(): FunctionDirective[] {
    this.#take();
    return this.#attributeList();
  }

  #attributeList(): FunctionDirective[] {
    this.#expect("(");
    const attributes: FunctionDirective[] = [];
    do {
      const { line } = this.#token;
      attributes.push({ name: this.#directive(), values: [], line });
      if (this.#at("(")) this.#skipParentheses();
    } while (this.#accept(","));
    this.#expect(")");
    return attributes;
  }

  #functionDirectives(): FunctionDirective[] {
    const directives: FunctionDirective[] = [];
    while (this.#token.kind === "directive") directives.push(this.#functionDirective());
    return directives;
  }

  #functionDirective(): FunctionDirective {
    const { line } = this.#token;
    const name = this.#directive();
    const values: number[] = [];
    while (this.#token.kind === "number" || this.#token.kind === "string") {
      if (this.#token.kind === "string") this.#take();
      else values.push(this.#smallInteger());
      if (!this.#accept(",")) break;
    }
    if (name === "pragma") this.#expect(";");
    return { name, values, line };
  }

  #parameterList(): VariableDeclaration[] {
    this.#expect("(");
    const parameters: VariableDeclaration[] = [];
    while (!this.#accept(")")) {
      if (parameters.length > 0) this.#expect(",");
      const line = this.#token.line;
      const space = this.#directive();
      if (space !== "param" && space !== "reg") {
        throw new PtxError(line, `cannot declare a parameter in ".${space}": parameters are ".param"`);
      }
      parameters.push(this.#variable(space, undefined));
    }
    return parameters;
  }

  #variables(space: string, linkage: string | undefined, line: number): VariableDeclaration[] {
    if (space === "reg") throw new PtxError(line, "cannot declare registers outside a function");
    const first = this.#variable(space, linkage);
    const variables = [first];
    while (this.#accept(",")) variables.push(this.#declarator(first));
    this.#expect(";");
    return variables;
  }

  /** What precedes a variable's name, in this order: attributes, alignment, vector, type and, of a parameter, `.ptr`. */
  #variable(space: string, linkage: string | undefined): VariableDeclaration {
    const line = this.#token.line;
    let type: string | undefined;
    let vectorLength = 1;
    let alignment: number | undefined;
    let pointer = false;
    let pointee = "generic";
    let last = 0;
    while (this.#token.kind === "directive") {
      const name = this.#directive();
      const order = orderOf(name, pointer);
      if (this.#isStrict && order < last) {
        throw new PtxError(line, `cannot declare a variable with ".${name}" here: it stands further in front`);
      }
      last = order;
      if (name === "align") {
        const value = this.#alignment();
        // After ".ptr", the alignment is that of the pointer's target.
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
    if (type === undefined) throw this.#unexpected("a type");
    // Addresses of other state spaces are small numbers.
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
    const { line } = this.#token;
    const value = this.#smallInteger();
    if (value !== 0 && (value & (value - 1)) === 0) return value;
    throw new PtxError(line, `cannot align to ${value} bytes: an alignment is a power of two`);
  }

  #declarator(
    variable: Omit<VariableDeclaration, "name" | "dimensions" | "elementCount" | "initializer" | "line">,
  ): VariableDeclaration {
    const line = this.#token.line;
    const name = this.#identifier();
    const dimensions: number[] = [];
    while (this.#accept("[")) {
      // Only the first length may be omitted. An initializer or a launch determines it.
      dimensions.push(dimensions.length === 0 && this.#at("]") ? 0 : this.#smallInteger());
      this.#expect("]");
      if (dimensions.length > maximumScopeDepth) {
        throw new PtxError(line, `cannot declare "${name}": it has more than ${maximumScopeDepth} dimensions`);
      }
    }
    const depth = dimensions.length + (variable.vectorLength > 1 ? 1 : 0);
    const initializer = this.#acceptSettings(variable.type) || !this.#accept("=")
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

  /** `= { addr_mode_0 = wrap, filter_mode = linear }`: how a texture is read. Skipped. */
  #acceptSettings(type: string): boolean {
    if (!type.endsWith("ref") || !this.#at("=") || this.#peek(1).text !== "{") return false;
    this.#take();
    this.#skipBraces();
    return true;
  }

  /** Braces nest at most as deeply as the variable has dimensions. */
  #initializer(depth: number): Initializer {
    const { line } = this.#token;
    if (this.#at("{")) {
      if (depth === 0) throw this.#unexpected("a number or the address of a variable");
      this.#take();
      const elements: Initializer[] = [];
      while (!this.#accept("}")) {
        if (elements.length > 0) this.#expect(",");
        elements.push(this.#initializer(depth - 1));
      }
      return { kind: "elements", elements, line };
    }
    if (!this.#isAtConstant && this.#token.kind === "identifier") return this.#addressInitializer(undefined);
    const number = this.#constant();
    if (number.kind !== "integer" || !this.#accept("(")) return number;
    const address = this.#addressInitializer(number.value);
    this.#expect(")");
    return address;
  }

  #addressInitializer(mask: bigint | undefined): AddressInitializer {
    const { line } = this.#token;
    const isGeneric = this.#token.text === "generic" && this.#peek(1).text === "(";
    let name = isGeneric ? this.#word() : this.#identifier();
    if (isGeneric && this.#accept("(")) {
      name = this.#identifier();
      this.#expect(")");
    }
    return { kind: "addressOf", name, offset: this.#offset(), mask, line };
  }

  #skipParentheses(): void {
    this.#expect("(");
    let depth = 1;
    while (depth > 0) {
      const token = this.#take();
      if (token.kind === "punctuation" && token.text === "(") depth++;
      if (token.kind === "punctuation" && token.text === ")") depth--;
    }
  }

  #body(): Statement[] {
    const line = this.#token.line;
    this.#expect("{");
    if (++this.#scopeDepth > maximumScopeDepth) {
      throw new PtxError(line, `cannot nest scopes more than ${maximumScopeDepth} deep`);
    }
    const statements: Statement[] = [];
    while (!this.#accept("}")) this.#statement(statements);
    this.#scopeDepth--;
    return statements;
  }

  #statement(statements: Statement[]): void {
    const { kind, line } = this.#token;
    if (this.#accept(";") || this.#acceptDebugLine()) return;
    if (this.#at("{")) {
      statements.push({ kind: "block", statements: this.#body(), line });
    } else if (kind === "directive") {
      this.#bodyDirective(statements);
    } else if (kind === "identifier" && this.#peek(1).text === ":" && this.#peek(1).kind === "punctuation") {
      const name = this.#identifier();
      this.#expect(":");
      statements.push(this.#named(name, line));
    } else {
      statements.push(this.#instruction());
    }
  }

  /** What follows a name and a colon: a list, a prototype, or nothing, which makes the name a label. */
  #named(name: string, line: number): Statement {
    switch (this.#token.text) {
      case ".branchtargets":
        return { kind: "branchTargets", name, targets: this.#targets(), line };
      case ".calltargets":
        return { kind: "callTargets", name, targets: this.#targets(), line };
      case ".callprototype":
        return this.#callPrototype(name, line);
      default:
        return { kind: "label", name, line };
    }
  }

  #targets(): string[] {
    this.#take();
    const targets: string[] = [];
    do targets.push(...this.#targetRange()); while (this.#accept(","));
    this.#expect(";");
    return targets;
  }

  /** `name`, or `name<2>` for `name0` and `name1`. */
  #targetRange(): string[] {
    const { line } = this.#token;
    const name = this.#identifier();
    if (!this.#accept("<")) return [name];
    const count = this.#smallInteger();
    this.#expect(">");
    if (count > this.#tokens.length) throw new PtxError(line, `cannot find ${count} targets: the text is too short`);
    return Array.from({ length: count }, (_, index) => `${name}${index}`);
  }

  #callPrototype(name: string, line: number): CallPrototype {
    this.#take();
    const results = this.#at("(") ? this.#parameterList() : [];
    const placeholder = this.#token;
    if (this.#identifier() !== "_") {
      throw new PtxError(placeholder.line, `cannot read ${quote(placeholder)}: "_" stands for a prototype's function`);
    }
    const parameters = this.#at("(") ? this.#parameterList() : [];
    const directives = this.#functionDirectives();
    this.#expect(";");
    return { kind: "callPrototype", name, results, parameters, directives, line };
  }

  #bodyDirective(statements: Statement[]): void {
    const line = this.#token.line;
    const name = this.#directive();
    if (name === "loc") {
      this.#lineInfo.addLocation(line, this.#skipLine(line));
    } else if (name === "file") {
      this.#lineInfo.addFile(this.#skipLine(line));
    } else if (name === "pragma") {
      this.#skipPragma();
    } else if (name === "reg") {
      statements.push(this.#registers(line));
    } else if (stateSpaces.has(name)) {
      for (const variable of this.#variables(name, undefined, line)) statements.push(variable);
    } else {
      this.#skipStatement();
      statements.push({ kind: "directive", name, line });
    }
  }

  #registers(line: number): RegisterDeclaration {
    let type = this.#directive();
    // Registers have no addresses, so their alignment has no effect.
    if (type === "align") {
      this.#alignment();
      type = this.#directive();
    }
    const vectorLength = vectorLengths.get(type) ?? 1;
    if (vectorLength > 1) type = this.#directive();
    if (!scalarTypes.has(type)) {
      throw new PtxError(line, `cannot declare registers of type ".${type}": it is not a known type`);
    }
    const names: { name: string; count: number | undefined }[] = [];
    do {
      if (this.#token.text === "_") throw this.#unexpected("the name of a register");
      const name = this.#identifier();
      let count: number | undefined;
      if (this.#accept("<")) {
        count = this.#smallInteger();
        this.#expect(">");
      }
      names.push({ name, count });
    } while (this.#accept(","));
    this.#expect(";");
    return { kind: "registers", type, vectorLength, names, line };
  }

  #instruction(): Instruction {
    let predicate: Predicate | undefined;
    if (this.#accept("@")) {
      const negated = this.#accept("!");
      predicate = { name: this.#identifier(), negated };
    }
    const line = this.#token.line;
    const opcode = this.#word();
    const modifiers: string[] = [];
    while (this.#token.kind === "directive") modifiers.push(this.#directive());
    const operands: Operand[] = [];
    if (!this.#at(";")) {
      do operands.push(this.#operand(opcode === "call")); while (this.#accept(","));
    }
    this.#expect(";");
    return { kind: "instruction", opcode, modifiers, operands, predicate, line };
  }

  /** @param takesLists whether parentheses are around the arguments of a call, and not in an expression */
  #operand(takesLists: boolean): Operand {
    if (this.#at("[")) return this.#address();
    if (this.#accept("{")) {
      const elements = this.#elements("}");
      if (!this.#accept("|")) return { kind: "vector", elements };
      this.#name();
      return { kind: "texture" };
    }
    if (takesLists && this.#accept("(")) return { kind: "list", elements: this.#elements(")") };
    const operand = this.#element();
    if (operand.kind !== "name" || operand.component !== undefined) return operand;
    if (this.#at("+")) return { kind: "sum", name: operand, offset: this.#offset() };
    return this.#accept("[") ? this.#indexed(operand) : operand;
  }

  /**
   * An operand that may be an element of a vector or a list. It cannot be one of these itself, so operands do not nest
   * deeply.
   */
  #element(): Operand {
    if (this.#isAtConstant) return this.#constant();
    if (this.#accept("!")) return { kind: "not", operand: this.#name() };
    if (this.#at("-") && this.#peek(1).kind === "identifier") {
      this.#take();
      return { ...this.#name(), negated: true };
    }
    const first = this.#name();
    const isPair = first.component === undefined && this.#accept("|");
    return isPair ? { kind: "pair", first, second: this.#name() } : first;
  }

  /** `array[4]` or `array[%r1]`, behind the bracket. */
  #indexed(array: NameOperand): ElementOperand {
    if (this.#isAtConstant) {
      const index = this.#wholeNumber();
      this.#expect("]");
      return { kind: "element", array, index };
    }
    const name = this.#name();
    const offset = this.#offset();
    this.#expect("]");
    return { kind: "element", array, index: offset === 0n ? name : { kind: "sum", name, offset } };
  }

  #elements(closing: string): Operand[] {
    const elements: Operand[] = [];
    while (!this.#accept(closing)) {
      if (elements.length > 0) this.#expect(",");
      elements.push(this.#element());
    }
    return elements;
  }

  #name(): NameOperand {
    const name = this.#identifier();
    const component = this.#token.kind === "directive" ? this.#directive() : undefined;
    return { kind: "name", name, component };
  }

  get #isAtConstant(): boolean {
    return beginsConstant(this.#token, this.#peek(1));
  }

  #constant(): IntegerOperand | FloatOperand {
    return readConstant(this.#source);
  }

  #address(): AddressOperand | TextureOperand {
    this.#expect("[");
    const isAbsolute = this.#isAtConstant;
    if (!isAbsolute && this.#token.kind !== "identifier") throw this.#unexpected("an address");
    const base = isAbsolute ? undefined : { kind: "name", name: this.#identifier(), component: undefined } as const;
    const offset = isAbsolute ? this.#wholeNumber() : this.#offset();
    if (this.#at(",")) return this.#coordinates();
    if (!this.#accept("]")) throw this.#unexpected('"+" or "]"');
    return { kind: "address", base, offset };
  }

  /** What follows a texture, a surface or a tensor in brackets: a sampler and coordinates. */
  #coordinates(): TextureOperand {
    while (this.#accept(",")) {
      if (this.#accept("{")) this.#elements("}");
      else this.#element();
    }
    this.#expect("]");
    return { kind: "texture" };
  }

  /** `+4`, or nothing. */
  #offset(): bigint {
    return this.#accept("+") ? this.#wholeNumber() : 0n;
  }

  #wholeNumber(): bigint {
    const { line } = this.#token;
    const number = this.#constant();
    if (number.kind !== "integer") throw new PtxError(line, "cannot use an offset that is not an integer");
    return number.value;
  }
}

/** The place of a directive among those in front of a variable's name. */
function orderOf(name: string, isPointer: boolean): number {
  if (isPointer) return name === "align" ? 6 : 5;
  if (name === "ptr") return 4;
  return name === "align" || name === "attribute" ? 1 : vectorLengths.has(name) ? 2 : 3;
}

function quote({ kind, text }: Token): string {
  return kind === "string" ? text : `"${text}"`;
}
