/**
 * Writes `docs/ptx_instructions.md`.
 *
 *     deno task docs:instructions
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { answerHelp } from "../../support/program_help.ts";
import { instructionPage } from "./page.ts";

answerHelp(import.meta.url);
const page = fileURLToPath(new URL("../../../docs/ptx_instructions.md", import.meta.url));
writeFileSync(page, instructionPage());
const { status } = spawnSync(process.execPath, ["fmt", "--quiet", page], { stdio: "inherit" });
process.exitCode = status ?? 1;
