/**
 * Loads, stores, atomics and address conversions.
 *
 * Every access is checked before it is made. A check that fails reports the address and the line and never returns: that
 * it is misaligned, where that alone is wrong. A GPU says of what is neither aligned nor accessible the one or the other.
 *
 * @module
 */
import { addressBase, limitGranuleBytes, localAddressBase, sharedAddressBase } from "./addresses.ts";
import { type FunctionEmitter, imageAddressGlobal } from "./function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { type ScalarType, typeNamed } from "./scalar_types.ts";
import type { ResolvedAddress, ResolvedOperand, TypedInstruction } from "./typed_instruction.ts";
import type { MemoryOpName, OpName } from "./wasm_encoder.ts";

const u64 = typeNamed("u64");

/** `ld` */
export const load: Emit = (e, i) => {
  const [destination, source] = i.operands;
  const address = addressOperand(e, source);
  const elements = vectorElements(e, i, destination);
  const bytes = i.type.bits / 8;
  const space = spaceOf(i);
  if (space === "param" && address.base?.kind === "variable") {
    elements.forEach((element, index) => loadParameter(e, i, { address, element, skip: index * bytes }));
    return;
  }
  const location = e.temporary("i32");
  pushLocation(e, address, { space, bytes: bytes * elements.length });
  e.code.set(location);
  elements.forEach((element, index) => {
    e.assign(element, i.type, () => e.code.get(location).memory(loadOp(i.type), index * bytes), { wide: true });
  });
};

/** `st` */
export const store: Emit = (e, i) => {
  const [destination, source] = i.operands;
  const elements = vectorElements(e, i, source);
  const bytes = i.type.bits / 8;
  const location = e.temporary("i32");
  pushLocation(e, addressOperand(e, destination), { space: spaceOf(i), bytes: bytes * elements.length });
  e.code.set(location);
  elements.forEach((element, index) => {
    e.code.get(location);
    e.push(element, i.type, { wide: true });
    e.code.memory(storeOp(i.type), index * bytes);
  });
};

/** `atom` and `red`: an exchange that is tried again until nobody came between. */
export function atomic(hasResult: boolean): Emit {
  return (e, i) => {
    const [address, b, c] = hasResult ? i.operands.slice(1) : i.operands;
    const { value, bits } = i.type;
    const location = e.temporary("i32");
    const old = e.temporary(value);
    const load = value === "i64" ? "i64AtomicLoad" : "i32AtomicLoad";
    const exchange = value === "i64" ? "i64AtomicCompareExchange" : "i32AtomicCompareExchange";
    pushLocation(e, addressOperand(e, address), { space: spaceOf(i), bytes: bits / 8 });
    e.code.set(location).loop();
    e.code.get(location).get(location).atomic(load).tee(old);
    pushAtomicResult(e, i, { old, b: b!, c });
    e.code.atomic(exchange).get(old).ops(value === "i64" ? "i64Ne" : "i32Ne").brIf(0).end();
    if (hasResult) e.assign(i.operands[0], i.type, () => e.code.get(old));
  };
}

function pushAtomicResult(
  e: FunctionEmitter,
  i: TypedInstruction,
  { old, b, c }: { old: number; b: ResolvedOperand; c: ResolvedOperand | undefined },
): void {
  const { code } = e;
  const { type } = i;
  const wide = type.value === "i64";
  const operation = i.choices.get("operation")!;
  if ((operation === "cas") !== (c !== undefined)) e.fail("it has the wrong number of operands");
  const simple: Readonly<Record<string, OpName>> = {
    add: wide ? "i64Add" : "i32Add",
    and: wide ? "i64And" : "i32And",
    or: wide ? "i64Or" : "i32Or",
    xor: wide ? "i64Xor" : "i32Xor",
  };
  const one = () => wide ? code.i64(1n) : code.i32(1);
  const zero = () => wide ? code.i64(0n) : code.i32(0);
  switch (operation) {
    case "exch":
      e.push(b, type);
      break;
    case "cas":
      e.push(c, type);
      code.get(old).get(old);
      e.push(b, type);
      code.ops(wide ? "i64Eq" : "i32Eq", "select");
      break;
    case "min":
    case "max": {
      const signed = type.kind === "signed";
      const less: OpName = wide ? (signed ? "i64LtS" : "i64LtU") : (signed ? "i32LtS" : "i32LtU");
      const greater: OpName = wide ? (signed ? "i64GtS" : "i64GtU") : (signed ? "i32GtS" : "i32GtU");
      code.get(old);
      e.push(b, type);
      code.get(old);
      e.push(b, type);
      code.ops(operation === "min" ? less : greater, "select");
      break;
    }
    case "inc":
      // ((old >= b) ? 0 : old + 1)
      zero();
      code.get(old);
      one().ops(wide ? "i64Add" : "i32Add");
      code.get(old);
      e.push(b, type);
      code.ops(wide ? "i64GeU" : "i32GeU", "select");
      break;
    case "dec":
      // ((old == 0 || old > b) ? b : old - 1)
      e.push(b, type);
      code.get(old);
      one().ops(wide ? "i64Sub" : "i32Sub");
      code.get(old).ops(wide ? "i64Eqz" : "i32Eqz").get(old);
      e.push(b, type);
      code.ops(wide ? "i64GtU" : "i32GtU", "i32Or", "select");
      break;
    default:
      code.get(old);
      e.push(b, type);
      code.ops(simple[operation]!);
  }
}

