/**
 * The program `poolpass`: `npx poolpass COMMAND`, in a checkout `deno run -A cli/main.ts COMMAND`.
 *
 * @module
 */
import process from "node:process";
import { run } from "./poolpass.ts";

const interrupted = new AbortController();
const interrupt = () => interrupted.abort();
process.on("SIGINT", interrupt);
process.on("SIGTERM", interrupt);
process.on("SIGHUP", interrupt);
process.exitCode = await run(process.argv.slice(2), {
  print: (text) => console.log(text),
  printError: (text) => console.error(text),
  signal: interrupted.signal,
  isInteractive: true,
});
process.off("SIGINT", interrupt);
process.off("SIGTERM", interrupt);
process.off("SIGHUP", interrupt);
