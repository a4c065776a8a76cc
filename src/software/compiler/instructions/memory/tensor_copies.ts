/**
 * `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`: asynchronous copies of boxes of tensors, and
 * `tensormap.replace`. PTX ISA, sections 9.7.9.25.5 and 9.7.9.26.
 *
 * A host function makes the copies, at once: see `bulk_copies.ts`.
 *
 * @module
 */
import { addressOperand, pushAddress, pushCluster, pushLocation, pushSpaces } from "./address_checks.ts";
import { completeBytesIn, forEachBlock, pushAddressIn } from "./bulk_copies.ts";
import { completeBytes } from "./memory_barriers.ts";
import { constantOf, u32 } from "../integers/integer_instructions.ts";
import type { Emit } from "../instruction_form.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import {
  type ResolvedInstruction,
  type ResolvedOperand,
  spaceOf,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import {
  mostDimensions,
  replacedFields,
  replacedTypes,
  tensorMapMark,
  tensorOperations,
} from "../../../abi/tensor_map.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";

const u16 = typeNamed("u16");
const u64 = typeNamed("u64");

/** Emits code for `cp.async.bulk.tensor` from global to shared memory. */
export const loadTensor: Emit = (e, i) => {
  const [destination, tensor, barrier, offsets] = i.operands;
  const bytes = e.temporary("i32");
  pushCopy(e, i, { operation: "load", tensor, shared: () => pushShared(e, destination), offsets });
  e.code.set(bytes);
  completeBytes(e, barrier, { space: "shared", pushBytes: () => e.code.get(bytes) });
};

/** Emits code for `cp.async.bulk.tensor` from global memory to the shared memory of several blocks of the cluster. */
export const multicastTensor: Emit = (e, i) => {
  const [destination, tensor, barrier, ...others] = i.operands;
  const bytes = e.temporary("i32");
  forEachBlock(e, others.at(-1), (rank) => {
    pushCopy(e, i, {
      operation: "load",
      tensor,
      shared: () => pushAddressIn(e, rank, destination),
      offsets: others.length > 1 ? others[0] : undefined,
    });
    e.code.set(bytes);
    completeBytesIn(e, rank, { barrier, bytes });
  });
};

/** Emits code for `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` from shared to global memory. */
export const storeTensor: Emit = (e, i) => {
  const [tensor, source] = i.operands;
  pushCopy(e, i, { operation: i.choices.get("operation") ?? "store", tensor, shared: () => pushShared(e, source) });
  e.code.ops("drop");
};

/** Emits code for `cp.async.bulk.prefetch.tensor`, which only checks that the tensor map fits the instruction. */
export const prefetchTensor: Emit = (e, i) => {
  const [tensor, offsets] = i.operands;
  pushCopy(e, i, { operation: "prefetch", tensor, offsets });
  e.code.ops("drop");
};

/** Emits code that copies a part of a tensor, and pushes the number of bytes that were written to shared memory. */
function pushCopy(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { operation, tensor, shared, offsets }: {
    operation: string;
    tensor: ResolvedOperand | undefined;
    /** Emits code that pushes the address in shared memory. */
    shared?: () => void;
    offsets?: ResolvedOperand | undefined;
  },
): void {
  const { code } = e;
  const dimensions = Number(i.choices.get("dim")![0]);
  if (tensor?.kind !== "list") e.fail("it needs a tensor map and coordinates, as in [tensorMap, {x, y}]");
  const [map, coordinates] = tensor.elements;
  if (tensor.elements.length !== 2 || coordinates?.kind !== "vector" || coordinates.elements.length !== dimensions) {
    e.fail(`it needs a vector of as many coordinates as dimensions, ${dimensions}`);
  }
  e.shadows?.require(map, "address");
  e.push(map, u64);
  if (shared === undefined) code.i64(0n);
  else shared();
  code.i32((tensorOperations as readonly string[]).indexOf(operation)).i32(dimensions);
  for (let index = 0; index < mostDimensions; index++) {
    const coordinate = coordinates.elements[index];
    if (coordinate === undefined) code.i32(0);
    else e.push(coordinate, u32);
  }
  pushOffsets(e, i, { dimensions, offsets });
  e.pushPlace({ bytes: 16 });
  pushSpaces(e);
  pushCluster(e);
  e.callHelper("copyTensor");
}

/** Emits code that pushes an address in shared memory as an i64. */
function pushShared(e: FunctionEmitter, operand: ResolvedOperand | undefined): void {
  const address = addressOperand(e, operand);
  const { base } = address;
  if (base?.kind === "variable" && base.space !== "shared") e.fail(`"${base.name}" is in ".${base.space}"`);
  e.shadows?.require(base, "address");
  pushAddress(e, address, "shared");
}

/** Emits code that pushes the offsets of the mode im2col, 16 bits each, or -1 in the mode tile. */
function pushOffsets(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { dimensions, offsets }: { dimensions: number; offsets: ResolvedOperand | undefined },
): void {
  const { code } = e;
  const mode = i.choices.get("mode") ?? "tile";
  if (mode === "tile") {
    code.i64(-1n);
    return;
  }
  if (dimensions < 3) e.fail("a tensor in the mode im2col has at least 3 dimensions");
  code.i64(0n);
  if (mode === "im2col_no_offs") return;
  if (offsets?.kind !== "vector" || offsets.elements.length !== dimensions - 2) {
    e.fail(`it needs a vector of ${dimensions - 2} offsets`);
  }
  offsets.elements.forEach((offset, index) => {
    e.push(offset, u16);
    code.i32(0xffff).ops("i32And", "i64ExtendI32U").i64(BigInt(16 * index)).ops("i64Shl", "i64Or");
  });
}

/** The fields of which the value must be a literal. */
const enumerations: readonly string[] = ["elemtype", "interleave_layout", "swizzle_mode", "fill_mode"];

/** Emits code for `tensormap.replace`. */
export const replaceField: Emit = (e, i) => {
  const { code } = e;
  const pushField = ({ offset, bytes }: { offset: number; bytes: number }) => {
    const address = addressOperand(e, i.operands[0]);
    const place = { ...address, offset: address.offset + BigInt(offset) };
    pushLocation(e, place, { space: spaceOf(i), bytes, operation: "write" });
  };
  const name = i.choices.get("field")!;
  const { offset, stride, bytes } = replacedFields[name]!;
  const [, ...others] = i.operands;
  const value = others.at(-1);
  const index = others.length > 1 ? Number(constantOf(others[0]) ?? -1n) : 0;
  if (index < 0 || index >= mostDimensions - Number(name === "global_stride")) e.fail("it has no such dimension");
  // Kernels make tensor maps of 128 zeros, too. No such map is complete without an address.
  if (name === "global_address") {
    pushField({ offset: 0, bytes: 4 });
    code.i32(tensorMapMark).memory("i32Store");
  }
  pushField({ offset: offset + stride * index, bytes });
  if (enumerations.includes(name)) {
    const constant = Number(constantOf(value) ?? e.fail("its value must be a literal"));
    const isType = name === "elemtype";
    code.i32(
      (isType ? replacedTypes[constant] : constant) ?? e.refuse("its element type needs a GPU of sm_100 or newer"),
    );
  } else {
    e.push(value, bytes === 8 ? u64 : u32);
    // The rank is given as the number of dimensions minus 1.
    if (name === "rank") code.i32(1).ops("i32Add");
  }
  code.memory(({ 1: "i32Store8", 2: "i32Store16", 4: "i32Store", 8: "i64Store" } as const)[bytes]);
};
