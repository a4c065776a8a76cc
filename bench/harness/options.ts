/**
 * The command lines of benchmarks.
 *
 * @module
 */
import { parseArgs } from "@std/cli/parse-args";
import { answerHelp } from "../../tests/support/program_help.ts";

/**
 * The options of a benchmark, each with its value if it is not given: a count, a string, a flag, or a list of strings, to
 * which each use of the option adds one.
 */
export type Options = Readonly<Record<string, number | string | boolean | readonly string[]>>;

type Widened<Value> = Value extends number ? number
  : Value extends string ? string
  : Value extends boolean ? boolean
  : readonly string[];

/**
 * Reads the options of a benchmark from the command line. Answers `--help` and `--version`, and exits if there is
 * anything else that the benchmark does not take.
 *
 * @param url the benchmark's `import.meta.url`
 */
export function readOptions<Defaults extends Options>(
  url: string,
  defaults: Defaults,
): { readonly [Name in keyof Defaults]: Widened<Defaults[Name]> } {
  const names = Object.keys(defaults);
  answerHelp(url, names);
  const namesOf = (isKind: (value: Options[string]) => boolean) => names.filter((name) => isKind(defaults[name]!));
  const { _: surplus, ...given } = parseArgs(Deno.args, {
    string: namesOf((value) => typeof value !== "boolean"),
    boolean: namesOf((value) => typeof value === "boolean"),
    collect: namesOf((value) => typeof value === "object"),
  }) as Record<string, string | boolean | string[]> & { _: readonly (string | number)[] };
  if (surplus.length > 0) refuse(`Cannot use "${surplus[0]}": there are only options`);
  return Object.fromEntries(names.map((name) => {
    const [usual, value] = [defaults[name]!, given[name]];
    if (value === undefined || value === "" && typeof usual === "number") return [name, usual];
    if (typeof usual !== "number") return [name, value];
    const count = Number(value);
    if (!Number.isInteger(count) || count < 1) refuse(`Cannot use --${name} ${value}: it is a count`);
    return [name, count];
  })) as never;
}

function refuse(message: string): never {
  console.error(message);
  Deno.exit(2);
}
