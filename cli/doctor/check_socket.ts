/**
 * Checks a socket: its file, and the process that listens there.
 *
 * @module
 */
import { type ListenerStatus, open, Operator, type OperatorOptions, SharingError } from "../../mod.ts";
import { countOf } from "../../src/support/printing.ts";
import { requestStatus } from "../status/connection.ts";
import { type DoctorFinding, finding, fromMessage } from "./finding.ts";
import type { Machine } from "./machine.ts";

/** The mode bits that grant write permission to the group and to others. */
const writableByOthers = 0o022;
/** The sticky bit of a folder's mode: only the owner of a file in the folder may remove the file. */
const sticky = 0o1000;
const topic = "socket";

/** Checks a socket's file, its folder, and the process that listens there. */
export async function checkSocket(
  path: string,
  { machine, options, signal }: { machine: Machine; options: OperatorOptions; signal: AbortSignal },
): Promise<DoctorFinding[]> {
  const file = checkFile(path, machine);
  if (file.some(({ level }) => level === "problem")) return file;
  return [...file, ...await checkListener(path, { machine, options, signal })];
}

function checkFile(path: string, machine: Machine): DoctorFinding[] {
  const real = machine.realPath(path) ?? path;
  const status = machine.status(real);
  if (status === undefined) {
    return [
      finding("problem", topic, `there is no ${path}`, "start the program that listens there, or correct the path"),
    ];
  }
  if (status.kind !== "socket") {
    return [finding("problem", topic, `${path} is a ${status.kind === "folder" ? "folder" : "file"}, and no socket`)];
  }
  const mode = octal(status.mode);
  const usable = machine.mayUse(real) === true;
  const folder = real.slice(0, real.lastIndexOf("/")) || "/";
  return [
    usable ? finding("ok", topic, `${path} belongs to user ${status.uid}, mode ${mode}`) : finding(
      "problem",
      topic,
      `${path} belongs to user ${status.uid}, mode ${mode}: user ${machine.uid} may not connect`,
      `run as user ${status.uid}, or list ${machine.uid} among the exporter's users`,
    ),
    ...checkFolder(folder, machine),
  ];
}

function checkFolder(folder: string, machine: Machine): DoctorFinding[] {
  const status = machine.status(folder);
  if (status === undefined) return [];
  const { uid, mode } = status;
  const others = (mode & writableByOthers) !== 0 && (mode & sticky) === 0;
  if (!others && (uid === machine.uid || uid === 0)) return [];
  return [
    finding(
      others ? "problem" : "note",
      "folder",
      others
        ? `${folder} of user ${uid}, mode ${octal(mode)}: other users can put another socket there`
        : `${folder} belongs to user ${uid}, who can put another socket there`,
      others ? `chmod go-w ${folder}` : "use a folder of this user, or of root",
    ),
  ];
}

async function checkListener(
  path: string,
  { machine, options, signal }: { machine: Machine; options: OperatorOptions; signal: AbortSignal },
): Promise<DoctorFinding[]> {
  try {
    await using operator = await Operator.connect(path, { ...options, signal });
    const status = await requestStatus(operator, signal);
    const { peer } = operator;
    const who = `process ${peer.pid === 0 ? "of another PID namespace" : peer.pid} of user ${peer.uid}`;
    const { version, kind } = status;
    const entries = kind === "exporter"
      ? countOf(status.statistics.offers.count, "offer")
      : `${status.statistics.entries} entries`;
    return [
      finding(
        "ok",
        "listener",
        `${who}: ${kind === "exporter" ? "an exporter" : "a store"} of poolpass ${version}, ${entries}`,
      ),
      ...checkPeerNamespaces(peer.pid, machine),
      ...checkVisibility(status),
    ];
  } catch (error) {
    const { message } = error as Error;
    const code = error instanceof SharingError ? error.code : undefined;
    const problem = fromMessage("problem", "listener", message.replace(/; with \{ wait: true \}.*$/, ""));
    const more = adviceFor(code);
    return [more === undefined ? problem : finding("problem", "listener", problem.found, more)];
  }
}

function adviceFor(code: string | undefined): string | undefined {
  switch (code) {
    case "not-permitted":
      return "name the user of the process that listens: --user ID";
    case "bad-message":
      return "an exporter of a version before operators were served refuses them, too: importers may still connect";
    case "timed-out":
      return "see whether the process is stopped, or busy in one long call";
    default:
      return undefined;
  }
}

/**
 * Checks whether this process and the listener can open each other's events, which depends on the namespaces of both
 * processes.
 */
function checkPeerNamespaces(pid: number, machine: Machine): DoctorFinding[] {
  if (pid === 0) {
    return [
      finding("note", "events", "the other process lives in another PID namespace: events cost a message each", docs),
    ];
  }
  const different = ["pid", "ipc", "mnt"].filter((name) => {
    const [own, other] = ["self", pid].map((process) => machine.link(`/proc/${process}/ns/${name}`));
    return own !== undefined && other !== undefined && own !== other;
  });
  if (different.length === 0) return [];
  return [
    finding(
      "note",
      "events",
      `the other process has other namespaces (${different.join(", ")}): events may cost a message`,
      docs,
    ),
  ];
}

const docs = "see docs/containers.md";

/** Checks whether this process sees the devices that hold the memory shared by the listener. */
function checkVisibility(status: ListenerStatus): DoctorFinding[] {
  const rows = status.kind === "exporter" ? status.offers : status.entries;
  const used = new Set(rows.flatMap(({ device }) => device ?? []));
  if (used.size === 0) return [];
  const digits = (uuid: string): string => uuid.slice(uuid.indexOf("-"));
  let own: Set<string>;
  try {
    using cuda = open();
    own = new Set(cuda.devices.map(({ uuid }) => digits(uuid)));
  } catch {
    return [];
  }
  const missing = [...used].filter((uuid) => !own.has(digits(uuid)));
  if (missing.length === 0) return [finding("ok", "visibility", "this process has the devices of everything there")];
  return [
    finding(
      "problem",
      "visibility",
      `this process does not have ${missing.join(", ")}: what lies there cannot be mapped (device-not-visible)`,
      "make the device visible (CUDA_VISIBLE_DEVICES, --gpus), and use the same driver, cuda or software",
    ),
  ];
}

function octal(mode: number): string {
  return `0${mode.toString(8).padStart(3, "0")}`;
}
