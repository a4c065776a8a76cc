/**
 * Compiling and loading on a device.
 *
 * @module
 */
import type { CompileOptions } from "../../compile/compile_options.ts";
import type { CudaDevice } from "../cuda_device.ts";
import type { CudaModule } from "./cuda_module.ts";
import { loadModule } from "./load_module.ts";
import type { Session } from "../../session.ts";

/** Compiles CUDA C++ for a device, and loads it there. */
export function compileModule(
  session: Session,
  device: CudaDevice,
  source: string,
  options: CompileOptions,
): CudaModule {
  const { driver } = session;
  const target = {
    computeCapability: device.computeCapability,
    driverVersion: driver.driverGetVersion(),
    executesMachineCode: driver.executesMachineCode,
  };
  const { ptx, cubin, log, loweredNames } = session.compilers.compileFor(target, source, options);
  return loadModule(session, device, cubin ?? ptx, { ptx, log, loweredNames });
}
