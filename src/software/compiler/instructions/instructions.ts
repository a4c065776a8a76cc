/**
 * The table of instructions: everything that the compiler knows about a PTX instruction is in its row.
 *
 * A row has two sides. `src/ptx/instructions/rows/` has its syntax, its section in the manual and its traits, which say
 * what may be assumed about it (`instruction_traits.ts`); this file has its lowering, by the same name. A name that is
 * missing on either side does not compile. An omitted trait has the conservative value, so state only what is certain.
 * CONTRIBUTING.md lists the other steps; tests fail until they are done. Section numbers are those of PTX ISA 9.0.
 *
 * @module
 */
import { onFirstUse } from "../../../ptx/instructions/rows/row.ts";
import {
  countBits,
  extendLowBits,
  extractBits,
  findHighestBit,
  findNthSet,
  insertBits,
  makeMask,
  reverseBits,
} from "./integers/bit_instructions.ts";
import { choosesExtreme, selects, setsPredicate } from "../checks/shadow_comparisons.ts";
import {
  conjunction,
  converts,
  disjunction,
  fromLowest,
  movesBits,
  packsHalves,
  sums,
  union,
  validityOfThree,
  whollyWithCarry,
} from "../checks/shadow_rules.ts";
import { addWithCarry, multiplyAddWithCarry } from "./integers/carry_chains.ts";
import {
  doubleGangForms,
  floatGangForms,
  gangComparison,
  gangConversion,
  gangMove,
  gangSelection,
  integerGangForms,
} from "./gangs/gang_lowering.ts";
import {
  absolute,
  absoluteDifference,
  divide,
  dotProduct,
  extreme,
  integer,
  multiply24,
  multiplyHigh,
  multiplyLow,
  multiplyWide,
  negate,
  saturating,
} from "./integers/integer_instructions.ts";
import { addPairs, extremeOfPairs, pack, permuteBytes } from "./integers/packed_integers.ts";
import {
  cosine,
  divideApproximately,
  exponential,
  hyperbolicTangent,
  logarithm,
  reciprocalRoot,
  reciprocalRoot64,
  sine,
  upperHalf,
} from "./floats/approximate_instructions.ts";
import {
  copySign,
  extremeFloat,
  float,
  fusedMultiplyAdd,
  reciprocal,
  signChange,
  testProperty,
} from "./floats/float_instructions.ts";
import {
  halfExponential,
  halfExtreme,
  halfMultiplyAdd,
  halfMultiplyAddInside,
  halfProduct,
  halfSignChange,
  halfSum,
  halfTangent,
} from "./floats/half_instructions.ts";
import { setPredicate, setValue } from "./floats/comparison_instructions.ts";
import { move, moveVector, selectByPredicate, selectBySign } from "./move_instructions.ts";
import { funnelShift, logicalNot, logicOfThree, not, shift as shiftBits } from "./integers/logic_instructions.ts";
import { awaitCopies, commitCopies, copyAsynchronously } from "./memory/asynchronous_copies.ts";
import {
  awaitBulkCopies,
  copyBulk,
  copyTensorMap,
  multicastBulk,
  prefetchBulk,
  reduceAsynchronously,
  reduceBulk,
  storeAsynchronously,
} from "./memory/bulk_copies.ts";
import { loadTensor, multicastTensor, prefetchTensor, replaceField, storeTensor } from "./memory/tensor_copies.ts";
import {
  cacheHint,
  convertAddress,
  createPolicy,
  fence,
  isInSpace,
  load,
  store,
} from "./memory/memory_instructions.ts";
import {
  convert,
  convertFromEightBits,
  convertToEightBits,
  convertToPair,
  convertToTensorFloat,
} from "./floats/conversion_instructions.ts";
import { gangLoad, gangStore } from "./gangs/gang_memory.ts";
import { atomicWide, loadWide, moveWide, storeWide } from "./integers/wide_instructions.ts";
import { allocateOnStack, restoreStack, saveStack } from "./call_instructions.ts";
import { storeMatrices, transposeMatrix } from "./memory/matrix_instructions.ts";
import { loadFragment, storeFragment } from "./memory/matrix_fragments.ts";
import { loadMatrices, matrixProduct } from "./memory/matrix_products.ts";
import { awaitProducts, orderProducts, warpgroupProduct } from "./memory/warpgroup_products.ts";
import { type WarpgroupProductName, warpgroupProductRows } from "../../../ptx/instructions/rows/warpgroup_matrices.ts";
import { type MatrixProductName, matrixProductRows } from "../../../ptx/instructions/rows/matrices.ts";
import {
  activeMask,
  aligned,
  arriveAtCluster,
  barrierArrive,
  barrierReduction,
  barrierSync,
  elect,
  mapAddress,
  match,
  rankOfAddress,
  reduction,
  shuffle,
  sleep,
  vote,
  waitForCluster,
  warpBarrier,
} from "./synchronization_instructions.ts";
import { atomic } from "./memory/atomic_instructions.ts";
import {
  arrive,
  arriveAfterCopies,
  initializeBarrier,
  invalidateBarrier,
  pendingCount,
  testWait,
  transact,
} from "./memory/memory_barriers.ts";
import {
  onElements,
  videoArithmetic,
  videoComparison,
  videoMultiplyAdd,
  videoShift,
} from "./integers/video_instructions.ts";
import {
  isTextureType,
  loadSurface,
  queryTexture,
  reduceSurface,
  storeSurface,
} from "./textures/surface_instructions.ts";
import { readTexture } from "./textures/texture_instructions.ts";
import { breakpoint, performanceEvent, redistributeRegisters, trap } from "./miscellaneous_instructions.ts";
import { refusedForms, refusedOpcodes } from "./refused_instructions.ts";
import { isSpecialRegister } from "./special_registers.ts";
import { type InstructionForm, lowered, type Lowerings } from "./instruction_form.ts";
import type { InstructionSet } from "../typing/find_form.ts";
import {
  type IntegerName,
  integerRows,
  type LogicName,
  logicRows,
  type PackedVideoName,
  packedVideoRows,
  type VideoName,
  videoRows,
} from "../../../ptx/instructions/rows/integers.ts";
import {
  type ComparisonName,
  comparisonRows,
  type FloatName,
  floatRows,
} from "../../../ptx/instructions/rows/floats.ts";
import {
  type AtomicName,
  atomicRows,
  type DataMovementName,
  dataMovementRows,
} from "../../../ptx/instructions/rows/memory.ts";
import {
  type ControlFlowName,
  controlFlowRows,
  type MiscellaneousName,
  miscellaneousRows,
  type SynchronizationName,
  synchronizationRows,
} from "../../../ptx/instructions/rows/control.ts";
import { type TextureName, textureRows } from "../../../ptx/instructions/rows/textures.ts";

