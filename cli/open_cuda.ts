import { type Cuda, open } from "../mod.ts";
import { UsageError } from "./command_line.ts";

/**
 * Opens what `--driver` names; without it, what `open` takes by itself.
 *
 * @throws {UsageError} If there is no such driver
 */
export function openCuda(driver: string | undefined): Cuda {
  if (driver === undefined) return open();
  if (driver === "cuda" || driver === "software") return open({ driver });
  throw new UsageError(`There is no driver "${driver}": it is cuda or software`);
}
