/**
 * Which rank this process is, if a launcher has started it: `torchrun`, or `srun` of SLURM.
 *
 * @module
 */
import process from "node:process";

/** What a launcher has told this process. */
export interface LaunchedRank {
  readonly launcher: "torchrun" | "srun";
  /** The number of this rank, from 0. */
  readonly rank: number;
  /** How many ranks there are. */
  readonly size: number;
  /** The number of this rank among those of its machine. */
  readonly localRank: number;
  /** The machine of rank 0. */
  readonly host: string;
  /** A port of that machine. */
  readonly port: number;
  /** The secret that all ranks know. */
  readonly token: string;
}

type Variable = (name: string) => string | undefined;

/** The variable that has the secret. */
export const tokenVariable = "RENDEZVOUS_TOKEN";
const shortestToken = 16;

/**
 * Reads what a launcher has told this process. Returns undefined if none has started it, or, in Deno, if this process
 * may not read its environment (`--allow-env`).
 *
 * @param variable Reads a variable of the environment.
 * @throws {Error} If a variable is missing or makes no sense
 */
export function launchedRank(variable: Variable = permittedVariable): LaunchedRank | undefined {
  if (isSet(variable("RANK")) && isSet(variable("WORLD_SIZE"))) return launchedByTorchrun(variable);
  // A batch script has SLURM's numbers, too: only srun names the machines of a step.
  const isStep = isSet(variable("SLURM_STEP_NODELIST")) && isSet(variable("SLURM_PROCID"));
  return isStep ? launchedBySlurm(variable) : undefined;
}

function launchedByTorchrun(variable: Variable): LaunchedRank {
  const port = numberOf(variable, "MASTER_PORT", 65534);
  return {
    launcher: "torchrun",
    ...placeOf(variable, { rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK" }),
    host: textOf(variable, "MASTER_ADDR"),
    // torchrun itself may listen at its port, for torch.distributed.
    port: variable("TORCHELASTIC_USE_AGENT_STORE") === "True" ? port + 1 : port,
    token: tokenOf(variable),
  };
}

function launchedBySlurm(variable: Variable): LaunchedRank {
  const given = variable("MASTER_ADDR");
  return {
    launcher: "srun",
    ...placeOf(variable, { rank: "SLURM_PROCID", size: "SLURM_NTASKS", localRank: "SLURM_LOCALID" }),
    host: isSet(given) ? given! : firstHost(textOf(variable, "SLURM_STEP_NODELIST")),
    // Jobs that share a machine have different ports.
    port: isSet(variable("MASTER_PORT"))
      ? numberOf(variable, "MASTER_PORT", 65535)
      : 20_000 + numberOf(variable, "SLURM_JOB_ID", Number.MAX_SAFE_INTEGER) % 10_000,
    token: tokenOf(variable),
  };
}

/** The first of SLURM's list of machines: `node003` of `node[003-007,012],login1`. */
export function firstHost(list: string): string {
  const [first = ""] = /^(?:[^,[\]]|\[[^\]]*\])+/.exec(list) ?? [];
  const host = first.replaceAll(/\[(\w+)[^\]]*\]/g, "$1");
  if (/^[\w.-]+$/.test(host)) return host;
  throw new Error(`Cannot find the first machine in SLURM_STEP_NODELIST, "${list}": set MASTER_ADDR`);
}

function placeOf(
  variable: Variable,
  names: { rank: string; size: string; localRank: string },
): Pick<LaunchedRank, "rank" | "size" | "localRank"> {
  const [rank, size, localRank] = [names.rank, names.size, names.localRank]
    .map((name) => numberOf(variable, name, 2 ** 31 - 1)) as [number, number, number];
  if (rank >= size) throw new Error(`Cannot be rank ${rank} (${names.rank}) of ${size} (${names.size})`);
  return { rank, size, localRank };
}

function tokenOf(variable: Variable): string {
  const token = variable(tokenVariable) ?? "";
  if (token.length >= shortestToken) return token;
  throw new Error(
    `Cannot let the ranks find each other: set ${tokenVariable} to the same secret of at least ${shortestToken} ` +
      "characters in all of them, such as that of `openssl rand -hex 16`",
  );
}

function textOf(variable: Variable, name: string): string {
  const text = variable(name);
  if (isSet(text)) return text!;
  throw new Error(`Cannot find the other ranks: the variable ${name} is not set`);
}

function numberOf(variable: Variable, name: string, most: number): number {
  const text = textOf(variable, name);
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (number <= most) return number;
  throw new Error(`Cannot use "${text}" as ${name}: it must be a whole number from 0 to ${most}`);
}

function isSet(text: string | undefined): boolean {
  return text !== undefined && text !== "";
}

/** Reads a variable if that needs no question to the user. */
function permittedVariable(name: string): string | undefined {
  const isPermitted = !("Deno" in globalThis) ||
    Deno.permissions.querySync({ name: "env", variable: name }).state === "granted";
  return isPermitted ? process.env[name] : undefined;
}
