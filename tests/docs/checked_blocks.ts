/**
 * The TypeScript of the pages and examples, and the expressions in the tables of CUDA's calls, as files for a type
 * checker.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { columnsOfPage } from "./blocks.ts";
import { blocks, examples, nameOf, readProjectFile, TemporaryFolder } from "./scripts.ts";

/** Saves all of it into a folder, and returns the paths of the files. */
export function saveCheckedBlocks(folder: TemporaryFolder): string[] {
  const page = "docs/coming_from_cuda.md";
  const tables = columnsOfPage(page, readProjectFile(page), "poolpass");
  if (tables.length < 7) throw new Error(`Cannot find the tables of ${page}`);
  return [...blocks, ...examples, ...tables].filter(({ language }) => language === "ts").map((block, index) =>
    fileURLToPath(folder.save(block, `${nameOf(block).replaceAll(/\W/g, "_")}_${index}.ts`))
  );
}

// As a program, prints the paths, for .ci/run, which checks these files together with all others.
if (import.meta.main) console.log(saveCheckedBlocks(new TemporaryFolder()).join("\n"));
