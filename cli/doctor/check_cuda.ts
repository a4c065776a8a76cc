/**
 * Checks the driver, its libraries and its device files.
 *
 * @module
 */
import { type Cuda, CudaUnavailableError, open, type OpenOptions } from "../../mod.ts";
import { findClang } from "../../ffi/compilers/clang.ts";
import { findNvcc } from "../../ffi/compilers/nvcc.ts";
import { findNvrtc } from "../../ffi/nvrtc.ts";
import { loadNvJitLink } from "../../ffi/nvjitlink.ts";
import { countOf } from "../../src/support/printing.ts";
import { formatVersion } from "../../src/support/version.ts";
import { formatBytes } from "../status/units.ts";
import { type DoctorFinding, finding, fromMessage } from "./finding.ts";
import type { Machine } from "./machine.ts";

const imexFolder = "/dev/nvidia-caps-imex-channels";
const defaultMpsFolder = "/tmp/nvidia-mps";

/** Checks that `open` finds devices. Each warning that `open` prints becomes a finding of level `note`. */
export function checkDevices(machine: Machine): DoctorFinding[] {
  const findings: DoctorFinding[] = [];
  const named = machine.variable("POOLPASS_DRIVER");
  const isNamed = named !== undefined && named !== "" && named !== "auto";
  // Do what `open` does by default, but in two steps, because the error of the first step explains why there is no GPU.
  const tried = isNamed ? undefined : tryOpen({ driver: "cuda" }, findings);
  const opened = tried instanceof CudaUnavailableError
    ? tryOpen({ driver: "software" }, findings)
    : tried ?? tryOpen({}, findings);
  if (opened instanceof Error) {
    findings.push(fromMessage("problem", "devices", opened.message));
    if (named === "cuda") return findings;
  } else {
    using cuda = opened;
    findings.unshift(finding("ok", "devices", describeDevices(cuda)));
    if (cuda.driver === "cuda") return [...findings, ...librariesOf(cuda, machine)];
  }
  const available = tried ?? tryOpen({ driver: "cuda" }, findings);
  if (available instanceof Error) {
    const expected = available instanceof CudaUnavailableError && !hasGpu(machine);
    findings.push(fromMessage(expected ? "note" : "problem", "driver", available.message));
  } else {
    using cuda = available;
    const found = `POOLPASS_DRIVER=${named} leaves alone what is here: ${describeDevices(cuda)}`;
    findings.push(finding("note", "driver", found, "unset POOLPASS_DRIVER to use it"));
  }
  return findings;
}

/** Calls `open`, and returns its error if it fails. Adds its warnings to the findings. */
function tryOpen(options: OpenOptions, findings: DoctorFinding[]): Cuda | Error {
  const { warn } = console;
  console.warn = (...words: unknown[]) => {
    findings.push(finding("note", "warning", words.join(" ").replace(/^poolpass: /, "")));
  };
  try {
    return open(options);
  } catch (error) {
    return error as Error;
  } finally {
    console.warn = warn;
  }
}

function describeDevices({ driver, driverVersion, devices }: Cuda): string {
  const names = devices.map((device) => `${device.name} (${formatBytes(device.memoryInfo().total)})`);
  const kind = driver === "cuda" ? "CUDA" : "the software device, as a driver for CUDA";
  return `${kind} ${formatVersion(driverVersion)}, ${countOf(devices.length, "device")}: ${names.join(", ")}`;
}

/** Checks the versions of the loaded CUDA libraries. */
function librariesOf({ runtimeVersion }: Cuda, machine: Machine): DoctorFinding[] {
  const driver = loadedFile("libcuda.so", machine);
  const module = machine.read("/proc/driver/nvidia/version")?.match(/Kernel Module\D*([\d.]+)/)?.[1];
  const version = driver?.match(/libcuda\.so\.([\d.]+\.[\d.]+)$/)?.[1];
  const findings = [
    module !== undefined && version !== undefined && module !== version
      ? finding(
        "problem",
        "libcuda",
        `${driver} is of another version than the kernel's module, ${module}`,
        "restart the machine after an update of the driver; in a container, mount the machine's own libcuda",
      )
      : finding("ok", "libcuda", `${driver ?? "loaded"}${module === undefined ? "" : `, kernel module ${module}`}`),
  ];
  const file = loadedFile("libcudart", machine);
  findings.push(
    runtimeVersion === undefined
      ? finding(
        "ok",
        "libcudart",
        "none that the driver can use was found on the loader's path, in CUDA_HOME, CUDA_PATH or /usr/local/cuda: the " +
          "driver library is used alone",
      )
      : finding("ok", "libcudart", `CUDA ${formatVersion(runtimeVersion)}${file === undefined ? "" : `, ${file}`}`),
  );
  return findings;
}

/** Returns the path of a library that this process has loaded and whose file name begins with `name`. */
function loadedFile(name: string, machine: Machine): string | undefined {
  const maps = machine.read("/proc/self/maps")?.split("\n") ?? [];
  return maps.map((line) => line.slice(line.indexOf("/"))).find((path) => path.split("/").at(-1)!.startsWith(name));
}

/** Checks the libraries and the commands on the PATH that compile and link kernels. */
export function checkCompilers(machine: Machine): DoctorFinding[] {
  const commands = [checkCommand("nvcc", findNvcc, machine), checkCommand("clang", findClang, machine)];
  const found = commands.filter((each) => each !== undefined);
  return [checkNvrtc(machine, found), ...found, checkNvJitLink(machine)];
}

