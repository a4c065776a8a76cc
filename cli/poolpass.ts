/**
 * Dispatches the commands of `poolpass`.
 *
 * @module
 */
import { suggestName } from "../src/support/validation.ts";
import { version } from "../src/support/version.ts";
import { bindCommand } from "./bind/bind.ts";
import { type Command, type Terminal, UsageError } from "./command_line.ts";
import { devicesCommand } from "./devices.ts";
import { doctorCommand } from "./doctor.ts";
import { listCommand } from "./list.ts";
import { metricsCommand } from "./metrics.ts";
import { storeCommand } from "./store.ts";
import { topCommand } from "./top.ts";
import { traceCommand } from "./trace.ts";
import { weightsCommand } from "./weights.ts";

const commands: readonly Command[] = [
  bindCommand,
  devicesCommand,
  doctorCommand,
  listCommand,
  metricsCommand,
  storeCommand,
  topCommand,
  traceCommand,
  weightsCommand,
];

/** Runs a command line. Resolves to the exit code: 1 if the command failed, 2 if the command line is wrong. */
export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const [name = "--help", ...rest] = args;
  if (name === "--version" || name === "-v") {
    terminal.print(`poolpass ${version}`);
    return 0;
  }
  const isHelp = name === "--help" || name === "-h" || name === "help";
  const asked = isHelp ? rest[0] : name;
  if (isHelp && asked === undefined) {
    terminal.print(help());
    return args.length === 0 ? 2 : 0;
  }
  const command = commands.find(({ name }) => name === asked);
  if (command === undefined) {
    const what = asked!.startsWith("-") ? "option" : "command";
    const suggestion = suggestName(asked!, commands.map(({ name }) => name), "the commands are");
    terminal.printError(`There is no ${what} "${asked}"; ${suggestion}`);
    return 2;
  }
  const end = rest.indexOf("--");
  const options = end < 0 ? rest : rest.slice(0, end);
  if (isHelp || options.includes("--help") || options.includes("-h")) {
    terminal.print(command.help);
    return 0;
  }
  try {
    return await command.run(rest, terminal);
  } catch (error) {
    const isUsage = error instanceof UsageError;
    terminal.printError(
      `${(error as Error).message}${isUsage ? `; poolpass ${command.name} --help lists the options` : ""}`,
    );
    return isUsage ? 2 : 1;
  }
}

function help(): string {
  const lines = commands.map(({ name, summary }) => `  ${name.padEnd(10)}${summary}`);
  return `Usage: poolpass COMMAND [options]

Commands:
${lines.join("\n")}

poolpass COMMAND --help describes a command. --version prints the version of poolpass.`;
}
