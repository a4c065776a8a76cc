/**
 * Instructions on surfaces, PTX ISA, section 9.7.11, and queries of textures and surfaces. Like those on textures, they
 * pass their operands to a host function.
 *
 * @module
 */
import type { ResolvedInstruction, ResolvedOperand } from "../../../../ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../../../ptx/instructions/scalar_types.ts";
import { encodeSurfaceOperation, exchangeWords, type SurfaceOperation, textureQueries } from "../../../abi/textures.ts";
import type { FunctionEmitter } from "../../codegen/function_emitter.ts";
import type { Emit } from "../instruction_form.ts";
import { leave, leavePlace, pushExchange, take, textureHandleOf, vectorParts } from "./texture_instructions.ts";

const s32 = typeNamed("s32"), u32 = typeNamed("u32"), u64 = typeNamed("u64"), pred = typeNamed("pred");
const runtimeRefuses = "a GPU refuses to load a module with it, too: CUDA's driver has width, height and depth only";

/** Emits code that calls the host function for an instruction on a surface. */
function callSurface(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { use, count }: Pick<SurfaceOperation, "use" | "count">,
): void {
  pushExchange(e);
  e.code.i32(encodeSurfaceOperation({
    geometry: i.choices.get("geometry") as SurfaceOperation["geometry"],
    use,
    outside: i.choices.get("outside") as SurfaceOperation["outside"],
    reduction: (i.choices.get("operation") ?? "add") as SurfaceOperation["reduction"],
    elementBytes: i.type.bits / 8,
    count,
    isSigned: i.type.kind === "signed",
  }));
  e.pushPlace({ operation: use === "load" ? "read" : use.startsWith("store") ? "write" : "atomic" });
  e.callHelper("useSurface");
}

/** Returns the elements of a vector or a register. Reports a compilation error unless their number is that of `.v`. */
function elementsToMove(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined) {
  const elements = vectorParts(operand);
  const count = Number(i.choices.get("vector")?.slice(1) ?? 1);
  if (elements.length !== count) e.fail(`it needs ${count === 1 ? "a register" : `a vector of ${count} registers`}`);
  if (count * i.type.bits > 128) e.fail("it moves at most 128 bits");
  return elements;
}

function leaveSurface(e: FunctionEmitter, i: ResolvedInstruction, operand: ResolvedOperand | undefined): void {
  leavePlace(e, operand, { geometry: i.choices.get("geometry") as SurfaceOperation["geometry"], type: s32 });
}

/** The number of words of the exchange for an element. */
function wordsOf({ type }: ResolvedInstruction): number {
  return type.bits === 64 ? 2 : 1;
}

/** Emits code for `suld`. */
export const loadSurface: Emit = (e, i) => {
  const elements = elementsToMove(e, i, i.operands[0]);
  leaveSurface(e, i, i.operands[1]);
  callSurface(e, i, { use: "load", count: elements.length });
  const type = i.type.bits < 32 ? u32 : i.type;
  elements.forEach((element, index) => {
    const word = exchangeWords.data + index * wordsOf(i);
    e.assign(element, i.type, () => take(e, { type, word }), { wide: true });
  });
};

/** Returns the lowering of `sust`. */
export function storeSurface(use: "store" | "storeFormatted"): Emit {
  return (e, i) => {
    const elements = elementsToMove(e, i, i.operands[1]);
    leaveSurface(e, i, i.operands[0]);
    elements.forEach((element, index) => {
      const word = exchangeWords.data + index * wordsOf(i);
      leave(e, element, { type: i.type, word, wide: true });
    });
    callSurface(e, i, { use, count: elements.length });
  };
}

/** Returns the lowering of `sured`. */
export function reduceSurface(use: "reduce" | "reduceFormatted"): Emit {
  return (e, i) => {
    leaveSurface(e, i, i.operands[0]);
    const [element] = vectorParts(i.operands[1]);
    leave(e, element, { type: i.type, word: exchangeWords.data });
    callSurface(e, i, { use, count: 1 });
  };
}

/** Emits code for `txq` and `suq`. */
export const queryTexture: Emit = (e, i) => {
  const query = textureQueries.findIndex((name) => name === i.choices.get("query"));
  if (query < 0) e.refuse(runtimeRefuses);
  const place = i.operands[1];
  if (place?.kind !== "address" || place.offset !== 0n) return e.fail("its texture must be a register in brackets");
  const level = i.operands[2];
  e.assign(i.operands[0], u32, () => {
    leave(e, textureHandleOf(e, place.base), { type: u64, word: exchangeWords.handle });
    pushExchange(e);
    e.code.i32(query);
    if (level === undefined) e.code.i32(0);
    else e.push(level, u32);
    e.pushPlace({ operation: "read" });
    e.callHelper("queryTexture");
  });
};

/** Emits code for `istypep`: a handle is no variable's address. */
export const isTextureType: Emit = (e, i) => e.assign(i.operands[0], pred, () => e.code.i32(0));
