/**
 * WebAssembly functions that belong to one kernel, such as the arithmetic of its matrix products. Only kernels that
 * call such functions contain them.
 *
 * @module
 */
import { CodeWriter } from "./code_writer.ts";
import type { FunctionDefinition } from "./module_encoder.ts";
import type { LocalType, ValueType } from "./opcodes.ts";

/** The functions that a kernel calls. They precede the kernel's own functions in the module. */
export class KernelFunctions {
  readonly #first: number;
  readonly #definitions: (FunctionDefinition | undefined)[] = [];
  readonly #indices = new Map<string, number>();

  /** @param first the index that the first function will have in its module */
  constructor(first: number) {
    this.#first = first;
  }

  /** Returns the index of a function. `build` creates the function when it is first needed, and may need others. */
  indexOf(name: string, build: (functions: KernelFunctions) => FunctionDefinition): number {
    const known = this.#indices.get(name);
    if (known !== undefined) return known;
    const place = this.#definitions.push(undefined) - 1;
    this.#indices.set(name, this.#first + place);
    this.#definitions[place] = build(this);
    return this.#first + place;
  }

  /** The functions, in the order of their indices. */
  get definitions(): readonly FunctionDefinition[] {
    return this.#definitions.map((definition) => definition!);
  }

  /** The index after the last function. */
  get end(): number {
    return this.#first + this.#definitions.length;
  }
}

/** Writes a function: its code, and the types of its locals. */
export class FunctionWriter {
  readonly code: CodeWriter = new CodeWriter();
  readonly #parameters: readonly ValueType[];
  readonly #results: readonly ValueType[];
  readonly #locals: LocalType[] = [];

  constructor(parameters: readonly ValueType[], results: readonly ValueType[] = []) {
    this.#parameters = parameters;
    this.#results = results;
  }

  /** Creates a local. */
  local(type: LocalType = "i32"): number {
    return this.#parameters.length + this.#locals.push(type) - 1;
  }

  /** Creates a local that holds a constant vector of four equal 32-bit numbers. */
  constant(number: number): number {
    const local = this.local("v128");
    this.code.i32x4([number, number, number, number]).set(local);
    return local;
  }

  /** Writes a loop whose counter, which `body` receives, runs from 0 to `count`. */
  loop(count: number, body: (counter: number) => void): void {
    const counter = this.local();
    this.code.i32(0).set(counter).loop();
    body(counter);
    this.code.get(counter).i32(1).ops("i32Add").tee(counter).i32(count).ops("i32LtU").brIf(0).end();
  }

  finish(): FunctionDefinition {
    return {
      type: { parameters: this.#parameters, results: this.#results },
      locals: this.#locals,
      code: this.code.finish(),
    };
  }
}
