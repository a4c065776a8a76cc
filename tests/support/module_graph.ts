/**
 * The modules of the library and their imports, read from the sources: type imports, which no program loads, are
 * included.
 */

import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { modulesBeside } from "../../packaging/imports.ts";

/** One import. */
export interface Import {
  readonly from: string;
  readonly to: string;
  /** Whether only types are imported, so that the import is erased at run time. */
  readonly isOfTypes: boolean;
}

const root = new URL("../../", import.meta.url);

/** The imports of `mod.ts`, of the modules beside it and of every module in `src/` and `ffi/`. */
export function importsOfLibrary(): Import[] {
  const files = ["src/", "ffi/"].flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts")).map((file) => folder + file)
  );
  return ["mod.ts", ...modulesBeside.map((part) => `${part}.ts`), ...files].flatMap((file) =>
    importsOf(file, readFileSync(new URL(file, root), "utf8"))
  );
}

/** The relative imports and re-exports of a module, without those in comments. */
export function importsOf(from: string, source: string): Import[] {
  const code = source.replaceAll(/\/\*.*?\*\//gs, "").replaceAll(/^\s*\/\/.*$/gm, "");
  const statements = code.matchAll(/^(?:import|export)\s+(type\s)?\s*([^;"]*?)(?:\s*from)?\s*"(\.[^"]+)"/gm);
  return [...statements].map(([, type, names, specifier]) => ({
    from,
    to: posix.join(posix.dirname(from), specifier!),
    isOfTypes: type !== undefined || namesOnlyTypes(names!),
  }));
}

function namesOnlyTypes(clause: string): boolean {
  const names = /^\{(.*)\}$/s.exec(clause.trim())?.[1]?.split(",").map((name) => name.trim()).filter(Boolean);
  return names !== undefined && names.length > 0 && names.every((name) => name.startsWith("type "));
}

/** The groups of modules that import each other, directly or indirectly, sorted. */
export function cyclesOf(imports: readonly Import[]): string[][] {
  const targets = Map.groupBy(imports, ({ from }) => from);
  const reachable = new Map<string, Set<string>>();
  for (const start of targets.keys()) {
    const seen = new Set<string>();
    const pending = [start];
    while (pending.length > 0) {
      for (const { to } of targets.get(pending.pop()!) ?? []) {
        if (!seen.has(to)) pending.push(to);
        seen.add(to);
      }
    }
    reachable.set(start, seen);
  }
  const groups = new Map<string, string[]>();
  for (const [module, targets] of reachable) {
    if (!targets.has(module)) continue;
    const group = [...targets].filter((other) => reachable.get(other)?.has(module)).sort();
    groups.set(group.join(), group);
  }
  return [...groups.values()];
}
