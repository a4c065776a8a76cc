/**
 * Parses instructions and their operands syntactically, without checking opcodes, modifiers or types.
 *
 * @module
 */
import type {
  AddressOperand,
  CoordinatesOperand,
  ElementOperand,
  Instruction,
  NameOperand,
  Operand,
  Predicate,
} from "../syntax.ts";
import type { TokenReader } from "./token_reader.ts";

/** Parses instructions. */
export class InstructionParser {
  readonly #reader: TokenReader;

  constructor(reader: TokenReader) {
    this.#reader = reader;
  }

  instruction(): Instruction {
    let predicate: Predicate | undefined;
    if (this.#reader.accept("@")) {
      const negated = this.#reader.accept("!");
      predicate = { name: this.#reader.identifier(), negated };
    }
    const line = this.#reader.token.line;
    const opcode = this.#reader.word();
    const modifiers: string[] = [];
    while (this.#reader.token.kind === "directive") {
      const modifier = this.#reader.directive();
      modifiers.push(modifier);
      if (modifier === "const") this.#reader.skipConstantBank();
    }
    const operands: Operand[] = [];
    if (!this.#reader.at(";")) {
      do operands.push(this.#operand(opcode === "call")); while (this.#reader.accept(","));
    }
    this.#reader.expect(";");
    return { kind: "instruction", opcode, modifiers, operands, predicate, line };
  }

  /**
   * @param takesLists whether an opening parenthesis begins the results or arguments of a call, rather than a constant
   * expression
   */
  #operand(takesLists: boolean): Operand {
    if (this.#reader.at("[")) return this.#address();
    if (this.#reader.accept("{")) {
      const vector = { kind: "vector", elements: this.#elements("}") } as const;
      return this.#reader.accept("|") ? { kind: "pair", first: vector, second: this.#name() } : vector;
    }
    if (takesLists && this.#reader.accept("(")) return { kind: "list", elements: this.#elements(")") };
    const operand = this.#element();
    if (operand.kind !== "name" || operand.component !== undefined) return operand;
    if (this.#reader.at("+")) return { kind: "sum", name: operand, offset: this.#reader.offset() };
    return this.#reader.accept("[") ? this.#indexed(operand) : operand;
  }

  /**
   * Parses an operand that may be an element of a vector or a list. Elements cannot be vectors or lists, which bounds
   * the nesting.
   */
  #element(): Operand {
    if (this.#reader.isAtConstant) return this.#reader.constant();
    if (this.#reader.accept("!")) return { kind: "not", operand: this.#name() };
    if (this.#reader.at("-") && this.#reader.peek(1).kind === "identifier") {
      this.#reader.take();
      return { ...this.#name(), negated: true };
    }
    const first = this.#name();
    const isPair = first.component === undefined && this.#reader.accept("|");
    return isPair ? { kind: "pair", first, second: this.#name() } : first;
  }

  /** Parses the index of `array[4]` or `array[%r1]`, after the opening bracket. */
  #indexed(array: NameOperand): ElementOperand {
    if (this.#reader.isAtConstant) {
      const index = this.#reader.wholeNumber();
      this.#reader.expect("]");
      return { kind: "element", array, index };
    }
    const name = this.#name();
    const offset = this.#reader.offset();
    this.#reader.expect("]");
    return { kind: "element", array, index: offset === 0n ? name : { kind: "sum", name, offset } };
  }

  #elements(closing: string): Operand[] {
    const elements: Operand[] = [];
    while (!this.#reader.accept(closing)) {
      if (elements.length > 0) this.#reader.expect(",");
      elements.push(this.#element());
    }
    return elements;
  }

  #name(): NameOperand {
    const name = this.#reader.identifier();
    const component = this.#reader.token.kind === "directive" ? this.#reader.directive() : undefined;
    return { kind: "name", name, component };
  }

  #address(): AddressOperand | CoordinatesOperand {
    this.#reader.expect("[");
    const isAbsolute = this.#reader.isAtConstant;
    if (!isAbsolute && this.#reader.token.kind !== "identifier") throw this.#reader.unexpected("an address");
    const base = isAbsolute
      ? undefined
      : { kind: "name", name: this.#reader.identifier(), component: undefined } as const;
    const offset = isAbsolute ? this.#reader.wholeNumber() : this.#reader.offset();
    if (base !== undefined && offset === 0n && this.#reader.at(",")) return this.#coordinates(base);
    if (!this.#reader.accept("]")) throw this.#reader.unexpected('"+" or "]"');
    return { kind: "address", base, offset };
  }

  /** Parses the sampler and the coordinates that follow a texture, surface or tensor in brackets. */
  #coordinates(base: NameOperand): CoordinatesOperand {
    const parts: Operand[] = [];
    while (this.#reader.accept(",")) {
      parts.push(
        this.#reader.accept("{") ? { kind: "vector", elements: this.#elements("}") } : this.#element(),
      );
    }
    this.#reader.expect("]");
    return { kind: "coordinates", base, parts };
  }
}
