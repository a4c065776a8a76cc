/**
 * Checks the kernel, namespaces, limits and the environment.
 *
 * @module
 */
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { inodeOfProcess, isProcOfOwnNamespace } from "../../ffi/native/shim/processes.ts";
import { shim, shimRefusal } from "../../ffi/native/shim/shim.ts";
import { formatBytes } from "../status/units.ts";
import { type DoctorFinding, finding } from "./finding.ts";
import { isAtLeast, type Machine } from "./machine.ts";

/** The targets of the links in /proc/self/ns for the initial namespaces, which have fixed inode numbers. */
const initialNamespaces = { pid: "pid:[4026531836]", ipc: "ipc:[4026531839]", user: "user:[4026531837]" } as const;
const namesOfNamespaces = { pid: "PID", ipc: "IPC", user: "user" } as const;
/**
 * The limit of open descriptors below which a note is reported. Each importer uses two descriptors, and more while
 * descriptors are being sent.
 */
const enoughDescriptors = 4096;
/** The number of free bytes in /dev/shm below which a note is reported. */
const littleSharedMemory = 16 * 2 ** 20;

/** Checks the features of the kernel that sharing uses. */
export function checkKernel(machine: Machine): DoctorFinding[] {
  const refusal = shimRefusal();
  if (refusal !== undefined) return [finding("problem", "sharing", `it cannot be used: ${refusal}`)];
  const features: readonly (readonly [name: string, since: string, without: string])[] = [
    ["SO_PEERPIDFD", "6.5", "processes of other PID namespaces are refused"],
    ["inodes of pidfds", "6.9", "connections of one process of another PID namespace cannot be told to be so"],
    ["SO_PASSRIGHTS", "6.16", "a hostile peer can send descriptors, which are closed on a thread of their own"],
  ];
  const lacking = features.filter(([, since]) => !isAtLeast(machine.kernel, since));
  const findings = [checkPidfds(), checkMemoryFiles()];
  const known = `Linux ${machine.kernel}`;
  if (lacking.length === 0) {
    const names = features.map(([name]) => name).join(", ");
    return [finding("ok", "kernel", `${known}: ${names}`), ...findings];
  }
  const texts = lacking.map(([name, since, without]) => `without ${name} (${since}), ${without}`);
  return [finding("note", "kernel", `${known}: ${texts.join("; ")}`, "a newer kernel has it"), ...findings];
}

function checkPidfds(): DoctorFinding {
  try {
    inodeOfProcess(shim().poolpass_getpid());
    return finding("ok", "pidfd", "the end of other processes can be noticed");
  } catch (error) {
    return finding(
      "problem",
      "pidfd",
      `the end of other processes cannot be noticed, so nothing can be shared: ${(error as Error).message}`,
      "allow pidfd_open, which Linux has from 5.3 on, in the container's seccomp profile",
    );
  }
}

function checkMemoryFiles(): DoctorFinding {
  try {
    closeDescriptor(createMemoryFile("poolpass-doctor", 4096));
    return finding("ok", "memfd", "the software device can share its memory");
  } catch (error) {
    return finding("problem", "memfd", `the software device cannot share its memory: ${(error as Error).message}`);
  }
}

/** Checks the namespaces, which decide whether events can be opened and which processes are visible. */
export function checkNamespaces(machine: Machine): DoctorFinding[] {
  const own = (["pid", "ipc", "user"] as const).filter((name) => {
    const link = machine.link(`/proc/self/ns/${name}`);
    return link !== undefined && link !== initialNamespaces[name];
  });
  const findings = [
    own.length === 0 ? finding("ok", "namespaces", "those of the machine: PID, IPC and user") : finding(
      "note",
      "namespaces",
      `of its own: ${own.map((name) => namesOfNamespaces[name]).join(", ")}`,
      "memory is shared all the same; events of processes of other PID namespaces cost a message: docs/containers.md",
    ),
    checkProc(machine),
    checkSharedMemory(machine),
  ];
  const users = machine.read("/proc/self/uid_map")?.trim().split(/\s+/) ?? [];
  if (own.includes("user") && users[2] !== "4294967295") {
    findings.push(
      finding(
        "note",
        "users",
        "this user namespace does not map every user: the others are 65534 here, and cannot be told apart",
        "list 65534 among the users of an exporter only if all of them may connect",
      ),
    );
  }
  return findings;
}