const givingCarry = whollyWithCarry({ takesCarry: false });
const takingCarry = whollyWithCarry({ takesCarry: true });

const integerLowerings = onFirstUse((): Lowerings<IntegerName> => ({
  // Integer arithmetic.
  add: { lowering: integer("Add"), validity: sums("Add"), gangForm: integerGangForms.add },
  "add.sat": saturating("i64Add"),
  "add.pairs": addPairs,
  sub: { lowering: integer("Sub"), validity: sums("Sub"), gangForm: integerGangForms.subtract },
  "sub.sat": saturating("i64Sub"),
  "mul.lo": { lowering: multiplyLow, validity: fromLowest, gangForm: integerGangForms.multiply },
  "mul.hi": multiplyHigh,
  "mul.wide": { lowering: multiplyWide, validity: fromLowest },
  "mad.lo": { lowering: multiplyLow, validity: fromLowest, gangForm: integerGangForms.multiply },
  "mad.hi": multiplyHigh,
  "mad.hi.sat": multiplyHigh,
  "mad.wide": { lowering: multiplyWide, validity: fromLowest },
  "mul24.lo": multiply24,
  "mul24.hi": multiply24,
  "mad24.lo": multiply24,
  "mad24.hi": multiply24,
  "mad24.hi.sat": multiply24,
  sad: absoluteDifference,
  div: divide("quotient"),
  rem: divide("remainder"),
  abs: { lowering: absolute, gangForm: integerGangForms.absolute },
  neg: { lowering: negate, validity: fromLowest, gangForm: integerGangForms.negate },
  min: { lowering: extreme("min"), validity: choosesExtreme("min"), gangForm: integerGangForms.minimum },
  "min.relu.s32": extreme("min"),
  "min.pairs": extremeOfPairs("min"),
  "min.relu.s16x2": extremeOfPairs("min"),
  max: { lowering: extreme("max"), validity: choosesExtreme("max"), gangForm: integerGangForms.maximum },
  "max.relu.s32": extreme("max"),
  "max.pairs": extremeOfPairs("max"),
  "max.relu.s16x2": extremeOfPairs("max"),
  popc: countBits("Popcnt"),
  clz: countBits("Clz"),
  bfind: findHighestBit,
  fns: findNthSet,
  brev: { lowering: reverseBits, validity: movesBits(1) },
  bfe: { lowering: extractBits, validity: movesBits(1) },
  bfi: { lowering: insertBits, validity: movesBits(1, 2) },
  szext: { lowering: extendLowBits, validity: movesBits(1) },
  bmsk: makeMask,
  dp4a: dotProduct(4),
  "dp2a.lo": dotProduct(2),
  "dp2a.hi": dotProduct(2),
  // Integer arithmetic with carries.
  "add.cc": { lowering: addWithCarry("add", { takesCarry: false }), validity: givingCarry },
  addc: { lowering: addWithCarry("add", { takesCarry: true }), validity: takingCarry },
  "sub.cc": { lowering: addWithCarry("sub", { takesCarry: false }), validity: givingCarry },
  subc: { lowering: addWithCarry("sub", { takesCarry: true }), validity: takingCarry },
  "mad.lo.cc": { lowering: multiplyAddWithCarry({ takesCarry: false }), validity: givingCarry },
  "mad.hi.cc": { lowering: multiplyAddWithCarry({ takesCarry: false }), validity: givingCarry },
  "madc.lo": { lowering: multiplyAddWithCarry({ takesCarry: true }), validity: takingCarry },
  "madc.hi": { lowering: multiplyAddWithCarry({ takesCarry: true }), validity: takingCarry },
}));

