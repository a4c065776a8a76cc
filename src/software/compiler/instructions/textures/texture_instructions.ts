/**
 * Instructions on textures, PTX ISA, section 9.7.10. A host function reads the texture: the code stores the operands in
 * the launch record, calls it, and loads the results.
 *
 * @module
 */
import type {
  Register,
  ResolvedInstruction,
  ResolvedOperand,
} from "../../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import { exchangeOffset } from "../../../abi/launch_record.ts";
import { encodeTextureOperation, exchangeWords, type Geometry, type TextureRead } from "../../../abi/textures.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { KernelFunctions } from "../../webassembly/kernel_functions.ts";
import type { Emit } from "../instruction_form.ts";
import { directFetchFunction, directReadFunction } from "./direct_reads.ts";
import { loadOp, storeOp } from "../memory/memory_instructions.ts";

const s32 = typeNamed("s32"), u32 = typeNamed("u32"), u64 = typeNamed("u64"), f32 = typeNamed("f32");
const pred = typeNamed("pred");

/** The number of coordinates of a texel in each geometry. */
const dimensionsOf: Readonly<Record<Geometry, number>> = {
  "1d": 1,
  "2d": 2,
  "3d": 3,
  a1d: 1,
  a2d: 2,
  cube: 3,
  acube: 3,
};

/** Emits code that stores an operand in a word of the exchange. */
export function leave(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  { type, word, wide = false }: { type: ScalarType; word: number; wide?: boolean },
): void {
  e.getLaunchRecord();
  e.push(operand, type, { wide });
  e.code.memory(storeOp(type), exchangeOffset + 4 * word);
}

/** Emits code that loads a word of the exchange. */
export function take(e: FunctionEmitter, { type, word }: { type: ScalarType; word: number }): void {
  e.getLaunchRecord().memory(loadOp(type), exchangeOffset + 4 * word);
}

/** Emits code that pushes the offset of the exchange in linear memory. */
export function pushExchange(e: FunctionEmitter): void {
  e.getLaunchRecord().i32(exchangeOffset).ops("i32Add");
}

/** Returns the elements of a vector, or a single operand. */
export function vectorParts(operand: ResolvedOperand | undefined): readonly ResolvedOperand[] {
  if (operand === undefined) return [];
  return operand.kind === "vector" ? operand.elements : [operand];
}

/** Returns the handle and the coordinates of an operand in brackets. */
export function texturePlaceOf(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
): { handle: Register; coordinates: readonly ResolvedOperand[] } {
  if (operand?.kind !== "list") return e.fail("it needs a texture with coordinates in brackets");
  const [handle, ...parts] = operand.elements;
  if (parts.length > 1) e.refuse("CUDA has no samplers of their own: a texture object contains its sampler");
  return { handle: textureHandleOf(e, handle), coordinates: vectorParts(parts[0]) };
}

/** Returns the register of a handle. Refuses names of texture and surface references. */
export function textureHandleOf(e: FunctionEmitter, handle: ResolvedOperand | undefined): Register {
  if (handle?.kind === "variable") {
    e.refuse("CUDA 12 has removed texture and surface references: pass a texture or a surface as an argument");
  }
  return handle?.kind === "register" ? handle : e.fail("its texture must be a register");
}

/** Emits code that stores the handle, the layer and the coordinates of a geometry in the exchange. */
export function leavePlace(
  e: FunctionEmitter,
  operand: ResolvedOperand | undefined,
  { geometry, type }: { geometry: Geometry; type: ScalarType },
): void {
  const { handle, coordinates } = texturePlaceOf(e, operand);
  const isLayered = geometry.startsWith("a");
  const count = dimensionsOf[geometry] + (isLayered ? 1 : 0);
  // Vectors of three are written with a fourth element, which is not read.
  const length = count === 3 ? 4 : count;
  if (coordinates.length !== length) e.fail(`it needs ${length} coordinates`);
  leave(e, handle, { type: u64, word: exchangeWords.handle });
  for (let index = 0; index < count; index++) {
    const isLayer = isLayered && index === 0;
    leave(e, coordinates[index], { type: isLayer ? u32 : type, word: exchangeWords.coordinates + index });
  }
}

