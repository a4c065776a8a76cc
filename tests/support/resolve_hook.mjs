// Resolves the import map's names for Node: node --import ./tests/support/resolve_hook.mjs --test tests/
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const root = new URL("../../", import.meta.url);
const { imports } = JSON.parse(readFileSync(new URL("import_map.json", root), "utf8"));
/** The modules that npm has installed, by name: `npm:deno-std@1.4.0/assert/mod.js` is in `node_modules/deno-std`. */
const modules = {};
for (const [name, specifier] of Object.entries(imports)) {
  const [, packageName, path] = /^npm:([\w-]+)@[\w.-]+\/(.*)$/.exec(specifier) ?? [];
  if (path !== undefined) modules[name] = new URL(`node_modules/${packageName}/${path}`, root).href;
}

registerHooks({
  resolve: (specifier, context, nextResolve) => nextResolve(modules[specifier] ?? specifier, context),
});
