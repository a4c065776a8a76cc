// Resolves the import map's names for Node: node --import ./tests/support/resolve_hook.mjs --test tests/
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const root = new URL("../../", import.meta.url);
const { imports } = JSON.parse(readFileSync(new URL("import_map.json", root), "utf8"));
/** The modules that npm has installed, by name: `npm:deno-std@1.4.0/assert/mod.js` is in `node_modules/deno-std`. */
const modules = Object.fromEntries(
  Object.entries(imports).map(([name, specifier]) => [
    name,
    new URL(specifier.replace(/^npm:([\w-]+)@[\w.-]+\//, "node_modules/$1/"), root).href,
  ]),
);

registerHooks({
  resolve: (specifier, context, nextResolve) => nextResolve(modules[specifier] ?? specifier, context),
});