/** Returns the lowering of a read of a texture. */
export function readTexture(read: TextureRead): Emit {
  return (e, i) => {
    const geometry = i.choices.get("geometry") as Geometry;
    const destination = i.operands[0];
    const [vector, resident] = destination?.kind === "pair"
      ? [destination.first, destination.second]
      : [destination, undefined];
    const arePairs = i.type.name === "f16x2";
    const length = arePairs ? 2 : 4;
    const elements = vectorParts(vector);
    if (elements.length !== length) e.fail(`it needs a vector of ${length} registers`);
    const direct = directFunctionFor(e, i, read);
    if (direct !== undefined) callDirectRead(e, i, direct);
    else callHostRead(e, i, { read, geometry, arePairs });
    // 16-bit floats are in the lower halves of words.
    const type = i.type.bits === 16 ? u32 : i.type;
    elements.forEach((element, index) => {
      e.assign(element, i.type, () => take(e, { type, word: exchangeWords.data + index }));
    });
    // All of a texture is resident: there are no sparse arrays.
    if (resident !== undefined) e.assign(resident, pred, () => e.code.i32(1));
  };
}

/**
 * Returns the function with which compiled code may make a read itself. Undefined if there is none. The check for races
 * needs to know the texels that are read.
 */
function directFunctionFor(
  e: FunctionEmitter,
  { choices, operands, type, sourceType }: ResolvedInstruction,
  read: TextureRead,
): ((functions: KernelFunctions) => number) | undefined {
  const isUsual = read === "sample" && operands.length === 2 && type.bits === 32 && type.name !== "f16x2";
  if (!isUsual || e.options.kernelChecks.has("race")) return undefined;
  if (sourceType.name === "f32") return choices.get("geometry") === "2d" ? directReadFunction : undefined;
  return choices.get("geometry") === "1d" ? directFetchFunction : undefined;
}

/** Emits a call of a function that reads the textures that it can read, and calls the host function for others. */
function callDirectRead(
  e: FunctionEmitter,
  { operands: [, operand], sourceType }: ResolvedInstruction,
  indexIn: (functions: KernelFunctions) => number,
): void {
  const { handle, coordinates } = texturePlaceOf(e, operand);
  const count = sourceType.name === "f32" ? 2 : 1;
  if (coordinates.length !== count) e.fail(`it needs ${count} coordinate${count === 1 ? "" : "s"}`);
  e.getLaunchRecord();
  e.push(handle, u64);
  for (const coordinate of coordinates) e.push(coordinate, sourceType);
  e.pushPlace({ operation: "read" });
  e.code.call(indexIn(e.kernelFunctions));
}

/** Emits code that stores the operands in the exchange, and calls the host function. */
function callHostRead(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { read, geometry, arePairs }: { read: TextureRead; geometry: Geometry; arePairs: boolean },
): void {
  const isFetch = i.sourceType.name === "s32";
  leavePlace(e, i.operands[1], { geometry, type: i.sourceType });
  if (read === "level") leave(e, i.operands[2], { type: i.sourceType, word: exchangeWords.level });
  if (read === "gradient") leaveGradients(e, i, geometry);
  const offsets = offsetsOf(e, i, { geometry, first: read === "level" ? 3 : read === "gradient" ? 4 : 2 });
  offsets.forEach((offset, index) => leave(e, offset, { type: s32, word: exchangeWords.offsets + index }));
  pushExchange(e);
  e.code.i32(encodeTextureOperation({
    geometry,
    read,
    isFetch,
    hasOffsets: offsets.length > 0,
    channel: Math.max(0, "rgba".indexOf(i.choices.get("component") ?? "r")),
    results: arePairs ? "pairs" : i.type.name === "f16" ? "halves" : "words",
  }));
  e.pushPlace({ operation: "read" });
  e.callHelper("readTexture");
}

/** Emits code that stores the gradients of `tex.grad` in the exchange. */
function leaveGradients(e: FunctionEmitter, i: ResolvedInstruction, geometry: Geometry): void {
  const count = dimensionsOf[geometry];
  i.operands.slice(2, 4).forEach((operand, direction) => {
    if (operand.kind !== "vector" || operand.elements.length < count) e.fail(`it needs vectors of ${count} gradients`);
    vectorParts(operand).slice(0, count).forEach((gradient, index) => {
      leave(e, gradient, { type: f32, word: exchangeWords.gradients + 3 * direction + index });
    });
  });
}

/** Returns the offsets in texels that an instruction has behind its other operands. */
function offsetsOf(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { geometry, first }: { geometry: Geometry; first: number },
): readonly ResolvedOperand[] {
  const [given, ...others] = i.operands.slice(first);
  const isOfFloats = given?.kind === "register" && given.type.kind === "float" || given?.kind === "float";
  if (others.length > 0 || isOfFloats) e.refuse("CUDA's textures have no depth comparison");
  const offsets = vectorParts(given);
  if (offsets.length === 0) return offsets;
  if (geometry.endsWith("cube")) e.fail("cubemaps take no offsets");
  const count = dimensionsOf[geometry];
  if (offsets.length < count) e.fail(`it needs ${count} offsets`);
  return offsets.slice(0, count);
}
