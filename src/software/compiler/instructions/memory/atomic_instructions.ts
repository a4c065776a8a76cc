/**
 * `atom` and `red`. PTX ISA, sections 9.7.13.5 and 9.7.13.7.
 *
 * All of these instructions are sequentially consistent, which is stronger than any of them requires. An operation that
 * WebAssembly lacks is a compare-exchange loop. In `.shared` memory, plain loads and stores are enough, because only
 * one of the block's threads runs at a time and is never interrupted within an instruction.
 *
 * @module
 */
import { addressOperand, pushLocation } from "./address_checks.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { accessOrderOf, loadOp } from "./memory_instructions.ts";
import { orderBits } from "../../../abi/check_state.ts";
import { atomicShadows } from "../../checks/memory_shadows.ts";
import { canonicalizeNaN, flushSubnormal } from "../floats/float_instructions.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { type AtomicOpName, constant, inType } from "../../webassembly/opcodes.ts";
import { repeatable } from "../integers/integer_instructions.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { CodeWriter } from "../../webassembly/code_writer.ts";

/** An atomic operation on one element. */
interface Access {
  /** The local that holds the offset of the first element in linear memory. */
  readonly location: number;
  /** The distance in bytes from the first element to this element. */
  readonly offset: number;
  /** Emits code that pushes the element of the source operand `b`. */
  readonly b: () => CodeWriter;
  /** Emits code that pushes the element of the source operand `c`, which only compare-and-swap has. */
  readonly c: () => CodeWriter;
  /** The local for the element's old value, as untyped bits. */
  readonly old: number;
  /** Whether sums in global memory keep subnormal numbers, as those of bulk reductions do. Default: no. */
  readonly keepsSubnormals?: boolean;
}

/**
 * Returns the lowering of `atom`, or of `red` if there is no result, on one element or on several adjacent elements.
 */
export function atomic(hasResult: boolean): Emit {
  return (e, i) => {
    const [address, b, c] = hasResult ? i.operands.slice(1) : i.operands;
    if ((i.choices.get("operation") === "cas") !== (c !== undefined)) e.fail("it has the wrong number of operands");
    const sources = elementsOf(e, i, b);
    const results = hasResult ? elementsOf(e, i, i.operands[0]) : [];
    const bytes = i.type.bits / 8;
    const location = e.temporary("i32");
    pushLocation(e, addressOperand(e, address), {
      space: spaceOf(i),
      bytes: bytes * sources.length,
      operation: "atomic",
      order: atomicOrderOf(i, sources.length) | (hasResult ? orderBits.hasResult : 0),
    });
    e.code.set(location);
    const readsMemory = i.choices.get("operation") !== "exch";
    atomicShadows(e, { elements: sources, type: i.type, location, others: [c], readsMemory });
    const olds = sources.map((source, index) => {
      const old = e.temporary(bitsType(i).value);
      const access = {
        location,
        offset: index * bytes,
        b: repeatable(e, source, i.type),
        c: c === undefined ? () => e.code : repeatable(e, c, i.type),
        old,
      };
      if (spaceOf(i) === "shared") updateAlone(e, i, access);
      else if (directName(i) !== undefined) updateDirectly(e, i, access);
      else updateUntilAlone(e, i, access);
      return old;
    });
    if (hasResult) e.shadows?.clear(i.operands[0]);
    // Results are assigned last, because the register of a result may be an operand of a later element.
    results.forEach((result, index) => {
      e.assign(result, i.type, () => {
        e.code.get(olds[index]!);
        if (i.type.value === "f32") e.code.ops("f32ReinterpretI32");
        else if (i.type.value === "f64") e.code.ops("f64ReinterpretI64");
      });
    });
  };
}

/**
 * Emits code that updates each element of a range by the element at the same place of another one, as the instruction
 * `red` does.
 *
 * @param range the locals with the offsets of both ranges in linear memory, and with their size in bytes
 */
