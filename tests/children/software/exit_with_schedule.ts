/**
 * Opens the software device with a random schedule and exits. Arguments: the exit code.
 *
 * @module
 */
import process from "node:process";
import { open } from "../../../mod.ts";

open({ driver: "software", softwareSchedule: "random" })[Symbol.dispose]();
process.exit(Number(process.argv[2]));