/** `cvta` and `cvta.to` */
export function convertAddress(operation: "i64Add" | "i64Sub"): Emit {
  return (e, i) => {
    const space = i.choices.get("space")!;
    if (space === "param") e.fail("the address of a parameter cannot be made generic");
    const source = i.operands[1];
    const variable = source?.kind === "sum" ? source.variable : source;
    if (variable?.kind === "variable" && variable.space !== space) {
      e.fail(`"${variable.name}" lies in ".${variable.space}"`);
    }
    e.assign(i.operands[0], u64, () => {
      e.push(source, u64);
      if (space === "shared" || space === "local") e.code.i64(windowBase(space)).ops(operation);
    });
  };
}

/** `isspacep` */
export const isInSpace: Emit = (e, i) => {
  e.assign(i.operands[0], typeNamed("pred"), () => {
    const space = i.choices.get("space")!;
    const address = e.temporary("i64");
    e.push(i.operands[1], u64);
    e.code.set(address);
    if (space === "const") return pushIsConstant(e, address);
    e.code.get(address).i64(32n).ops("i64ShrU").i64(windowBase(space) >> 32n).ops("i64Eq");
    if (space === "global" && e.sizes.constants.byteLength > 0) {
      pushIsConstant(e, address);
      e.code.ops("i32Eqz", "i32And");
    }
  });
};

/** The module's constants lie among its other variables: what tells them apart is where. */
function pushIsConstant(e: FunctionEmitter, address: number): void {
  const { offset, byteLength } = e.sizes.constants;
  e.code.get(address).globalGet(imageAddressGlobal).i64(BigInt(offset)).ops("i64Add", "i64Sub");
  e.code.i64(BigInt(byteLength)).ops("i64LtU");
}

/** `membar` and `fence` */
export const fence: Emit = (e) => {
  e.code.atomicFence();
};

function windowBase(space: string): bigint {
  return { global: addressBase, shared: sharedAddressBase, local: localAddressBase }[space]!;
}

function spaceOf(i: TypedInstruction): string {
  return i.choices.get("space")?.replace("::cta", "") ?? "generic";
}

function addressOperand(e: FunctionEmitter, operand: ResolvedOperand | undefined): ResolvedAddress {
  return operand?.kind === "address" ? operand : e.fail("its address must stand in brackets");
}

function vectorElements(
  e: FunctionEmitter,
  i: TypedInstruction,
  operand: ResolvedOperand | undefined,
): readonly ResolvedOperand[] {
  const length = Number(i.choices.get("vector")?.slice(1) ?? 1);
  if (length === 1 && operand?.kind !== "vector") return [operand!];
  if (operand?.kind !== "vector" || operand.elements.length !== length || length === 1) {
    e.fail(length === 1 ? "it is given a vector" : `it needs a vector of ${length} registers`);
  }
  if (length * i.type.bits > 128) e.fail("a vector has 16 bytes at most");
  return operand.elements;
}

function loadParameter(
  e: FunctionEmitter,
  i: TypedInstruction,
  { address, element, skip }: { address: ResolvedAddress; element: ResolvedOperand; skip: number },
): void {
  const { base } = address;
  if (base?.kind !== "variable") return;
  const within = address.offset + BigInt(skip);
  const bytes = i.type.bits / 8;
  if (within < 0n || within + BigInt(bytes) > BigInt(base.byteLength)) {
    e.fail(`the parameter "${base.name}" has ${base.byteLength} bytes`);
  }
  const offset = base.offset + Number(within);
  if (offset % bytes !== 0) e.fail(`the address is no multiple of ${bytes}`);
  e.assign(element, i.type, () => e.code.get(e.parameterLocal(offset, i.type)), { wide: true });
}