export function updateRange(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { to, from, bytes }: { readonly to: number; readonly from: number; readonly bytes: number },
): void {
  const { code } = e;
  const index = e.temporary("i32"), location = e.temporary("i32"), source = e.temporary(i.type.value);
  code.i32(0).set(index).block().loop().get(index).get(bytes).ops("i32GeU").brIf(1);
  code.get(to).get(index).ops("i32Add").set(location);
  code.get(from).get(index).ops("i32Add").memory(loadOp(i.type)).set(source);
  const access: Access = {
    location,
    offset: 0,
    b: () => code.get(source),
    c: () => code,
    old: e.temporary(bitsType(i).value),
    keepsSubnormals: true,
  };
  if (spaceOf(i) === "shared") updateAlone(e, i, access);
  else if (directName(i) !== undefined) {
    updateDirectly(e, i, access);
  } else updateUntilAlone(e, i, access);
  code.get(index).i32(i.type.bits / 8).ops("i32Add").set(index).br(0).end().end();
}

/** Returns the memory order of an atomic instruction. The default scope is the device. */
export function atomicOrderOf(i: ResolvedInstruction, elements: number = 1): number {
  const order = accessOrderOf(i, { isStrong: true, elements, defaults: { scope: "gpu" } });
  return isDivided(i) ? order | orderBits.divided : order;
}

/** Whether `ptxas` makes an atomic operation of a load and a store in the shared memory of another block. */
function isDivided({ choices, type }: ResolvedInstruction): boolean {
  const operation = choices.get("operation")!;
  if (type.name === "f16x2" || type.name === "bf16x2") return true;
  return type.bits === 64 && ["min", "max", "and", "or", "xor"].includes(operation);
}

function elementsOf(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  operand: ResolvedOperand | undefined,
): readonly ResolvedOperand[] {
  const vector = i.choices.get("vector");
  if (vector === undefined) return [operand!];
  const length = Number(vector.slice(1));
  if (operand?.kind !== "vector" || operand.elements.length !== length) {
    e.fail(`it needs a vector of ${length} registers`);
  }
  if (length * i.type.bits > 128) e.fail("a vector may have at most 16 bytes");
  return operand.elements;
}

/** Returns the type of untyped bits with the element's width. */
function bitsType({ type }: ResolvedInstruction): ScalarType {
  return typeNamed(`b${type.bits}`);
}

/** Returns the atomic WebAssembly instruction for an operation, or undefined if there is none. */
function directName({ type, choices }: ResolvedInstruction): AtomicOpName | undefined {
  if (type.bits === 16) return choices.get("operation") === "cas" ? "i32AtomicCompareExchange16U" : undefined;
  if (type.kind === "float") return undefined;
  const value = type.bits === 64 ? "i64" : "i32";
  switch (choices.get("operation")) {
    case "add":
      return `${value}AtomicAdd`;
    case "and":
      return `${value}AtomicAnd`;
    case "or":
      return `${value}AtomicOr`;
    case "xor":
      return `${value}AtomicXor`;
    case "exch":
      return `${value}AtomicExchange`;
    case "cas":
      return `${value}AtomicCompareExchange`;
    default:
      return undefined;
  }
}

/** Emits code that updates an element by a single atomic instruction. */
function updateDirectly(e: FunctionEmitter, i: ResolvedInstruction, { location, offset, b, c, old }: Access): void {
  e.code.get(location);
  b();
  c();
  e.code.atomic(directName(i)!, offset).set(old);
}

/** Emits code that updates an element in shared memory by a load and a store. */
function updateAlone(e: FunctionEmitter, i: ResolvedInstruction, access: Access): void {
  const { code } = e;
  const { location, offset, old } = access;
  const { bits } = i.type;
  code.get(location).memory(bits === 64 ? "i64Load" : bits === 32 ? "i32Load" : "i32Load16U", offset).set(old);
  code.get(location);
  pushUpdated(e, i, access);
  code.memory(bits === 64 ? "i64Store" : bits === 32 ? "i32Store" : "i32Store16", offset);
}

