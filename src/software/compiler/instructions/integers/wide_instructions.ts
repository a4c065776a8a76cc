/**
 * Loads, stores, moves and atomics of 128 bits. PTX ISA, sections 9.7.9.8 to 9.7.9.11, 9.7.9.3 and 9.7.13.5.
 *
 * A 128-bit register is represented as a vector of two 64-bit registers: the low half, then the high half.
 *
 * @module
 */
import { addressOperand, pushLocation } from "../memory/address_checks.ts";
import { type ResolvedOperand, spaceOf } from "../../../../ptx/instructions/resolved_instruction.ts";
import { atomicOrderOf } from "../memory/atomic_instructions.ts";
import { atomicShadows } from "../../checks/memory_shadows.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { CompiledInstruction, Emit } from "../instruction_form.ts";
import { repeatable } from "./integer_instructions.ts";
import { loadElements, storeElements } from "../memory/memory_instructions.ts";
import { loadAtomically, storeAtomically, whileLocked } from "../memory/strong_accesses.ts";
import { move } from "../move_instructions.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const b64 = typeNamed("b64");

type Vector = Extract<ResolvedOperand, { kind: "vector" }>;

/** Returns the 64-bit halves of a 128-bit operand, which is a register or a literal. */
function halvesOf(e: FunctionEmitter, operand: ResolvedOperand | undefined): Vector {
  if (operand?.kind === "vector" && operand.isWide) return operand;
  if (operand?.kind !== "integer") e.fail("it needs a register of 128 bits");
  // Literals have 64 bits, and are sign-extended to 128 bits.
  const high = { kind: "integer", value: operand.value < 0n ? -1n : 0n } as const;
  return { kind: "vector", elements: [operand, high], isWide: true };
}

/** Returns the instruction with the operand at `index` replaced by a vector of the operand's two 64-bit halves. */
function onHalves(e: FunctionEmitter, i: CompiledInstruction, index: number): CompiledInstruction {
  const operands = i.operands.with(index, halvesOf(e, i.operands[index]));
  return { ...i, type: b64, sourceType: b64, choices: new Map(i.choices).set("vector", "v2"), operands };
}

/** Emits code for `ld.b128`. */
export const loadWide: Emit = (e, i) => loadElements(e, onHalves(e, i, 0), { isWide: true });

/** Emits code for `st.b128`. */
export const storeWide: Emit = (e, i) => storeElements(e, onHalves(e, i, 1), { isWide: true });

/**
 * Emits code for `mov.b128`, which copies a register, or moves a value between a register and a vector of two or four
 * elements.
 */
export const moveWide: Emit = (e, i) => {
  const [destination, source] = i.operands.map((operand) => partsOf(e, operand)) as [
    ResolvedOperand[],
    ResolvedOperand[],
  ];
  for (const half of [0, 1]) {
    move(e, { ...i, type: b64, sourceType: b64, operands: [destination[half]!, source[half]!] });
  }
};

/** Returns the 64-bit halves of an operand. Each half may be a vector of two elements. */
function partsOf(e: FunctionEmitter, operand: ResolvedOperand): ResolvedOperand[] {
  if (operand.kind !== "vector") return [...halvesOf(e, operand).elements];
  const { elements } = operand;
  if (elements.length === 2) return [...elements];
  if (elements.length !== 4) e.fail("a vector in place of 128 bits must have two or four elements");
  return [elements.slice(0, 2), elements.slice(2)].map((pair) => ({ kind: "vector", elements: pair }));
}

/**
 * Emits code for `atom.exch.b128` and `atom.cas.b128`. In `.shared` memory, no lock is needed, because only one of the
 * block's threads runs at a time and is never interrupted within an instruction.
 */
export const atomicWide: Emit = (e, i) => {
  const { code } = e;
  const [destination, address, b, c] = i.operands;
  if ((i.choices.get("operation") === "cas") !== (c !== undefined)) e.fail("it has the wrong number of operands");
  const location = e.temporary("i32");
  pushLocation(e, addressOperand(e, address), {
    space: spaceOf(i),
    bytes: 16,
    operation: "atomic",
    order: atomicOrderOf(i),
  });
  code.set(location);
  const { elements } = halvesOf(e, b);
  atomicShadows(e, { elements, type: b64, location, others: [c], readsMemory: c !== undefined });
  e.shadows?.clear(destination);
  const old = [e.temporary("i64"), e.temporary("i64")] as const;
  const pushes = (operand: ResolvedOperand | undefined) =>
    halvesOf(e, operand).elements.map((half) => repeatable(e, half, b64));
  const stored = pushes(c ?? b), compared = c === undefined ? undefined : pushes(b);
  const update = () => {
    old.forEach((half, index) => loadAtomically(code.get(location), b64, 8 * index).set(half));
    if (compared !== undefined) {
      code.get(old[0]);
      compared[0]!().ops("i64Eq").get(old[1]);
      compared[1]!().ops("i64Eq", "i32And").if();
    }
    stored.forEach((push, index) => {
      code.get(location);
      storeAtomically(push(), b64, 8 * index);
    });
    if (compared !== undefined) code.end();
  };
  if (spaceOf(i) === "shared") update();
  else whileLocked(e, location, update);
  if (destination?.kind === "sink") return;
  halvesOf(e, destination).elements.forEach((half, index) => e.assign(half, b64, () => code.get(old[index]!)));
};
