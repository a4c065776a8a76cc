import { DeclarationParser } from "./declarations.ts";
import { InstructionParser } from "./instructions.ts";
import { LineInfo } from "../line_info.ts";
import {
  type FunctionAlias,
  type FunctionDeclaration,
  PtxError,
  type PtxHeader,
  type PtxModule,
  type RegisterDeclaration,
  type Statement,
  type VariableDeclaration,
} from "../syntax.ts";
import { type ParseOptions, quote, TokenReader } from "./token_reader.ts";

const stateSpaces: ReadonlySet<string> = new Set(["reg", "param", "global", "shared", "local", "const"]);
const linkages: ReadonlySet<string> = new Set(["visible", "extern", "weak", "common"]);
const maximumScopeDepth = 200;

/**
 * Parses PTX text. Instructions are parsed syntactically, so unknown opcodes and modifiers are accepted. Throws
 * {@linkcode PtxError} if the text cannot be parsed.
 *
 * @param checkHeader called with the header before the rest is parsed
 */
export function parsePtx(
  text: string,
  checkHeader?: (header: PtxHeader) => void,
  options: ParseOptions = {},
): PtxModule {
  const parser = new Parser(text, { ...options, isStrict: true });
  try {
    return parser.module(checkHeader);
  } catch (error) {
    throw parser.explainCutOff(error);
  }
}

/**
 * Parses the heads (names, parameters and directives) of the kernels that PTX text defines. Skips everything else,
 * including bodies, by matching braces.
 */
export function parseKernelHeads(text: string): FunctionDeclaration[] {
  const parser = new Parser(text, { isStrict: false });
  try {
    return parser.kernelHeads();
  } catch (error) {
    throw parser.explainCutOff(error);
  }
}

class Parser {
  readonly #textLength: number;
  readonly #reader: TokenReader;
  readonly #declarations: DeclarationParser;
  readonly #instructions: InstructionParser;
  readonly #lineInfo = new LineInfo();
  #scopeDepth = 0;
  /** The name of the function that is being parsed, if any. */
  #function: string | undefined;

  constructor(text: string, options: ParseOptions & { isStrict: boolean }) {
    this.#textLength = text.length;
    this.#reader = new TokenReader(text, options);
    this.#declarations = new DeclarationParser(this.#reader, options);
    this.#instructions = new InstructionParser(this.#reader);
  }