/** Returns a finding if the compiler is on the PATH. */
function checkCommand(command: string, find: typeof findNvcc, machine: Machine): DoctorFinding | undefined {
  const compiler = find();
  const file = fileOfCommand(command, machine);
  if (!("reason" in compiler)) {
    return finding("ok", command, `${compiler.name}${file === undefined ? "" : `, ${file}`}`);
  }
  return file === undefined ? undefined : finding("note", command, `${file}: ${compiler.reason}`);
}

/** Returns the path of a command that is on the PATH. */
function fileOfCommand(command: string, machine: Machine): string | undefined {
  const folders = machine.variable("PATH")?.split(":").filter((folder) => folder.startsWith("/")) ?? [];
  return folders.map((folder) => `${folder}/${command}`).find((path) => machine.status(path) !== undefined);
}

function checkNvrtc(machine: Machine, commands: readonly DoctorFinding[]): DoctorFinding {
  const given = machine.variable("POOLPASS_NVRTC") || undefined;
  try {
    const found = findNvrtc(given);
    if (!("reason" in found)) {
      const file = loadedFile("libnvrtc.so", machine);
      return finding("ok", "NVRTC", `${found.name}${file === undefined ? "" : `, ${file}`}`);
    }
    const other = commands.find(({ level }) => level === "ok");
    if (other !== undefined) {
      return finding("ok", "NVRTC", `${found.reason}; ${other.topic}, which is slower, compiles CUDA C++ instead`);
    }
    return finding(
      "note",
      "NVRTC",
      found.reason,
      "to compile CUDA C++ in a program, install the CUDA toolkit or the Python package nvidia-cuda-nvrtc; loading PTX " +
        "needs none",
    );
  } catch (error) {
    return finding("problem", "NVRTC", (error as Error).message, "correct POOLPASS_NVRTC, or unset it");
  }
}

function checkNvJitLink(machine: Machine): DoctorFinding {
  try {
    if (loadNvJitLink() !== undefined) {
      return finding("ok", "nvJitLink", loadedFile("libnvJitLink", machine) ?? "loaded");
    }
  } catch {
    // Without permission to use FFI, the library is reported as missing.
  }
  return finding(
    "note",
    "nvJitLink",
    "none was found: the driver's own linker is used",
    "to link LTO IR, install the CUDA toolkit or the Python package nvidia-nvjitlink",
  );
}

/** Checks the device files that the driver opens, and the IMEX channels and the MPS daemon. */
export function checkGpuFiles(machine: Machine): DoctorFinding[] {
  const files = deviceFiles(machine);
  if (files.length === 0) {
    if (!hasKernelModule(machine)) return [finding("ok", "device files", "no GPU: there is no /dev/nvidia*")];
    return [
      finding(
        "problem",
        "device files",
        "the kernel has NVIDIA's module, and there is no /dev/nvidia*",
        "run nvidia-modprobe -u -c=0 as root; start a container with --gpus",
      ),
    ];
  }
  const forbidden = files.filter((file) => machine.mayUse(file) === false);
  const lacking = ["/dev/nvidiactl", "/dev/nvidia-uvm"].filter((file) => !files.includes(file));
  return [
    forbidden.length > 0
      ? finding(
        "problem",
        "device files",
        `user ${machine.uid} may not read and write ${forbidden.join(", ")}`,
        "add the user to the group that owns the files, or change their mode (NVreg_DeviceFileMode)",
      )
      : finding("ok", "device files", files.join(", ")),
    ...lacking.length === 0 || files.includes("/dev/dxg") ? [] : [
      finding(
        "problem",
        "device files",
        `there is no ${lacking.join(" and no ")}`,
        "run nvidia-modprobe -u -c=0 as root",
      ),
    ],
    checkImex(machine),
    checkMps(machine),
  ];
}

function checkImex(machine: Machine): DoctorFinding {
  const channels = machine.list(imexFolder).map((name) => `${imexFolder}/${name}`);
  const usable = channels.filter((channel) => machine.mayUse(channel) === true);
  if (usable.length > 0) return finding("ok", "IMEX", usable.join(", "));
  return finding(
    "note",
    "IMEX",
    channels.length === 0 ? `no channel in ${imexFolder}` : `user ${machine.uid} may use no channel in ${imexFolder}`,
    "only pools with handleType fabric need one: load the driver with NVreg_CreateImexChannel0=1, or make channel0 with mknod",
  );
}

function checkMps(machine: Machine): DoctorFinding {
  const given = machine.variable("CUDA_MPS_PIPE_DIRECTORY");
  const folder = given || defaultMpsFolder;
  const hasControl = machine.status(`${folder}/control`) !== undefined;
  if (!hasControl) {
    return given === undefined
      ? finding("ok", "MPS", `not used: there is no ${folder}/control`)
      : finding("note", "MPS", `CUDA_MPS_PIPE_DIRECTORY is ${folder}, and no control daemon is there`);
  }
  const runs = machine.list("/proc").some((pid) =>
    /^\d+$/.test(pid) && machine.read(`/proc/${pid}/comm`)?.startsWith("nvidia-cuda-mps") === true
  );
  return finding(
    "note",
    "MPS",
    `${folder} has a control daemon's pipe${runs ? ", and the daemon runs" : ", and no daemon is seen"}`,
    "programs that use MPS lose their device if another one is killed while it works there: see docs/isolation.md",
  );
}

function deviceFiles(machine: Machine): string[] {
  return machine.list("/dev").filter((name) => /^(nvidia\d+|nvidiactl|nvidia-uvm|dxg)$/.test(name)).sort()
    .map((name) => `/dev/${name}`);
}

function hasKernelModule(machine: Machine): boolean {
  return machine.read("/proc/driver/nvidia/version") !== undefined;
}

function hasGpu(machine: Machine): boolean {
  return hasKernelModule(machine) || deviceFiles(machine).length > 0;
}