/** Emits code that updates an element by a compare-exchange loop. */
function updateUntilAlone(e: FunctionEmitter, i: ResolvedInstruction, access: Access): void {
  const { code } = e;
  const { location, offset, old } = access;
  const { bits } = i.type;
  const type = bitsType(i);
  const seen = e.temporary(type.value);
  const width = bits === 16 ? "16U" : "";
  const load: AtomicOpName = bits === 64 ? "i64AtomicLoad" : `i32AtomicLoad${width}`;
  const exchange: AtomicOpName = bits === 64 ? "i64AtomicCompareExchange" : `i32AtomicCompareExchange${width}`;
  code.get(location).atomic(load, offset).set(seen).loop();
  code.get(seen).set(old).get(location).get(old);
  pushUpdated(e, i, access);
  code.atomic(exchange, offset).tee(seen).get(old).ops(inType(type, "Ne")).brIf(0).end();
}

/** Emits code that pushes the bits of the element's new value. */
function pushUpdated(e: FunctionEmitter, i: ResolvedInstruction, access: Access): void {
  const { type } = i;
  if (type.kind !== "float") pushUpdatedInteger(e, i, access);
  else if (type.name === "f64") pushSum64(e, i, access);
  else if (type.name === "f32") pushSum32(e, i, access);
  else pushUpdatedHalves(e, i, access);
}

function pushUpdatedInteger(e: FunctionEmitter, { type, choices }: ResolvedInstruction, { b, c, old }: Access): void {
  const { code } = e;
  const signed = type.kind === "signed";
  const operation = choices.get("operation")!;
  switch (operation) {
    case "exch":
      b();
      break;
    case "cas":
      c();
      code.get(old).get(old);
      b().ops(inType(type, "Eq"), "select");
      break;
    case "min":
      code.get(old);
      b().get(old);
      b().ops(inType(type, signed ? "LtS" : "LtU"), "select");
      break;
    case "max":
      code.get(old);
      b().get(old);
      b().ops(inType(type, signed ? "GtS" : "GtU"), "select");
      break;
    case "inc":
      // `inc`: ((old >= b) ? 0 : old + 1)
      constant(code, type, 0);
      constant(code.get(old), type, 1).ops(inType(type, "Add")).get(old);
      b().ops(inType(type, "GeU"), "select");
      break;
    case "dec":
      // `dec`: ((old == 0 || old > b) ? b : old - 1)
      b();
      constant(code.get(old), type, 1).ops(inType(type, "Sub")).get(old).ops(inType(type, "Eqz")).get(old);
      b().ops(inType(type, "GtU"), "i32Or", "select");
      break;
    default:
      code.get(old);
      b().ops(inType(type, ({ add: "Add", and: "And", or: "Or", xor: "Xor" } as const)[operation]!));
  }
}

/**
 * Emits code that pushes a value that differs between shared and global memory; `push` emits the code for one of them.
 * On an H200, additions to shared memory behave like the instruction `add`. Additions to global memory are executed in
 * the cache, and treat NaNs and subnormal numbers differently.
 */
function pushByMemory(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { location, push }: { location: number; push: (isShared: boolean) => void },
): void {
  const { code } = e;
  const space = spaceOf(i);
  if (space !== "generic") return push(space === "shared");
  code.get(location);
  e.getFixed("shared").ops("i32Sub");
  e.getFixed("sharedBytes");
  code.ops("i32LtU").if(i.type.value);
  push(true);
  code.else();
  push(false);
  code.end();
}

/**
 * Emits code that pushes the sum for `.f64`. In global memory, a NaN of the added number takes precedence over a NaN of
 * the old value, and stays signaling. In shared memory, the old value's NaN takes precedence and is made quiet.
 */