  module(checkHeader?: (header: PtxHeader) => void): PtxModule {
    const header = { version: this.#version(), target: this.#target() };
    const { major, minor } = header.version;
    const isBefore = (otherMajor: number, otherMinor: number) => {
      return major < otherMajor || (major === otherMajor && minor < otherMinor);
    };
    this.#reader.hasConstantBanks = isBefore(2, 2);
    checkHeader?.(header);
    const functions: FunctionDeclaration[] = [];
    const variables: VariableDeclaration[] = [];
    const registers: RegisterDeclaration[] = [];
    const aliases: FunctionAlias[] = [];
    let linkage: string | undefined;
    while (this.#reader.token.kind !== "end") {
      if (this.#reader.accept(";") || this.#acceptDebugLine()) continue;
      const token = this.#reader.token;
      const name = this.#reader.directive();
      if (linkages.has(name)) {
        if (linkage !== undefined) throw new PtxError(token.line, `cannot declare both ".${linkage}" and ".${name}"`);
        linkage = name;
        continue;
      }
      if (name === "entry" || name === "func") {
        if (linkage === "common") throw new PtxError(token.line, 'cannot declare a function as ".common"');
        const head = this.#declarations.functionHead(name, linkage, token.line);
        if (this.#reader.at("{")) this.#lineInfo.beginFunction(this.#reader.token.line);
        this.#function = head.name;
        const body = this.#endsPrototype(name) ? undefined : this.#body();
        functions.push(name === "entry" && isBefore(1, 4) ? withParametersOfBody(head, body) : { ...head, body });
        this.#function = undefined;
      } else if (name === "reg") {
        registers.push(this.#declarations.registers(token.line));
      } else if (stateSpaces.has(name)) {
        for (const variable of this.#declarations.variables(name, linkage)) variables.push(variable);
      } else if (name === "tex" && isBefore(1, 5)) {
        for (const texture of this.#declarations.textures(linkage)) variables.push(texture);
      } else if (name === "tex") {
        throw new PtxError(
          token.line,
          'cannot use the directive ".tex": since PTX 1.5, textures are ".global .texref"',
        );
      } else if (name === "address_size") {
        const size = this.#reader.take();
        if (size.text !== "64") {
          throw new PtxError(size.line, `cannot use an address size of ${quote(size)}: only 64 is supported`);
        }
      } else if (name === "target") {
        // Only the first `.target` directive is used.
        this.#targetNames();
      } else if (name === "file") {
        this.#lineInfo.addFile(this.#reader.skipLine(token.line));
      } else if (name === "pragma") {
        this.#skipPragma();
      } else if (name === "section") {
        while (!this.#reader.at("{")) this.#reader.take();
        this.#reader.skipBraces();
      } else if (name === "alias") {
        aliases.push(this.#alias(token.line));
      } else {
        throw new PtxError(token.line, `cannot use the directive ".${name}": it is not known at module scope`);
      }
      linkage = undefined;
    }
    return { ...header, functions, variables, registers, aliases, lineInfo: this.#lineInfo };
  }

  /**
   * Whether the head of a function is only a prototype. Consumes the semicolon after it, which early compilers left out
   * after the prototype of a `.func`.
   */
  #endsPrototype(kind: "entry" | "func"): boolean {
    if (this.#reader.accept(";")) return true;
    const isAtEnd = this.#declarations.isAtDeclaration || this.#isAtDebugLine || this.#reader.token.kind === "end";
    return kind === "func" && isAtEnd;
  }

  kernelHeads(): FunctionDeclaration[] {
    const heads: FunctionDeclaration[] = [];
    const hasParametersInBody = this.#reader.token.text === ".version" && /^1\.[0-3]$/.test(this.#reader.peek(1).text);
    let linkage: string | undefined;
    while (this.#reader.token.kind !== "end") {
      const token = this.#reader.token;
      if (this.#reader.at("{")) {
        this.#reader.skipBraces();
        continue;
      }
      this.#reader.take();
      if (token.kind === "directive" && linkages.has(token.text.slice(1))) {
        linkage = token.text.slice(1);
      } else if (token.kind === "directive" && token.text === ".entry") {
        const head = this.#declarations.functionHead("entry", linkage, token.line);
        if (!this.#reader.accept(";")) {
          if (!this.#reader.at("{")) throw this.#reader.unexpected('"{" or ";" after the head of a kernel');
          heads.push(hasParametersInBody ? { ...head, parameters: this.#parametersInBody() } : head);
        }
      } else {
        linkage = undefined;
      }
    }
    return heads;
  }

  /** Skips the body of a kernel, and returns its parameters, which PTX before 1.4 declares there. */
  #parametersInBody(): VariableDeclaration[] {
    const parameters: VariableDeclaration[] = [];
    let depth = 0;
    do {
      const { text } = this.#reader.take();
      if (text === "{") depth++;
      else if (text === "}") depth--;
      else if (text === ".param" && depth === 1) parameters.push(...this.#declarations.variables("param", undefined));
    } while (depth > 0);
    return parameters;
  }

  /**
   * Returns `error`, a thrown value. If the text ends in the middle of a function, adds a note about the truncation to
   * the error's message. Throws {@linkcode PtxError} for an unterminated comment in the rest of the text instead, which
   * may be the cause.
   */
  explainCutOff(error: unknown): unknown {
    if (!(error instanceof PtxError)) return error;
    const isCutOff = !this.#reader.drain("}") && this.#function !== undefined;
    if (isCutOff) error.message += `; the text ends in the middle of "${this.#function}": it may have been cut off`;
    return error;
  }

  get #isAtDebugLine(): boolean {
    return this.#reader.at("@") && this.#reader.peek(1).text === "@" && this.#reader.peek(2).text === "DWARF";
  }

  /** Skips a line such as `@@DWARF .byte 0x2b`: debug information in the form that compilers used before `.section`. */
  #acceptDebugLine(): boolean {
    if (!this.#isAtDebugLine) return false;
    this.#reader.skipLine(this.#reader.token.line);
    return true;
  }

  /**
   * Skips the strings of a `.pragma`, and requires its semicolon. If the semicolon is missing, skipping to the next one
   * would also skip an instruction.
   */
  #skipPragma(): void {
    do {
      if (this.#reader.token.kind !== "string") throw this.#reader.unexpected("a string");
      this.#reader.take();
    } while (this.#reader.accept(","));
    this.#reader.expect(";");
  }

  #version(): PtxHeader["version"] {
    const token = this.#reader.token;
    if (token.text !== ".version") {
      throw new PtxError(token.line, 'cannot read this as PTX: it must begin with a ".version" directive');
    }
    this.#reader.take();
    const version = this.#reader.take();
    const match = /^([0-9]+)\.([0-9]+)$/.exec(version.text);
    if (match === null) throw new PtxError(version.line, `cannot read ${quote(version)} as a PTX version such as 7.0`);
    return { major: Number(match[1]), minor: Number(match[2]), line: version.line };
  }

  #target(): PtxHeader["target"] {
    const { text, line } = this.#reader.token;
    if (text !== ".target") throw this.#reader.unexpected('".target"');
    this.#reader.take();
    return { names: this.#targetNames(), line };
  }

  #targetNames(): string[] {
    const names = [this.#reader.word()];
    while (this.#reader.accept(",")) names.push(this.#reader.word());
    return names;
  }

  #alias(line: number): FunctionAlias {
    const name = this.#reader.identifier();
    this.#reader.expect(",");
    const target = this.#reader.identifier();
    this.#reader.expect(";");
    return { name, target, line };
  }

  #body(): Statement[] {
    const line = this.#reader.token.line;
    this.#reader.expect("{");
    if (++this.#scopeDepth > maximumScopeDepth) {
      throw new PtxError(line, `cannot nest scopes more than ${maximumScopeDepth} deep`);
    }
    const statements: Statement[] = [];
    while (!this.#reader.accept("}")) this.#statement(statements);
    this.#scopeDepth--;
    return statements;
  }

  #statement(statements: Statement[]): void {
    const { kind, line } = this.#reader.token;
    if (this.#reader.accept(";") || this.#acceptDebugLine()) return;
    if (this.#reader.at("{")) {
      statements.push({ kind: "block", statements: this.#body(), line });
    } else if (kind === "directive") {
      this.#bodyDirective(statements);
    } else if (
      kind === "identifier" && this.#reader.peek(1).text === ":" && this.#reader.peek(1).kind === "punctuation"
    ) {
      const name = this.#reader.identifier();
      this.#reader.expect(":");
      statements.push(this.#named(name, line));
    } else {
      statements.push(this.#instructions.instruction());
    }
  }

  /** Parses the statement that begins with a name and a colon: a list of targets, a prototype, or otherwise a label. */
  #named(name: string, line: number): Statement {
    switch (this.#reader.token.text) {
      case ".branchtargets":
        return { kind: "branchTargets", name, targets: this.#targets(), line };
      case ".calltargets":
        return { kind: "callTargets", name, targets: this.#targets(), line };
      case ".callprototype":
        return this.#declarations.callPrototype(name, line);
      default:
        return { kind: "label", name, line };
    }
  }

  #targets(): string[] {
    this.#reader.take();
    const targets: string[] = [];
    do targets.push(...this.#targetRange()); while (this.#reader.accept(","));
    this.#reader.expect(";");
    return targets;
  }

  /** Parses one name in a list of targets: `name`, or `name<2>`, which stands for `name0` and `name1`. */
  #targetRange(): string[] {
    const { line } = this.#reader.token;
    const name = this.#reader.identifier();
    if (!this.#reader.accept("<")) return [name];
    const count = this.#reader.smallInteger();
    this.#reader.expect(">");
    if (count > this.#textLength) {
      throw new PtxError(line, `cannot find ${count} targets: the text is too short`);
    }
    return Array.from({ length: count }, (_, index) => `${name}${index}`);
  }

  #bodyDirective(statements: Statement[]): void {
    const line = this.#reader.token.line;
    const name = this.#reader.directive();
    if (name === "loc") {
      this.#lineInfo.addLocation(line, this.#reader.skipLine(line));
    } else if (name === "file") {
      this.#lineInfo.addFile(this.#reader.skipLine(line));
    } else if (name === "pragma") {
      this.#skipPragma();
    } else if (name === "reg") {
      statements.push(this.#declarations.registers(line));
    } else if (stateSpaces.has(name)) {
      for (const variable of this.#declarations.variables(name, undefined)) statements.push(variable);
    } else {
      this.#reader.skipStatement();
      statements.push({ kind: "directive", name, line });
    }
  }
}

/** Returns a kernel with the parameters that its body declares: before PTX 1.4, parameters are declared in the body. */
function withParametersOfBody(head: FunctionDeclaration, body: readonly Statement[] | undefined): FunctionDeclaration {
  const isParameter = (statement: Statement) => statement.kind === "variable" && statement.space === "param";
  const parameters = body?.filter((statement) => statement.kind === "variable").filter(isParameter) ?? [];
  return { ...head, parameters, body: body?.filter((statement) => !isParameter(statement)) };
}
