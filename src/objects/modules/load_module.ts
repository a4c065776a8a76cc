/**
 * Loading of modules on a device, from one image or from several that are linked.
 *
 * @module
 */
import type { CudaDevice } from "../cuda_device.ts";
import { CudaModule } from "./cuda_module.ts";
import type { JitOptions, LinkedImage } from "../../driver.ts";
import { type KernelSignature, kernelSignatures } from "../../ptx/kernel_signature.ts";
import type { SurveyedPtx } from "../../ptx/instruction_support.ts";
import { ptxText, ptxVariableNames } from "../../ptx/ptx_text.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { countOf } from "../../support/printing.ts";

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
  { options, ptx = ptxText(image), log = "", loweredNames }: ModuleSource = {},
): CudaModule {
  const logs = [log];
  let handle: bigint;
  try {
    const onInfoLog = (text: string) => void logs.push(text);
    handle = session.driver.moduleLoadData(device.ordinal, image, { ...options, onInfoLog });
  } catch (error) {
    throw cannot(`load a module on device ${device.ordinal}`, error);
  }
  const isBinary = ptx === undefined;
  return createModule(session, device, { handle, ptx: isBinary ? [] : [{ ptx }], isBinary, logs, loweredNames });
}

/** Links images, which have been checked, and loads the result. */
export function linkModule(
  session: Session,
  device: CudaDevice,
  images: readonly LinkedImage[],
  { options }: ModuleSource = {},
): CudaModule {
  const logs: string[] = [];
  let handle: bigint;
  try {
    const onInfoLog = (text: string) => void logs.push(text);
    handle = session.driver.linkModules(device.ordinal, images, { ...options, onInfoLog });
  } catch (error) {
    throw cannot(`link ${countOf(images.length, "image")} on device ${device.ordinal}`, error, linkHint(error));
  }
  const ptx = images.flatMap(({ name, image }) => {
    const text = ptxText(image);
    return text === undefined ? [] : [{ name, ptx: text }];
  });
  return createModule(session, device, { handle, ptx, isBinary: ptx.length < images.length, logs });
}

/** Makes the object of a module that the driver has loaded. Unloads the module if that fails. */
function createModule(
  session: Session,
  device: CudaDevice,
  { handle, ptx, isBinary, logs, loweredNames }: {
    handle: bigint;
    /** The images that are PTX. */
    ptx: readonly SurveyedPtx[];
    isBinary: boolean;
    logs: readonly string[];
    loweredNames?: ReadonlyMap<string, string>;
  },
): CudaModule {
  try {
    const { signatures, isAmbiguous } = mergeSignatures(ptx.flatMap(({ ptx }) => kernelSignatures(ptx)));
    return new CudaModule(session, {
      device,
      handle,
      signatures,
      variableNames: ptx.flatMap(({ ptx }) => ptxVariableNames(ptx)),
      isBinary: isBinary || isAmbiguous,
      ptx: isBinary ? undefined : ptx,
      loweredNames,
      log: joinLogs(logs),
    });
  } catch (error) {
    session.driver.moduleUnload(device.ordinal, handle);
    throw error;
  }
}

/**
 * The signature of each name. Images may each have a kernel of a name if it is weak, or not visible to the others. If
 * these differ, no signature is taken: the driver knows the one that it finds.
 */
function mergeSignatures(
  signatures: readonly KernelSignature[],
): { signatures: KernelSignature[]; isAmbiguous: boolean } {
  const byName = new Map<string, KernelSignature>();
  const ambiguous = new Set<string>();
  for (const signature of signatures) {
    const { name } = signature;
    const other = byName.get(name);
    if (other !== undefined && JSON.stringify(other) !== JSON.stringify(signature)) ambiguous.add(name);
    byName.set(name, signature);
  }
  for (const name of ambiguous) byName.delete(name);
  return { signatures: [...byName.values()], isAmbiguous: ambiguous.size > 0 };
}

/** What to do about the commonest errors of linkers. */
function linkHint(error: unknown): string | undefined {
  const message = error instanceof CudaError ? error.message : "";
  if (message.includes("Undefined reference to ")) return "link the image that defines it, too";
  if (message.includes("Multiple definition of ")) return "define it in one image, and declare it extern in the others";
  return undefined;
}

/** What several compilers have said, one after another. */
function joinLogs(logs: readonly string[]): string {
  return logs.map((log) => log.trim()).filter((log) => log !== "").join("\n");
}