const floatLowerings = onFirstUse((): Lowerings<FloatName> => ({
  // Floating-point arithmetic in 32 and 64 bits.
  testp: testProperty,
  copysign: copySign,
  "add.f32": { lowering: float("Add"), gangForm: floatGangForms.add },
  "add.f64": { lowering: float("Add"), gangForm: doubleGangForms.add },
  "sub.f32": { lowering: float("Sub"), gangForm: floatGangForms.subtract },
  "sub.f64": { lowering: float("Sub"), gangForm: doubleGangForms.subtract },
  "mul.f32": { lowering: float("Mul"), gangForm: floatGangForms.multiply },
  "mul.f64": { lowering: float("Mul"), gangForm: doubleGangForms.multiply },
  "fma.f32": { lowering: fusedMultiplyAdd, gangForm: floatGangForms.multiplyAdd },
  "fma.f64": { lowering: fusedMultiplyAdd, gangForm: doubleGangForms.multiplyAdd },
  "mad.f32": { lowering: fusedMultiplyAdd, gangForm: floatGangForms.multiplyAdd },
  "mad.f64": { lowering: fusedMultiplyAdd, gangForm: doubleGangForms.multiplyAdd },
  "div.approx": divideApproximately,
  "div.full": float("Div"),
  "div.f32": { lowering: float("Div"), gangForm: floatGangForms.divide },
  "div.f64": { lowering: float("Div"), gangForm: doubleGangForms.divide },
  "abs.f32": { lowering: signChange("Abs"), gangForm: floatGangForms.absolute },
  "abs.f64": { lowering: signChange("Abs"), gangForm: doubleGangForms.absolute },
  "neg.f32": { lowering: signChange("Neg"), gangForm: floatGangForms.negate },
  "neg.f64": { lowering: signChange("Neg"), gangForm: doubleGangForms.negate },
  "min.f32": { lowering: extremeFloat("Min"), gangForm: floatGangForms.minimum },
  "min.xorsign.abs": extremeFloat("Min"),
  "min.f64": extremeFloat("Min"),
  "max.f32": { lowering: extremeFloat("Max"), gangForm: floatGangForms.maximum },
  "max.xorsign.abs": extremeFloat("Max"),
  "max.f64": extremeFloat("Max"),
  "rcp.approx": reciprocal,
  rcp: reciprocal,
  "rcp.approx.ftz": upperHalf("reciprocal"),
  "sqrt.approx": float("Sqrt"),
  "sqrt.f32": { lowering: float("Sqrt"), gangForm: floatGangForms.squareRoot },
  "sqrt.f64": { lowering: float("Sqrt"), gangForm: doubleGangForms.squareRoot },
  "rsqrt.approx.f32": reciprocalRoot,
  "rsqrt.approx.f64": reciprocalRoot64,
  "rsqrt.approx.ftz": upperHalf("reciprocalRoot"),
  "sin.approx": sine,
  "cos.approx": cosine,
  "lg2.approx": logarithm,
  "ex2.approx.f32": exponential,
  "tanh.approx.f32": hyperbolicTangent,
  // Floating-point arithmetic in 16 bits.
  "add.f16": halfSum("Add"),
  "sub.f16": halfSum("Sub"),
  "mul.f16": halfProduct,
  "fma.rn.f16": halfMultiplyAdd,
  "fma.rn.relu": halfMultiplyAdd,
  "fma.rn.bf16": halfMultiplyAdd,
  "fma.rn.oob": halfMultiplyAddInside,
  "neg.f16": halfSignChange("Neg"),
  "abs.f16": halfSignChange("Abs"),
  "min.f16": halfExtreme("Min"),
  "max.f16": halfExtreme("Max"),
  "tanh.approx.f16": halfTangent,
  "ex2.approx.f16": halfExponential,
  "ex2.approx.ftz": halfExponential,
}));