function pushSum64(e: FunctionEmitter, i: ResolvedInstruction, { b, old, location }: Access): void {
  const { code } = e;
  const first = e.temporary("f64"), second = e.temporary("f64");
  code.get(old).ops("f64ReinterpretI64").set(first);
  b().set(second);
  const pushIsNaN = (local: number) => code.get(local).get(local).ops("f64Ne");
  pushByMemory(e, i, {
    location,
    push(isShared) {
      if (!isShared) code.get(second).get(first);
      code.get(first).get(second).ops("f64Add");
      canonicalizeNaN(e, i.type, [second, first]);
      if (isShared) return;
      pushIsNaN(first).ops("select");
      pushIsNaN(second).ops("select");
    },
  });
  code.ops("i64ReinterpretF64");
}

/**
 * Emits code that pushes the sum for `.f32`. In global memory, subnormal operands are treated as zeros, and subnormal
 * results become zeros. In shared memory, subnormal numbers are kept.
 */
function pushSum32(e: FunctionEmitter, i: ResolvedInstruction, { b, old, location, keepsSubnormals }: Access): void {
  const { code } = e;
  pushByMemory(e, i, {
    location,
    push(isShared) {
      const flush = () => {
        if (!isShared && keepsSubnormals !== true) flushSubnormal(e);
      };
      code.get(old).ops("f32ReinterpretI32");
      flush();
      b();
      flush();
      code.ops("f32Add");
      flush();
    },
  });
  canonicalizeNaN(e, i.type, []);
  code.ops("i32ReinterpretF32");
}

/**
 * Emits code that pushes the new value of one or two 16-bit floats. Sums are first rounded to 32 bits and then to 16,
 * which gives the correctly rounded sum.
 */
function pushUpdatedHalves(e: FunctionEmitter, i: ResolvedInstruction, { b, old }: Access): void {
  const { code } = e;
  const isBrain = i.type.name.startsWith("bf16");
  for (let first = 0; first < i.type.bits; first += 16) {
    const [x, y] = [() => code.get(old), b].map((push) => {
      const number = e.temporary("f32");
      push();
      if (isBrain) {
        if (first === 0) code.i32(16).ops("i32Shl");
        else code.i32(-0x1_0000).ops("i32And");
        code.ops("f32ReinterpretI32");
      } else {
        if (first > 0) code.i32(first).ops("i32ShrU");
        e.callHelper("halfToSingle");
      }
      code.set(number);
      return number;
    }) as [number, number];
    pushHalf(e, i, { x, y });
    roundToHalf(e, isBrain);
    if (first > 0) code.i32(first).ops("i32Shl", "i32Or");
  }
}

/**
 * Emits code that pushes the sum, the minimum or the maximum of two numbers. The minimum or maximum of a NaN and
 * another number is the other number.
 */
function pushHalf({ code }: FunctionEmitter, i: ResolvedInstruction, { x, y }: { x: number; y: number }): void {
  const operation = i.choices.get("operation");
  if (operation === "add") {
    code.get(x).get(y).ops("f32Add");
    return;
  }
  code.get(x).get(y).get(x).get(y).ops(operation === "min" ? "f32Min" : "f32Max");
  code.get(x).get(x).ops("f32Ne", "select").get(y).get(y).ops("f32Ne", "select");
}

/** Emits code that pops a 32-bit float, and pushes the bits of the nearest 16-bit float, or 0x7fff for a NaN. */
function roundToHalf(e: FunctionEmitter, isBrain: boolean): void {
  const { code } = e;
  const number = e.temporary("f32"), bits = e.temporary("i32");
  code.set(number);
  if (isBrain) {
    // Round to nearest even: add half of the last kept bit's value if that bit is 1, and 1 less than half if the bit is
    // 0.
    code.get(number).ops("i32ReinterpretF32").tee(bits).i32(0x7fff).ops("i32Add");
    code.get(bits).i32(16).ops("i32ShrU").i32(1).ops("i32And", "i32Add").i32(16).ops("i32ShrU");
  } else {
    code.get(number).ops("f64PromoteF32");
    e.callHelper("doubleToHalf");
  }
  code.i32(0x7fff).get(number).get(number).ops("f32Eq", "select");
}
