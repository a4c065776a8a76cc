import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import { type FunctionDeclaration, PtxError } from "../../../ptx/syntax.ts";
import { CompiledBodyResolver } from "./body_resolver.ts";
import { type CallLayout, callTarget, frameAlignment, layOutCall } from "./call_layout.ts";
import type { ModuleScope } from "./module_scope.ts";
import type { FunctionName, LabelName, Variable } from "../../../ptx/instructions/resolved_instruction.ts";
import { Scope, SpaceLayout } from "../../../ptx/instructions/names.ts";
import { ModuleLocalLayout, registerScope, type RegisterUser, shareRegisters } from "./module_locals.ts";
import { SharedLayout } from "./shared_layout.ts";
import { roundUp } from "../../../support/rounding.ts";
import type { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";

/** A resolved function: its body as a sequence of instructions and labels, and the layout of its frame. */
export interface ResolvedFunction {
  readonly name: string;
  readonly line: number;
  /** The layout of the function's results and parameters. Undefined for a kernel. */
  readonly call: CallLayout | undefined;
  readonly items: readonly (CompiledInstruction | LabelName)[];
  /** The size of the `.local` variables, parameters and results in the function's frame, in bytes. */
  readonly variableBytes: number;
  /** `variableBytes`, rounded up to `frameAlignment`. */
  readonly frameBytes: number;
  /**
   * The alignment of the frame, in bytes. It is the same for all functions of a kernel, so that a callee's frame begins
   * where the caller's frame ends.
   */
  readonly frameAlignment: number;
}

/** Returns a function's instructions, without its labels. */
export function instructionsOf({ items }: ResolvedFunction): CompiledInstruction[] {
  return items.filter((item) => item.kind === "instruction");
}

/** A kernel, and the functions that it may call, directly or indirectly. */
export interface ResolvedKernel {
  readonly kernel: ResolvedFunction;
  readonly callees: ReadonlyMap<FunctionName, ResolvedFunction>;
  readonly sharedBytes: number;
  /** Whether the kernel or a callee uses dynamic shared memory. */
  readonly usesDynamicShared: boolean;
}

/** The layout of a kernel's parameters, and the declarations of its module. */
export interface KernelContext {
  readonly parameters: readonly Variable[];
  readonly module: ModuleScope;
}

/**
 * Resolves the names and instruction forms in the bodies of a kernel and the functions that it may call. Throws
 * `PtxError` for an undeclared name or an unknown instruction, and `UnsupportedPtxError` for PTX that the device does
 * not support.
 */
export function resolveKernel(declaration: FunctionDeclaration, context: KernelContext): ResolvedKernel {
  const { resolved, unsupported } = surveyKernel(declaration, context);
  if (unsupported[0] !== undefined) throw unsupported[0];
  return resolved;
}

/**
 * Resolves a kernel without its unsupported instructions, and returns the errors for these instructions in
 * `unsupported`. Throws `PtxError` like `resolveKernel`.
 */
export function surveyKernel(
  declaration: FunctionDeclaration,
  { parameters, module }: KernelContext,
): { readonly resolved: ResolvedKernel; readonly unsupported: readonly UnsupportedPtxError[] } {
  const shared = new SharedLayout();
  const moduleLocals = new ModuleLocalLayout();
  const unsupported: UnsupportedPtxError[] = [];
  const common = { module, shared, moduleLocals, unsupported };
  const kernelRegisters = registerScope(module.registers);
  const scope = new Scope(kernelRegisters);
  for (const parameter of parameters) scope.declare(parameter, declaration.line);
  const main = resolveFunction(declaration, { ...common, scope, call: undefined });
  const users: RegisterUser[] = [{ resolved: main, registers: kernelRegisters }];
  const names = new Set<FunctionName>();
  let callsAny = false;
  /**
   * Returns the functions with a body that a function may call. All indirect calls have the same possible targets,
   * which are returned only for the first function that makes an indirect call.
   */
  const calledBy = ({ items }: ResolvedFunction) => {
    const called: FunctionName[] = [];
    for (const item of items) {
      if (item.kind === "label" || item.form.flow !== "call") continue;
      const target = callTarget(item);
      if (target.kind === "function") {
        if (target.declaration.body !== undefined) called.push(target);
      } else if (!callsAny) {
        callsAny = true;
        for (const name of module.addressed) called.push(name);
      }
    }
    return called;
  };
  const waiting = calledBy(main);
  for (let callee = waiting.pop(); callee !== undefined; callee = waiting.pop()) {
    if (names.has(callee)) continue;
    names.add(callee);
    const call = layOutCall(callee.declaration);
    const registers = registerScope(module.registers);
    const resolved = resolveFunction(callee.declaration, { ...common, scope: new Scope(registers), call });
    users.push({ resolved, registers });
    for (const name of calledBy(resolved)) waiting.push(name);
  }
  const usesDynamicShared = shared.placeDynamic();
  const [first, ...rest] = shareRegisters(users, { locals: moduleLocals, instructions: module.instructions });
  const kernel = { ...first!, variableBytes: moduleLocals.placeAfter(first!.variableBytes) };
  const callees = new Map([...names].map((name, index) => [name, rest[index]!]));
  let frameAlignment = Math.max(kernel.frameAlignment, moduleLocals.alignment);
  for (const callee of callees.values()) frameAlignment = Math.max(frameAlignment, callee.frameAlignment);
  const aligned = (resolved: ResolvedFunction): ResolvedFunction => {
    return { ...resolved, frameAlignment, frameBytes: roundUp(resolved.variableBytes, frameAlignment) };
  };
  return {
    resolved: {
      kernel: aligned(kernel),
      callees: new Map([...callees].map(([name, resolved]) => [name, aligned(resolved)])),
      sharedBytes: shared.byteLength,
      usesDynamicShared,
    },
    unsupported,
  };
}

function resolveFunction(
  { name, line, body, directives }: FunctionDeclaration,
  { scope, module, shared, moduleLocals, unsupported, call }: {
    scope: Scope;
    module: ModuleScope;
    shared: SharedLayout;
    moduleLocals: ModuleLocalLayout;
    /** Receives the errors for unsupported instructions. */
    unsupported: UnsupportedPtxError[];
    call: CallLayout | undefined;
  },
): ResolvedFunction {
  for (const directive of directives) {
    if (call !== undefined && !functionDirectives.has(directive.name)) {
      throw new PtxError(directive.line, `cannot use the directive ".${directive.name}": it is not known`);
    }
  }
  const frame = new SpaceLayout("local", { isInFrame: true, begin: call?.byteLength ?? 0 });
  const resolver = new CompiledBodyResolver(module, { shared, moduleLocals, frame, unsupported });
  if (call !== undefined) resolver.declareCall(call, { scope, line });
  resolver.statements(body!, scope);
  resolver.storeResults(line);
  const variableBytes = frame.byteLength;
  const alignment = Math.max(frameAlignment, frame.alignment, call?.alignment ?? 1);
  const frameBytes = roundUp(variableBytes, alignment);
  return { name, line, call, items: resolver.items, variableBytes, frameBytes, frameAlignment: alignment };
}

/** Directives on a function that do not change its results. */
const functionDirectives: ReadonlySet<string> = new Set([
  "noreturn",
  "noinline",
  "unified",
  "pragma",
  "maxnreg",
  "abi_preserve",
  "abi_preserve_control",
]);
