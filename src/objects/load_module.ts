/**
 * Loading of modules on a device.
 *
 * @module
 */
import type { CudaDevice } from "./cuda_device.ts";
import { CudaModule } from "./cuda_module.ts";
import type { JitOptions } from "../driver.ts";
import { kernelSignatures } from "../ptx/kernel_signature.ts";
import { ptxText, ptxVariableNames } from "../ptx/ptx_text.ts";
import type { Session } from "../session.ts";
import { cannot } from "../support/driver_errors.ts";

/** What is known of a module besides its image. */
export interface ModuleSource {
  /** What the JIT is to do. They have been checked. */
  readonly options?: JitOptions;
  /**
   * The PTX that declares the image's kernels and variables. It differs from the image if that is a cubin that was
   * compiled from the PTX. Defaults to the image's own text; a cubin has none.
   */
  readonly ptx?: string;
  /** What the compiler has said: the module's log begins with it. */
  readonly log?: string;
  /** The names in the PTX of C++ names, such as `scale<float>`: the module finds what they name by both. */
  readonly loweredNames?: ReadonlyMap<string, string>;
}

/** Loads an image, which `checkImage` has accepted. */
export function loadModule(
  session: Session,
  device: CudaDevice,
  image: string | Uint8Array,
  { options, ptx = ptxText(image), log = "", loweredNames = new Map() }: ModuleSource = {},
): CudaModule {
  const { driver } = session;
  const logs = [log];
  let handle: bigint;
  try {
    handle = driver.moduleLoadData(device.ordinal, image, { ...options, onInfoLog: (text) => logs.push(text) });
  } catch (error) {
    throw cannot(`load a module on device ${device.ordinal}`, error);
  }
  try {
    return new CudaModule(session, {
      device,
      handle,
      signatures: ptx === undefined ? [] : kernelSignatures(ptx),
      variableNames: ptx === undefined ? [] : ptxVariableNames(ptx),
      loweredNames,
      log: joinLogs(logs),
    });
  } catch (error) {
    driver.moduleUnload(device.ordinal, handle);
    throw error;
  }
}

/** What several compilers have said, one after another. */
function joinLogs(logs: readonly string[]): string {
  return logs.map((log) => log.trim()).filter((log) => log !== "").join("\n");
}
