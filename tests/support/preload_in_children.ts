import process from "node:process";

interface DenoNamespace {
  Command: new (command: string, options?: { readonly args?: readonly string[] }) => object;
}

/** Makes processes that are started by `Deno.Command` and run a script in Deno preload a module. */
export function preloadInChildren(path: string): void {
  const { Deno: deno } = globalThis as unknown as { Deno: DenoNamespace };
  deno.Command = class extends deno.Command {
    constructor(command: string, options: { readonly args?: readonly string[] } = {}) {
      const args = [...options.args ?? []];
      const begin = command === process.execPath ? 0 : args.indexOf(process.execPath) + 1;
      if (args[begin] === "run") args.splice(begin + 1, 0, `--preload=${path}`);
      super(command, { ...options, args });
    }
  };
}