function checkProc(machine: Machine): DoctorFinding {
  if (machine.read("/proc/self/status") === undefined) {
    return finding("problem", "/proc", "it cannot be read", "mount it: mount -t proc proc /proc");
  }
  const mount = machine.read("/proc/mounts")?.split("\n").findLast((line) => line.split(" ")[1] === "/proc");
  if (/\bhidepid=(?!0|off)/.test(mount ?? "")) {
    return finding(
      "note",
      "/proc",
      "it hides the processes of other users (hidepid): events of theirs cost a message",
      "mount it without hidepid, or with gid= for a group of this user",
    );
  }
  if (shimRefusal() === undefined && !isProcOfOwnNamespace()) {
    return finding(
      "problem",
      "/proc",
      "it is that of another PID namespace: CUDA does not start, and events of the software device cannot be opened",
      "mount it anew: unshare --mount-proc, or mount -t proc proc /proc",
    );
  }
  return finding("ok", "/proc", "it shows the processes of this PID namespace");
}

function checkSharedMemory(machine: Machine): DoctorFinding {
  const usable = machine.mayUse("/dev/shm");
  if (usable !== true) {
    return finding(
      "note",
      "/dev/shm",
      usable === undefined ? "there is none" : `user ${machine.uid} may not write there`,
      "CUDA opens events of other processes through it; without it, they cost a message: docs/containers.md",
    );
  }
  const free = machine.freeBytes("/dev/shm");
  if (free !== undefined && free < littleSharedMemory) {
    return finding("note", "/dev/shm", `only ${formatBytes(free)} are free`, "give the container more: --shm-size 1g");
  }
  return finding("ok", "/dev/shm", free === undefined ? "writable" : `writable, ${formatBytes(free)} free`);
}

/** Checks the limits of this process, and whether it is a systemd service. */
export function checkLimits(machine: Machine): DoctorFinding[] {
  const limit = machine.read("/proc/self/limits")?.match(/^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m);
  const [, soft = "unknown", hard = "unknown"] = limit ?? [];
  const isLow = Number(soft) < enoughDescriptors;
  return [
    isLow
      ? finding(
        "note",
        "descriptors",
        `at most ${soft} open ones (RLIMIT_NOFILE): enough for about ${Math.floor(Number(soft) / 3)} importers`,
        `if there are more, raise the limit, which may be ${hard}: ulimit -n, or LimitNOFILE= of a unit`,
      )
      : finding("ok", "descriptors", `at most ${soft} open ones (RLIMIT_NOFILE)`),
    checkSystemd(machine),
  ];
}

function checkSystemd(machine: Machine): DoctorFinding {
  const socket = machine.variable("NOTIFY_SOCKET");
  const kept = machine.variable("FDSTORE");
  if (socket === undefined) {
    return finding("ok", "systemd", "this program is no service of it (there is no NOTIFY_SOCKET)");
  }
  if (kept === undefined || kept === "0") {
    return finding(
      "note",
      "systemd",
      `NOTIFY_SOCKET is ${socket}, and nothing says that it keeps descriptors`,
      "for a store that survives kill -9, set FileDescriptorStoreMax= in the unit",
    );
  }
  return finding("ok", "systemd", `NOTIFY_SOCKET is ${socket}, and it keeps up to ${kept} descriptors`);
}

/** The environment variables to report, in addition to poolpass's own environment variables. */
const variables = [
  "CUDA_VISIBLE_DEVICES",
  "CUDA_DEVICE_ORDER",
  "CUDA_MPS_PIPE_DIRECTORY",
  "CUDA_HOME",
  "CUDA_PATH",
  "LD_LIBRARY_PATH",
];

/** Reports the environment variables that affect which driver, devices and libraries programs use. */
export function checkVariables(machine: Machine, names: readonly string[]): DoctorFinding[] {
  const own = names.filter((name) => name.startsWith("POOLPASS_")).sort();
  const set = [...own, ...variables].flatMap((name) => {
    const value = machine.variable(name);
    return value === undefined ? [] : [`${name}=${value}`];
  });
  return [finding("ok", "environment", set.length === 0 ? "no variable of poolpass or CUDA is set" : set.join(" "))];
}