/** Pushes where in the memory an operand lies, after the checks. */
function pushLocation(
  e: FunctionEmitter,
  address: ResolvedAddress,
  { space, bytes }: { space: string; bytes: number },
): void {
  const local = e.temporary("i64");
  pushAddress(e, address, space);
  e.code.set(local);
  switch (space) {
    case "global":
    case "const":
      checkGlobal(e, local, bytes);
      e.code.get(local).ops("i32WrapI64");
      break;
    case "generic":
      e.code.get(local).i32(bytes).i32(e.line);
      e.getFixed("shared");
      e.pushSharedBytes();
      e.getFixed("local").i32(e.sizes.local);
      e.getFixed("limits");
      e.callHelper("resolveGeneric");
      break;
    case "param":
      checkBounded(e, local, { bytes, size: e.sizes.parameters, space });
      e.getFixed("parameters").get(local).ops("i32WrapI64", "i32Add");
      break;
    case "shared":
      if (e.sizes.shared === undefined) checkDynamicShared(e, local, bytes);
      else checkBounded(e, local, { bytes, size: e.sizes.shared, space });
      e.getFixed("shared").get(local).ops("i32WrapI64", "i32Add");
      break;
    case "local":
      checkBounded(e, local, { bytes, size: e.sizes.local, space });
      e.getFixed("local").get(local).ops("i32WrapI64", "i32Add");
      break;
  }
}

function pushAddress(e: FunctionEmitter, { base, offset }: ResolvedAddress, space: string): void {
  const { code } = e;
  if (base === undefined) {
    code.i64(offset);
    return;
  }
  if (base.kind === "variable") {
    const isGeneric = space === "generic" && base.space !== "param" && base.space !== "const";
    if (base.space !== space && !isGeneric) e.fail(`"${base.name}" lies in ".${base.space}"`);
    e.pushVariable(base, offset);
    if (isGeneric && base.space !== "global") code.i64(windowBase(base.space)).ops("i64Add");
    return;
  }
  if (base.type.bits === 32) {
    e.push(base, typeNamed("u32"));
    code.ops("i64ExtendI32U");
  } else {
    e.push(base, u64);
  }
  if (offset !== 0n) code.i64(offset).ops("i64Add");
}

/**
 * Faults unless an access of `bytes` bytes, a power of two, is aligned, in the memory, and within the limit of its
 * granule. Rotating the low bits that must be 0 to the top makes one comparison of alignment and high half.
 */
function checkGlobal(e: FunctionEmitter, address: number, bytes: number): void {
  const { code } = e;
  const zeroBits = BigInt(Math.log2(bytes));
  code.get(address).i64(addressBase).ops("i64Sub");
  if (zeroBits > 0n) code.i64(zeroBits).ops("i64Rotr");
  code.i64(1n << (32n - zeroBits)).ops("i64GeU");
  code.get(address).ops("i32WrapI64").i32(limitGranuleBytes - 1).ops("i32And").i32(bytes).ops("i32Add");
  code.get(address).ops("i32WrapI64").i32(8).ops("i32ShrU").i32(0xff_fffe).ops("i32And");
  e.getFixed("limits").ops("i32Add").memory("i32Load16U").ops("i32GtU", "i32Or");
  code.if().get(address).i32(bytes).i32(e.line);
  e.getFixed("limits");
  e.callHelper("faultGlobal").ops("unreachable").end();
}

function checkBounded(
  e: FunctionEmitter,
  address: number,
  { bytes, size, space }: { bytes: number; size: number; space: string },
): void {
  const { code } = e;
  if (size < bytes) {
    code.i32(1);
  } else {
    code.get(address).i64(BigInt(size - bytes)).ops("i64GtU");
    if (bytes > 1) code.get(address).ops("i32WrapI64").i32(bytes - 1).ops("i32And", "i32Or");
  }
  faultIf(e, address, { bytes, space, pushSize: () => code.i32(size) });
}

function checkDynamicShared(e: FunctionEmitter, address: number, bytes: number): void {
  const { code } = e;
  const end = e.temporary("i64");
  e.pushSharedBytes();
  code.ops("i64ExtendI32U").set(end);
  // An address that is itself past the end may be so large that the end of the access wraps.
  code.get(address).get(end).ops("i64GtU").get(address).i64(BigInt(bytes)).ops("i64Add").get(end);
  code.ops("i64GtU", "i32Or");
  if (bytes > 1) code.get(address).ops("i32WrapI64").i32(bytes - 1).ops("i32And", "i32Or");
  faultIf(e, address, { bytes, space: "shared", pushSize: () => e.pushSharedBytes() });
}

/** Takes a condition from the stack and, where it holds, reports what is wrong with an address within a space. */
function faultIf(
  e: FunctionEmitter,
  address: number,
  { bytes, space, pushSize }: { bytes: number; space: string; pushSize(): void },
): void {
  const { code } = e;
  code.if().get(address).i32(bytes).i32(e.line);
  pushSize();
  code.i32(space === "shared" ? 1 : 0);
  e.callHelper("faultBounded").ops("unreachable").end();
}

/** The load of one value. */
export function loadOp({ bits, kind, value }: ScalarType): MemoryOpName {
  if (bits === 8) return kind === "signed" ? "i32Load8S" : "i32Load8U";
  if (bits === 16) return kind === "signed" ? "i32Load16S" : "i32Load16U";
  return `${value}Load`;
}

function storeOp({ bits, value }: ScalarType): MemoryOpName {
  if (bits === 8) return "i32Store8";
  if (bits === 16) return "i32Store16";
  return `${value}Store`;
}
