/**
 * Opens the software device of a checkout of poolpass.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import type { Cuda } from "../../mod.ts";

type CudaModule = typeof import("../../src/objects/cuda.ts");
type SessionModule = typeof import("../../src/session.ts");
type DriverModule = typeof import("../../src/software/software_driver.ts");

/** A checkout whose software device can be opened. */
export interface Checkout {
  open(options: { threads: number; gangs: boolean }): Cuda;
}

/** Imports poolpass from a folder, which may be another one than that of this file. */
export async function importCheckout(folder: string): Promise<Checkout> {
  const from = <Module>(path: string): Promise<Module> => import(pathToFileURL(`${folder}/${path}`).href);
  const { Cuda } = await from<CudaModule>("src/objects/cuda.ts");
  const { Session } = await from<SessionModule>("src/session.ts");
  const { SoftwareDriver } = await from<DriverModule>("src/software/software_driver.ts");
  return {
    open: (options) => new Cuda(new Session(new SoftwareDriver({ devices: 1, peers: false, ...options }))),
  };
}
