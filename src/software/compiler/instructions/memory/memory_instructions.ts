/**
 * Loads, stores, address conversions and cache hints, PTX ISA, sections 9.7.9.8 to 9.7.9.20, and the memory orders of
 * accesses and fences, chapter 8. There are no caches, so hints have no effect.
 *
 * @module
 */
import { orderBits, orderCountShift } from "../../../abi/check_state.ts";
import {
  type ResolvedAddress,
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { addressOperand, addressOrElement, pushLocation } from "./address_checks.ts";
import {
  addressBase,
  localAddressBase,
  parameterAddressBase,
  sharedAddressBase,
  sharedSpan,
} from "../../../abi/addresses.ts";
import { loadShadows, storeShadows } from "../../checks/memory_shadows.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import { isPrivate, loadAtomically, storeAtomically, whileLocked } from "./strong_accesses.ts";
import { imageAddressGlobal } from "../../helpers/helper_functions.ts";

import type { Emit } from "../instruction_form.ts";
import { mayHave } from "../../../../ptx/instructions/instruction_traits.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import type { MemoryOpName } from "../../webassembly/opcodes.ts";
import { constantOf, u32 } from "../integers/integer_instructions.ts";

const u64 = typeNamed("u64");

/** Emits code for `ld`. */
export const load: Emit = (e, i) => loadElements(e, i);

/**
 * Emits code that loads the elements of `ld`.
 *
 * @param isWide whether the elements are the halves of 128 bits, which a strong access loads atomically as a whole
 */
export function loadElements(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { isWide = false }: { readonly isWide?: boolean } = {},
): void {
  const [destination, source] = i.operands;
  const address = addressOrElement(e, source);
  const elements = vectorElements(e, i, destination);
  const bytes = i.type.bits / 8;
  const space = spaceOf(i);
  if (space === "param" && address.base?.kind === "variable" && !address.base.isInFrame) {
    elements.forEach((element, index) => loadParameter(e, i, { address, element, skip: index * bytes }));
    e.shadows?.clear(destination);
    return;
  }
  const location = e.temporary("i32");
  const isStrong = mayHave(i, "observes");
  const order = accessOrderOf(i, { isStrong, elements: elements.length }) |
    (e.pollingLoads.has(i) ? orderBits.polls : 0);
  pushLocation(e, address, { space, bytes: bytes * elements.length, operation: "read", isStrong, order });
  e.code.set(location);
  const isAtomic = isStrong && !isPrivate(address);
  const push = (index: number) => {
    e.code.get(location);
    if (isAtomic) loadAtomically(e.code, i.type, index * bytes);
    else e.code.memory(loadOp(i.type), index * bytes);
  };
  if (isAtomic && isWide && space !== "shared") {
    const halves = elements.map(() => e.temporary(i.type.value));
    whileLocked(e, location, () => {
      halves.forEach((half, index) => {
        push(index);
        e.code.set(half);
      });
    });
    elements.forEach((element, index) => e.assign(element, i.type, () => e.code.get(halves[index]!)));
  } else {
    elements.forEach((element, index) => e.assign(element, i.type, () => push(index), { wide: true }));
  }
  if (space === "const") e.shadows?.clear(destination);
  else loadShadows(e, { elements, type: i.type, location });
}

/** Emits code for `st`. */
export const store: Emit = (e, i) => storeElements(e, i);

/**
 * Emits code that stores the elements of `st`.
 *
 * @param isWide whether the elements are the halves of 128 bits, which a strong access stores atomically as a whole
 */
export function storeElements(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { isWide = false }: { readonly isWide?: boolean } = {},
): void {
  const [destination, source] = i.operands;
  const elements = vectorElements(e, i, source);
  const bytes = i.type.bits / 8;
  const location = e.temporary("i32");
  const address = addressOrElement(e, destination);
  if (address.base?.kind === "variable" && address.base.space === "param" && !address.base.isInFrame) {
    e.fail("a kernel's parameters are read-only");
  }
  const isStrong = i.form.traits.isPlainStore !== true;
  const order = accessOrderOf(i, { isStrong, elements: elements.length }) | orderBits.immediate;
  const space = spaceOf(i);
  pushLocation(e, address, { space, bytes: bytes * elements.length, operation: "write", isStrong, order });
  e.code.set(location);
  const isAtomic = isStrong && !isPrivate(address);
  const storeAll = () => {
    elements.forEach((element, index) => {
      e.code.get(location);
      e.push(element, i.type, { wide: true });
      if (isAtomic) storeAtomically(e.code, i.type, index * bytes);
      else e.code.memory(storeOp(i.type), index * bytes);
    });
  };
  if (isAtomic && isWide && space !== "shared") whileLocked(e, location, storeAll);
  else storeAll();
  storeShadows(e, { elements, type: i.type, location });
}

/** Returns the lowering of `cvta` or `cvta.to`. */
export function convertAddress(operation: "i64Add" | "i64Sub"): Emit {
  return (e, i) => {
    const space = spaceOf(i);
    const source = i.operands[1];
    const variable = source?.kind === "sum" ? source.variable : source;
    if (variable?.kind === "variable" && variable.space !== space) {
      e.fail(`"${variable.name}" is in ".${variable.space}"`);
    }
    e.assign(i.operands[0], u64, () => {
      e.push(source, u64);
      if (space === "shared" || space === "local") e.code.i64(spaceBase(space)).ops(operation);
      // The `.param` address of a variable in a frame is already generic.
      if (space === "param" && operation === "i64Add") addWhereSmall(e);
      if (space === "param" && operation === "i64Sub") e.code.i64(0xffff_ffffn).ops("i64And");
    });
  };
}

/**
 * Emits code that converts an address in `.param` on the stack to a generic address, by adding the base address of the
 * kernel's parameters unless the address is already generic.
 */
function addWhereSmall(e: FunctionEmitter): void {
  const address = e.temporary("i64");
  e.code.set(address).get(address).i64(parameterAddressBase).ops("i64Add").get(address);
  e.code.get(address).i64(32n).ops("i64ShrU", "i64Eqz", "select");
}

/** Emits code for `isspacep`. */
export const isInSpace: Emit = (e, i) => {
  e.assign(i.operands[0], typeNamed("pred"), () => {
    const space = spaceOf(i);
    const address = e.temporary("i64");
    e.push(i.operands[1], u64);
    e.code.set(address);
    if (space === "const") return pushIsConstant(e, address);
    e.code.get(address).i64(32n).ops("i64ShrU").i64(spaceBase(space) >> 32n).ops("i64Eq");
    if (space === "shared" && i.choices.get("space") !== "shared::cluster" && e.sizes.usesClusterMemory) {
      e.code.get(address).ops("i32WrapI64");
      e.getFixed("clusterBase").ops("i32Xor").i32(Math.log2(sharedSpan.byteLength)).ops("i32ShrU", "i32Eqz", "i32And");
    }
    if (space === "global" && e.sizes.constants.byteLength > 0) {
      pushIsConstant(e, address);
      e.code.ops("i32Eqz", "i32And");
    }
  });
};

/**
 * Emits code that pushes whether an address is in `.const` memory. Constants are in the module's image, like other
 * variables, but in a separate range.
 */
function pushIsConstant(e: FunctionEmitter, address: number): void {
  const { offset, byteLength } = e.sizes.constants;
  e.code.get(address).globalGet(imageAddressGlobal).i64(BigInt(offset)).ops("i64Add", "i64Sub");
  e.code.i64(BigInt(byteLength)).ops("i64LtU");
}

/** Emits code for `membar` and `fence`. */
export const fence: Emit = (e, i) => {
  e.code.atomicFence();
  const order = i.form.traits.isBetweenProxies === true && i.choices.get("space") !== "global"
    ? orderBits.proxy
    : fenceOrderOf(i);
  if (order !== undefined) pushOrder(e, order);
};

/** Emits code that notifies the race checker of an operation that orders the accesses of a thread. */
export function pushOrder(e: FunctionEmitter, order: number): void {
  if (!e.options.kernelChecks.has("race")) return;
  e.pushPlace().i32(order);
  e.callHelper("order");
  e.noteOrder(order);
}

function spaceBase(space: string): bigint {
  return {
    global: addressBase,
    shared: sharedAddressBase,
    local: localAddressBase,
    param: parameterAddressBase,
  }[space]!;
}

/**
 * Returns the registers of an operand: the elements of a vector, or the operand itself. Reports a compilation error if
 * the vector has the wrong length.
 */
function vectorElements(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  operand: ResolvedOperand | undefined,
): readonly ResolvedOperand[] {
  const length = Number(i.choices.get("vector")?.slice(1) ?? 1);
  if (length === 1 && operand?.kind !== "vector") return [operand!];
  if (operand?.kind !== "vector" || operand.elements.length !== length || length === 1) {
    e.fail(length === 1 ? "it takes no vector" : `it needs a vector of ${length} registers`);
  }
  if (length * i.type.bits > 128) e.refuse("vectors of more than 16 bytes need a GPU of sm_100 or newer");
  return operand.elements;
}

/** Emits code that assigns a kernel parameter, or the value at a constant offset in the parameter, to a register. */
function loadParameter(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { address, element, skip }: { address: ResolvedAddress; element: ResolvedOperand; skip: number },
): void {
  const { base } = address;
  if (base?.kind !== "variable") return;
  const within = address.offset + BigInt(skip);
  const bytes = i.type.bits / 8;
  if (within < 0n || within + BigInt(bytes) > BigInt(base.byteLength)) {
    e.fail(`the parameter "${base.name}" has only ${base.byteLength} bytes`);
  }
  const offset = base.offset + Number(within);
  if (offset % bytes !== 0) e.fail(`the address is not a multiple of ${bytes}`);
  e.assign(element, i.type, () => e.code.get(e.parameterLocal(offset, i.type)), { wide: true });
}

/** Returns the WebAssembly instruction that loads a value of a type. */
export function loadOp({ bits, kind, value }: ScalarType): MemoryOpName {
  if (bits === 8) return kind === "signed" ? "i32Load8S" : "i32Load8U";
  if (bits === 16) return kind === "signed" ? "i32Load16S" : "i32Load16U";
  return `${value}Load`;
}

/** Returns the WebAssembly instruction that stores a value of a type. */
export function storeOp({ bits, value }: ScalarType): MemoryOpName {
  if (bits === 8) return "i32Store8";
  if (bits === 16) return "i32Store16";
  return `${value}Store`;
}

/**
 * Emits code for `prefetch`, `prefetchu`, `applypriority` and `discard`, which have no effect. PTX leaves the value of
 * discarded memory undefined, so the memory may keep its old value.
 */
export const cacheHint: Emit = (e, i) => {
  addressOperand(e, i.operands[0]);
  const size = i.operands[1];
  if (size !== undefined && constantOf(size) !== 128n) e.fail("its size must be 128");
};

/** Emits code for `createpolicy`. The bits of a policy are unspecified; here, every policy is 0. */
export const createPolicy: Emit = (e, i) => {
  const [destination, ...operands] = i.operands;
  for (const operand of operands) {
    if (operand.kind === "address" || operand.kind === "float") continue;
    e.push(operand, i.choices.has("fractional") ? typeNamed("f32") : i.choices.has("cvt") ? u64 : u32);
    e.code.ops("drop");
  }
  e.assign(destination, u64, () => e.code.i64(0n));
};

const wideScopes: readonly (string | undefined)[] = ["gpu", "sys", "gl"];

/**
 * Returns the memory order of an access, in the encoding of `orderBits`.
 *
 * @param isStrong whether the access is strong even without an explicit order, like volatile and atomic accesses
 * @param defaults the order and scope of an instruction that does not specify them: volatile accesses are relaxed and
 * have the widest scope
 */
export function accessOrderOf(
  { choices, form }: ResolvedInstruction,
  { isStrong, elements = 1, defaults: { semantics = "relaxed", scope = "sys" } = {} }: {
    readonly isStrong: boolean;
    readonly elements?: number;
    readonly defaults?: { readonly semantics?: string; readonly scope?: string };
  },
): number {
  const count = Math.log2(elements) << orderCountShift;
  if (!isStrong) return count | (form.traits.readsConstants === true ? orderBits.notCoherent : 0);
  return count | orderBits.strong | semanticsOf(choices.get("semantics") ?? semantics) |
    scopeBits(choices.get("scope") ?? scope) | (form.traits.isVolatile === true ? orderBits.volatile : 0);
}

/**
 * Returns the memory order of a fence, in the encoding of `orderBits`. Undefined for proxy fences and for instructions
 * that are not fences.
 */
export function fenceOrderOf({ choices }: ResolvedInstruction): number | undefined {
  const level = choices.get("level");
  const scope = level ?? choices.get("scope");
  if (scope === undefined) return undefined;
  // `membar` is an alias of `fence.sc`.
  const semantics = level === undefined ? choices.get("semantics") ?? "acq_rel" : "sc";
  return semanticsOf(semantics) | scopeBits(scope) | (semantics === "sc" ? orderBits.sequential : 0);
}

function scopeBits(scope: string): number {
  return wideScopes.includes(scope) ? orderBits.wide : scope === "cluster" ? orderBits.cluster : 0;
}

function semanticsOf(semantics: string): number {
  const { acquire, release } = orderBits;
  if (semantics === "acquire") return acquire;
  if (semantics === "release") return release;
  return semantics === "relaxed" ? 0 : acquire | release;
}