const comparisonLowerings = onFirstUse((): Lowerings<ComparisonName> => ({
  // Comparisons and selections.
  set: setValue,
  setp: { lowering: setPredicate, validity: setsPredicate, gangForm: gangComparison },
  selp: { lowering: selectByPredicate, validity: selects, gangForm: gangSelection },
  slct: { lowering: selectBySign, validity: movesBits(1, 2) },
  "set.f16": setValue,
  "setp.f16": { lowering: setPredicate, validity: setsPredicate },
}));

const logicLowerings = onFirstUse((): Lowerings<LogicName> => ({
  and: { lowering: integer("And"), validity: conjunction, gangForm: integerGangForms.and },
  or: { lowering: integer("Or"), validity: disjunction, gangForm: integerGangForms.or },
  xor: { lowering: integer("Xor"), validity: union, gangForm: integerGangForms.xor },
  not: { lowering: not, validity: union, gangForm: integerGangForms.not },
  cnot: logicalNot,
  lop3: { lowering: logicOfThree, validity: validityOfThree, gangForm: integerGangForms.logicOfThree },
  "lop3.combined": logicOfThree,
  shf: { lowering: funnelShift, validity: movesBits(1, 2), gangForm: integerGangForms.funnelShift },
  shl: { lowering: shiftBits("left"), validity: movesBits(1), gangForm: integerGangForms.shiftLeft },
  shr: { lowering: shiftBits("right"), validity: movesBits(1), gangForm: integerGangForms.shiftRight },
}));

