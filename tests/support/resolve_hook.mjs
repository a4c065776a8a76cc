// Resolves the import map's names for Node: node --import ./tests/support/resolve_hook.mjs --test tests/
import { registerHooks } from "node:module";

const packages = {
  "@std/assert": new URL("../../node_modules/deno-std/assert/mod.js", import.meta.url).href,
  "@std/cli/parse-args": new URL("../../node_modules/deno-std/cli/parse_args.js", import.meta.url).href,
};

registerHooks({
  resolve: (specifier, context, nextResolve) => nextResolve(packages[specifier] ?? specifier, context),
});
