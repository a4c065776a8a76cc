import { type ListenerStatus, Operator, type OperatorOptions, SharingError } from "../../mod.ts";
import { UsageError } from "../command_line.ts";

/** The time limit for an answer of a listener, in milliseconds. */
const answerTimeout = 5000;

/** The options of commands that connect as an operator. */
export const connectionOptions = { user: { type: "strings" } } as const;

/** The lines of `--help` for `connectionOptions`. */
export const connectionHelp =
  `  --user ID       the process that listens may run as this user, by its number; may be given several times. Otherwise
                  it must run as the user of this program`;

/**
 * Returns the only path among a command's arguments.
 *
 * @throws {UsageError} If there is no path, or more than one
 */
export function onlyPath(files: readonly string[]): string {
  const [path, more] = files;
  if (path === undefined) throw new UsageError("There is no path: give that of an exporter's or a store's socket");
  if (more !== undefined) throw new UsageError(`There is nothing to do with "${more}"`);
  return path;
}

/** Converts the values of `connectionOptions` to options of `Operator.connect`. */
export function readConnectionOptions({ user }: { readonly user: readonly string[] }): OperatorOptions {
  const users = user.map((id) => {
    if (/^\d+$/.test(id)) return Number(id);
    throw new UsageError(`There is no user "${id}": give a number, as id -u prints it`);
  });
  return users.length === 0 ? {} : { users };
}

/** Connects to the listener at a path. */
export async function connectOperator(path: string, options: OperatorOptions, signal: AbortSignal): Promise<Operator> {
  try {
    return await Operator.connect(path, { ...options, signal });
  } catch (error) {
    if (!(error instanceof SharingError)) throw error;
    // Remove advice that is meant for programs.
    throw new SharingError(error.code, error.message.replace(/; with \{ wait: true \}.*$/, ""), { cause: error });
  }
}

/** Requests the status of a listener. Fails if there is no answer within a few seconds. */
export function requestStatus(operator: Operator, signal: AbortSignal): Promise<ListenerStatus> {
  return operator.status({ signal: AbortSignal.any([signal, AbortSignal.timeout(answerTimeout)]) });
}
