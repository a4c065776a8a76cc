import type { JitOptions } from "../../driver.ts";
import { checkBoolean, checkOptions, type OptionNames, shown } from "../../support/validation.ts";

/**
 * Options of the driver's JIT compiler, which compiles PTX. The software device checks and ignores them: it has no
 * registers to limit, and its errors name lines of the source whenever the PTX has line information.
 */
export interface LoadModuleOptions {
  /**
   * The maximum number of registers of a thread (`CU_JIT_MAX_REGISTERS`), 1 to 255. Fewer registers allow more threads
   * on a multiprocessor; values that do not fit are kept in local memory, which is slower.
   */
  maxRegisters?: number;
  /** The level of optimization (`CU_JIT_OPTIMIZATION_LEVEL`), 0 to 4. Defaults to 4, the highest. */
  optimizationLevel?: number;
  /** Whether debuggers and profilers can name the source's lines (`CU_JIT_GENERATE_LINE_INFO`). Defaults to false. */
  lineInfo?: boolean;
  /** Whether to compile for a debugger (`CU_JIT_GENERATE_DEBUG_INFO`), which makes the code slow. Defaults to false. */
  debug?: boolean;
  /**
   * Whether the module's `log` has details such as the registers of each kernel (`CU_JIT_LOG_VERBOSE`).
   * Defaults to false.
   */
  verbose?: boolean;
}

const names: OptionNames<LoadModuleOptions> = {
  maxRegisters: true,
  optimizationLevel: true,
  lineInfo: true,
  debug: true,
  verbose: true,
};

/** What the options are called in CUDA, by its compilers, or by other libraries. */
const instead = {
  maxrregcount: 'did you mean "maxRegisters"?',
  maxRegisterCount: 'did you mean "maxRegisters"?',
  registers: 'did you mean "maxRegisters"?',
  optLevel: 'did you mean "optimizationLevel"?',
  lineinfo: 'did you mean "lineInfo"?',
  generateLineInfo: 'did you mean "lineInfo"?',
  generateDebugInfo: 'did you mean "debug"?',
};

/** The most registers that any device has for a thread. */
const maximumRegisters = 255;
const maximumOptimizationLevel = 4;

/** Checks the options of `CudaDevice.loadModule` or `CudaDevice.link`, and returns a copy. */
export function jitOptions(options: LoadModuleOptions, action: string): JitOptions {
  checkOptions(options, { action, names, instead });
  const { maxRegisters, optimizationLevel, lineInfo, debug, verbose } = options;
  checkInteger(maxRegisters, "maxRegisters", [1, maximumRegisters]);
  checkInteger(optimizationLevel, "optimizationLevel", [0, maximumOptimizationLevel]);
  for (const [name, value] of Object.entries({ lineInfo, debug, verbose })) {
    if (value !== undefined) checkBoolean(value, `a module's ${name}`);
  }
  return { maxRegisters, optimizationLevel, lineInfo, debug, verbose };
}

function checkInteger(value: number | undefined, name: string, [minimum, maximum]: [number, number]): void {
  if (value === undefined) return;
  if (typeof value !== "number") {
    const bounds = `it must be a whole number from ${minimum} to ${maximum}`;
    throw new TypeError(`Cannot use ${shown(value)} as a module's ${name}: ${bounds}`);
  }
  if (!Number.isInteger(value) || value < minimum || value > maximum) {
    throw new RangeError(
      `Cannot use ${value} as a module's ${name}: it must be a whole number from ${minimum} to ${maximum}`,
    );
  }
}
