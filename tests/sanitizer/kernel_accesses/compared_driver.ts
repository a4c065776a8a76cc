/**
 * A software device that compares what the PTX says of each launch with what the launch accesses.
 *
 * @module
 */
import type { Driver, KernelLaunch, LaunchAttributes } from "../../../src/driver.ts";
import type { LaunchAccess } from "../../../src/kernel_checker.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { type KnownAccesses, LaunchAccesses } from "../../../src/sanitizer/kernel_accesses/launch_accesses.ts";
import { InstrumentedLaunches } from "../../../src/sanitizer/kernel_accesses/instrumented_launches.ts";
import { Session } from "../../../src/session.ts";
import { instructionSupport, SoftwareDriver } from "../../../src/software/software_driver.ts";
import { adaptedDriver } from "../../support/adapted_driver.ts";

/** A launch, and what was found of it. */
export interface ComparedLaunch {
  readonly kernel: string;
  /** Whether all that it accesses is known. */
  readonly isExact: boolean;
  /** Bytes that it accesses for sure, and did not access. */
  readonly wrong: readonly string[];
  /** Bytes that it has accessed, and of which nothing is known. */
  readonly missing: readonly string[];
  /** How many bytes it has accessed. */
  readonly byteLength: number;
  /** What it accesses by which line and which thread first, if that is said to be known. */
  readonly said: readonly string[] | undefined;
  /** The same as observed. */
  readonly observed: readonly string[];
}

/** Opens the software device, and calls a listener with each launch that is done. */
export function openCompared(onLaunch: (launch: ComparedLaunch) => void): Cuda {
  const driver = new SoftwareDriver({ devices: 1, peers: true, observesAccesses: true });
  const launches = new LaunchAccesses({});
  const names = new Map<bigint, string>();
  const compare = (launch: KernelLaunch, attributes?: LaunchAttributes) => {
    const known = launches.of(launch);
    const said = launches.exactlyOf(launch);
    driver.checker.launch(launch, attributes, {
      onAccesses: (observed) =>
        onLaunch({
          ...compared(names.get(launch.kernel)!, known, observed),
          said: said && divided(said).map(describe),
        }),
    });
  };
  const adapted: Partial<Driver> = {
    ...launches.calls(driver),
    moduleGetFunction(module, name) {
      const kernel = driver.moduleGetFunction(module, name);
      launches.addKernel(kernel, module, name);
      names.set(kernel, name);
      return kernel;
    },
    launchKernel: (launch) => compare(launch),
    launchKernelEx: compare,
  };
  return new Cuda(new Session(adaptedDriver(driver, adapted), { instructionSupport }));
}

function compared(
  kernel: string,
  { isExact, certain }: KnownAccesses,
  observed: readonly LaunchAccess[],
): ComparedLaunch {
  const wrong: string[] = [], missing: string[] = [];
  let count = 0;
  for (const kind of ["read", "write", "atomic"] as const) {
    const a = bytesOf(certain.filter(({ access }) => access === kind));
    const b = bytesOf(observed.filter(({ operation }) => operation === kind));
    count += b.size;
    for (const byte of a) if (!b.has(byte)) wrong.push(`${kind} ${byte}`);
    for (const byte of b) if (!a.has(byte)) missing.push(`${kind} ${byte}`);
  }
  return { kernel, isExact, wrong, missing, byteLength: count, said: undefined, observed: observed.map(describe) };
}

/** The same accesses, each by one instruction. */
function divided(accesses: readonly LaunchAccess[]): LaunchAccess[] {
  const all = accesses.flatMap((access) => {
    const { parts, ...whole } = access;
    return parts === undefined ? whole : [...parts.of(0, access.byteLength)].map(({ begin, end, source, first }) => {
      return { ...whole, address: access.address + BigInt(begin), byteLength: end - begin, source, first };
    });
  });
  return (["read", "write", "atomic"] as const)
    .flatMap((kind) => all.filter(({ operation }) => operation === kind).sort((a, b) => Number(a.address - b.address)));
}

function describe({ address, byteLength, operation, source, first }: LaunchAccess): string {
  return `${operation} ${byteLength} bytes at ${address} at ${source} by ${first?.block} ${first?.thread}`;
}

function bytesOf(ranges: readonly { readonly address: bigint | number; readonly byteLength: number }[]): Set<number> {
  const bytes = new Set<number>();
  for (const { address, byteLength } of ranges) {
    for (let index = 0; index < byteLength; index++) bytes.add(Number(address) + index);
  }
  return bytes;
}

/** Opens the software device, and calls a listener with what the second versions of kernels note when `settle` is called. */
export function openInstrumented(onLaunch: (launch: ComparedLaunch) => void): { cuda: Cuda; settle: () => void } {
  const driver = new SoftwareDriver({ devices: 1, peers: true, observesAccesses: true });
  const instrumented = new InstrumentedLaunches(driver);
  const names = new Map<bigint, string>();
  const compare = (launch: KernelLaunch, attributes?: LaunchAttributes) => {
    const kernel = names.get(launch.kernel)!;
    const isArgument = inArguments(driver, launch);
    let observed: readonly LaunchAccess[] = [];
    const callObserved = (launch: KernelLaunch) => {
      driver.checker.launch(launch, attributes, { onAccesses: (accesses) => observed = accesses.filter(isArgument) });
    };
    const isObserved = instrumented.launch(launch, callObserved, (certain) => {
      const known = { isExact: true, certain, possible: [], sources: new Map() };
      onLaunch(compared(kernel, known, observed));
    });
    if (isObserved) return;
    if (attributes === undefined) driver.launchKernel(launch);
    else driver.launchKernelEx(launch, attributes);
  };
  const adapted: Partial<Driver> = {
    ...instrumented.calls(),
    moduleLoadData: instrumented.moduleLoadData,
    moduleGetFunction(module, name) {
      const kernel = driver.moduleGetFunction(module, name);
      instrumented.addKernel(kernel, module, name);
      names.set(kernel, name);
      return kernel;
    },
    launchKernel: (launch) => compare(launch),
    launchKernelEx: compare,
  };
  const cuda = new Cuda(new Session(adaptedDriver(driver, adapted), { instructionSupport }));
  return { cuda, settle: () => instrumented.settle() };
}

/** Whether an access is to memory whose address is among a launch's arguments. */
function inArguments(driver: Driver, { device, parameters }: KernelLaunch): (access: LaunchAccess) => boolean {
  const ranges: { base: bigint; byteLength: number }[] = [];
  for (let offset = 0; offset + 8 <= parameters.byteLength; offset += 8) {
    try {
      ranges.push(driver.memGetAddressRange(device, parameters.getBigUint64(offset, true)));
    } catch {
      // A number.
    }
  }
  return ({ address }) => ranges.some(({ base, byteLength }) => base <= address && address < base + BigInt(byteLength));
}