const dataMovementLowerings = onFirstUse((): Lowerings<DataMovementName> => ({
  "mov.vector": { lowering: moveVector, validity: movesBits(1) },
  mov: { lowering: move, validity: movesBits(1), gangForm: gangMove },
  prmt: { lowering: permuteBytes, validity: movesBits(1, 2), gangForm: integerGangForms.permuteBytes },
  ld: { lowering: load, validity: "emitted", gangForm: gangLoad },
  ldu: { lowering: load, validity: "emitted" },
  st: { lowering: store, gangForm: gangStore },
  prefetch: cacheHint,
  createpolicy: createPolicy,
  "mov.b128": { lowering: moveWide, validity: movesBits(1) },
  // These instructions have no gang forms: a gang accesses 128-bit values for one thread at a time.
  "ld.b128": { lowering: loadWide, validity: "emitted" },
  "st.b128": storeWide,
  "ldu.b128": { lowering: loadWide, validity: "emitted" },
  "atom.b128": { lowering: atomicWide, validity: "emitted" },
  isspacep: isInSpace,
  cvta: convertAddress("i64Add"),
  "cvta.to": convertAddress("i64Sub"),
  cvt: { lowering: convert, validity: converts, gangForm: gangConversion },
  "cvt.f16": convert,
  "cvt.f16x2": { lowering: convertToPair, validity: packsHalves },
  "cvt.tf32": convertToTensorFloat,
  "cvt to 8 bits": convertToEightBits,
  "cvt from 8 bits": convertFromEightBits,
  "cvt.pack": pack,
  "cp.async": copyAsynchronously,
  "cp.async.bulk to shared": copyBulk("global", "shared"),
  "cp.async.bulk to several blocks": multicastBulk,
  "cp.async.bulk to global": copyBulk("shared", "global"),
  "cp.async.bulk within shared": copyBulk("shared", "shared"),
  "cp.async.bulk groups": awaitBulkCopies,
  "cp.reduce.async.bulk": reduceBulk,
  "cp.async.bulk.tensor to shared": loadTensor,
  "cp.async.bulk.tensor to several blocks": multicastTensor,
  "cp.async.bulk.tensor to global": storeTensor,
  "cp.async.bulk.prefetch.tensor": prefetchTensor,
  "tensormap.cp_fenceproxy": copyTensorMap,
  "tensormap.replace": replaceField,
  "st.async": storeAsynchronously,
  "cp.async.bulk.prefetch": prefetchBulk,
  "cp.async.commit_group": commitCopies,
  "cp.async.wait": awaitCopies,
}));

const controlFlowLowerings = onFirstUse((): Lowerings<ControlFlowName> => ({
  bra: "control flow",
  brx: "control flow",
  call: { lowering: "control flow", validity: "emitted" },
  ret: "control flow",
  exit: "control flow",
}));

const synchronizationLowerings = onFirstUse((): Lowerings<SynchronizationName> => ({
  "barrier.sync": barrierSync,
  "barrier.arrive": barrierArrive,
  "barrier.red": barrierReduction,
  "bar.sync": aligned(barrierSync),
  "bar.arrive": aligned(barrierArrive),
  "bar.red": aligned(barrierReduction),
  "bar.warp.sync": warpBarrier,
  shfl: shuffle,
  ldmatrix: { lowering: loadMatrices, validity: "emitted" },
  stmatrix: storeMatrices,
  movmatrix: transposeMatrix,
  vote,
  match,
  activemask: activeMask,
  redux: reduction,
  griddepcontrol: fence,
  elect,
  mapa: mapAddress,
  getctarank: rankOfAddress,
  "barrier.cluster.arrive": arriveAtCluster,
  "barrier.cluster.wait": waitForCluster,
  "mbarrier.init": initializeBarrier,
  "mbarrier.inval": invalidateBarrier,
  "mbarrier.expect_tx": transact(false),
  "mbarrier.complete_tx": transact(true),
  "mbarrier.arrive": arrive(false),
  "mbarrier.arrive_drop": arrive(true),
  "mbarrier.test_wait": testWait,
  "mbarrier.pending_count": pendingCount,
  "cp.async.mbarrier": arriveAfterCopies,
  nanosleep: sleep,
}));

/**
 * The lowerings of atomic instructions. All of them are sequentially consistent, which is stronger than any of them
 * requires.
 */
const atomicLowerings = onFirstUse((): Lowerings<AtomicName> => ({
  // All accesses are made in program order through a single proxy, so a fence between proxies needs no other code.
  fence,
  atom: { lowering: atomic(true), validity: "emitted" },
  red: atomic(false),
  "red.async": reduceAsynchronously,
}));

const matrixProductLowerings = onFirstUse((): Lowerings<MatrixProductName> => ({
  mma: { lowering: matrixProduct, validity: "emitted" },
  "mma.quads": { lowering: matrixProduct, validity: "emitted" },
  "mma.sp": { lowering: matrixProduct, validity: "emitted" },
  "wmma.load": loadFragment,
  "wmma.store": storeFragment,
  "wmma.mma": { lowering: matrixProduct, validity: "emitted" },
}));

const warpgroupProductLowerings = onFirstUse((): Lowerings<WarpgroupProductName> => ({
  "wgmma.mma_async": { lowering: warpgroupProduct, validity: "emitted" },
  "wgmma.mma_async.sp": { lowering: warpgroupProduct, validity: "emitted" },
  "wgmma.fence": orderProducts,
  "wgmma.wait_group": awaitProducts,
}));

