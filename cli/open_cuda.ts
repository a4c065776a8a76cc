import { type Cuda, open } from "../mod.ts";
import { UsageError } from "./command_line.ts";

/**
 * Opens the driver named by the option `--driver`. If the option is not given, opens the default driver of `open`.
 *
 * @throws {UsageError} If there is no driver of this name
 */
export function openCuda(driver: string | undefined): Cuda {
  if (driver === undefined) return open();
  if (driver === "cuda" || driver === "software") return open({ driver });
  throw new UsageError(`There is no driver "${driver}": it is cuda or software`);
}