const videoLowerings = onFirstUse((): Lowerings<VideoName> => ({
  vadd: videoArithmetic("add"),
  vsub: videoArithmetic("sub"),
  vabsdiff: videoArithmetic("absdiff"),
  vmin: videoArithmetic("min"),
  vmax: videoArithmetic("max"),
  vshl: videoShift("left"),
  vshr: videoShift("right"),
  vmad: videoMultiplyAdd,
  vset: videoComparison,
}));

const packedVideoLowerings = onFirstUse((): Lowerings<PackedVideoName> => ({
  vadd2: onElements("add", 2),
  vsub2: onElements("sub", 2),
  vavrg2: onElements("avrg", 2),
  vabsdiff2: onElements("absdiff", 2),
  vmin2: onElements("min", 2),
  vmax2: onElements("max", 2),
  vset2: onElements("set", 2),
  vadd4: onElements("add", 4),
  vsub4: onElements("sub", 4),
  vavrg4: onElements("avrg", 4),
  vabsdiff4: onElements("absdiff", 4),
  vmin4: onElements("min", 4),
  vmax4: onElements("max", 4),
  vset4: onElements("set", 4),
}));

const miscellaneousLowerings = onFirstUse((): Lowerings<MiscellaneousName> => ({
  stacksave: saveStack,
  stackrestore: restoreStack,
  alloca: allocateOnStack,
  pmevent: performanceEvent,
  brkpt: breakpoint,
  trap,
  setmaxnreg: redistributeRegisters,
}));

const textureLowerings = onFirstUse((): Lowerings<TextureName> => ({
  tex: readTexture("sample"),
  "tex.level": readTexture("level"),
  "tex.grad": readTexture("gradient"),
  tld4: readTexture("gather"),
  txq: queryTexture,
  "txq.level": queryTexture,
  istypep: isTextureType,
  suld: loadSurface,
  "sust.b": storeSurface("store"),
  "sust.p": storeSurface("storeFormatted"),
  "sured.b": reduceSurface("reduce"),
  "sured.p": reduceSurface("reduceFormatted"),
  suq: queryTexture,
}));

let forms: readonly InstructionForm[] | undefined;
let formsByOpcode: InstructionSet["forms"] | undefined;

/**
 * Returns the table of all supported instructions: their syntax, the section of the PTX ISA manual (version 9.0) that
 * defines them, their lowerings, and their traits. All other instructions cause a compilation error. The table is
 * created on first use, because programs that compile no PTX import this module, too.
 */
export function allInstructions(): readonly InstructionForm[] {
  return forms ??= [
    ...lowered(integerRows(), integerLowerings()),
    ...lowered(floatRows(), floatLowerings()),
    ...lowered(comparisonRows(), comparisonLowerings()),
    ...lowered(logicRows(), logicLowerings()),
    ...lowered(dataMovementRows(), dataMovementLowerings()),
    ...lowered(controlFlowRows(), controlFlowLowerings()),
    ...lowered(synchronizationRows(), synchronizationLowerings()),
    ...lowered(matrixProductRows(), matrixProductLowerings()),
    ...lowered(warpgroupProductRows(), warpgroupProductLowerings()),
    ...lowered(atomicRows(), atomicLowerings()),
    ...lowered(videoRows(), videoLowerings()),
    ...lowered(packedVideoRows(), packedVideoLowerings()),
    ...lowered(miscellaneousRows(), miscellaneousLowerings()),
    ...lowered(textureRows(), textureLowerings()),
    ...refusedForms(),
  ];
}

/** Creates an instruction set from the given forms. */
export function instructionSetOf(forms: readonly InstructionForm[]): InstructionSet {
  return { forms: byOpcode(forms), refusals: refusedOpcodes, isSpecialRegister };
}

/** The instruction set of the software device. */
export const instructionSet: InstructionSet = {
  get forms() {
    return formsByOpcode ??= byOpcode(allInstructions());
  },
  refusals: refusedOpcodes,
  isSpecialRegister,
};

function byOpcode(forms: readonly InstructionForm[]): InstructionSet["forms"] {
  return Map.groupBy(forms, ({ opcode }) => opcode);
}
