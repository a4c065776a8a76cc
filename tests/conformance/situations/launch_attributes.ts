/**
 * Rows about launches with attributes, and about what kernels need and prefer.
 *
 * @module
 */
import { type Driver, functionAttribute, functionCache, type LaunchAttributes } from "../../../src/driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { attemptEach } from "../attempts.ts";
import type { Fixture, Situation } from "../situation.ts";

const ptx = `.version 7.0
.target sm_70
.address_size 64
.const .align 4 .b8 table[64];

.visible .entry nothing()
{
  ret;
}

.visible .entry narrow()
.maxntid 16, 3, 1
{
  ret;
}

.visible .entry needy(.param .u64 to, .param .u64 index)
{
  .shared .align 16 .b8 array[48];
  .reg .b64 %to, %index, %at;
  .reg .b32 %value;
  ld.param.u64 %to, [to];
  ld.param.u64 %index, [index];
  mov.u64 %at, table;
  add.u64 %at, %at, %index;
  ld.const.u32 %value, [%at];
  st.shared.u32 [array], %value;
  ld.shared.u32 %value, [array+4];
  st.global.u32 [%to], %value;
  ret;
}
`;

const nothingAsked: LaunchAttributes = {
  clusterDim: undefined,
  cooperative: false,
  programmaticStreamSerialization: false,
  priority: undefined,
};

function load(driver: Driver, name: string): bigint {
  return driver.moduleGetFunction(driver.moduleLoadData(0, ptx), name);
}

/** Returns a function that launches the kernel `nothing` with attributes. */
function launcher({ driver }: Fixture) {
  const launch = driver.createKernelLaunch(0, load(driver, "nothing"), 0);
  return (attributes: Partial<LaunchAttributes>, gridX = 4) => () =>
    driver.launchKernelEx(Object.assign(launch, { gridX, blockX: 32 }), { ...nothingAsked, ...attributes });
}

/** The rows of this file. */
export const situations: readonly Situation[] = [
  {
    name: "launches with a priority, as dependents of what is in front of them, and with no attributes",
    run(fixture) {
      const { driver } = fixture;
      const start = launcher(fixture);
      const { least, greatest } = driver.deviceGetStreamPriorityRange(0);
      return attemptEach({
        none: start({}),
        least: start({ priority: least }),
        greatest: start({ priority: greatest }),
        dependent: start({ programmaticStreamSerialization: true }),
        both: start({ programmaticStreamSerialization: true, priority: greatest }),
        synchronize: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "launches in clusters of one block",
    run(fixture) {
      const cluster = launcher(fixture)({ clusterDim: [1, 1, 1] });
      return attemptEach({ cluster, synchronize: () => fixture.driver.deviceSynchronize(0) });
    },
  },
  {
    name: "launches in clusters of several blocks, and cooperative launches of few blocks and of too many",
    run(fixture) {
      const start = launcher(fixture);
      return attemptEach({
        "2 blocks": start({ clusterDim: [2, 1, 1] }),
        "8 blocks": start({ clusterDim: [8, 1, 1] }, 16),
        cooperative: start({ cooperative: true }),
        "too many": start({ cooperative: true }, 1_000_000),
        synchronize: () => fixture.driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "the null kernel launched with attributes",
    run({ driver }) {
      driver.deviceSynchronize(0);
      driver.launchKernelEx(driver.createKernelLaunch(0, 0n, 0), { ...nothingAsked, priority: 0 });
    },
  },
  {
    name: "launches with attributes that have too many threads, and no blocks",
    run({ driver }) {
      const launch = driver.createKernelLaunch(0, load(driver, "nothing"), 0);
      const start = (shape: object) => () =>
        driver.launchKernelEx(Object.assign(launch, shape), { ...nothingAsked, priority: 0 });
      return attemptEach({ threads: start({ blockX: 1025 }), blocks: start({ blockX: 32, gridX: 0 }) });
    },
  },
  {
    name: "what kernels need: threads, shared and constant memory, and the versions of their code",
    run({ driver }) {
      const value = (name: string, attribute: keyof typeof functionAttribute) => () =>
        driver.funcGetAttribute(load(driver, name), functionAttribute[attribute]);
      const capability = 10 * driver.deviceGetAttribute(0, deviceAttributes.computeCapabilityMajor) +
        driver.deviceGetAttribute(0, deviceAttributes.computeCapabilityMinor);
      return attemptEach({
        "nothing: threads": value("nothing", "maxThreadsPerBlock"),
        "narrow: threads": value("narrow", "maxThreadsPerBlock"),
        "needy: shared": value("needy", "sharedSizeBytes"),
        "nothing: shared": value("nothing", "sharedSizeBytes"),
        "needy: constant": value("needy", "constSizeBytes"),
        "nothing: local": value("nothing", "localSizeBytes"),
        "nothing: PTX": value("nothing", "ptxVersion"),
        "nothing: binary": () => value("nothing", "binaryVersion")() === capability,
      });
    },
  },
  {
    name: "attributes of a kernel that cannot be set, and one that does not exist",
    run({ driver }) {
      const kernel = load(driver, "nothing");
      return attemptEach({
        numRegs: () => driver.funcSetAttribute(kernel, functionAttribute.numRegs, 32),
        ptxVersion: () => driver.funcSetAttribute(kernel, functionAttribute.ptxVersion, 90),
        none: () => driver.funcGetAttribute(kernel, 1000),
      });
    },
  },
  {
    name: "the preferred share of shared memory, set to what it can be, and to less and more",
    run({ driver }) {
      const kernel = load(driver, "nothing");
      const { preferredSharedMemoryCarveout } = functionAttribute;
      const get = () => driver.funcGetAttribute(kernel, preferredSharedMemoryCarveout);
      const set = (percent: number) => () => driver.funcSetAttribute(kernel, preferredSharedMemoryCarveout, percent);
      return attemptEach({
        first: get,
        "0 %": set(0),
        "100 %": set(100),
        default: set(-1),
        "37 %": set(37),
        "-2 %": set(-2),
        "101 %": set(101),
        last: get,
      });
    },
  },
  {
    name: "the cache configurations of a kernel, and of the null kernel",
    run({ driver }) {
      const kernel = load(driver, "nothing");
      const set = (config: number, of = kernel) => () => driver.funcSetCacheConfig(of, config);
      return attemptEach({
        preferNone: set(functionCache.preferNone),
        preferShared: set(functionCache.preferShared),
        preferL1: set(functionCache.preferL1),
        preferEqual: set(functionCache.preferEqual),
        none: set(4),
        "of the null kernel": set(0, 0n),
      });
    },
  },
  {
    name: "the block size with the most threads on a multiprocessor, and the grid that fills the device",
    run({ driver }) {
      const [kernel, narrow] = [load(driver, "nothing"), load(driver, "narrow")];
      const sizeOf = (of: bigint, limit = 0) => () => driver.occupancyMaxPotentialBlockSize(of, 0, limit).blockSize;
      return attemptEach({
        nothing: sizeOf(kernel),
        "at most 96": sizeOf(kernel, 96),
        "at most 32": sizeOf(kernel, 32),
        narrow: sizeOf(narrow),
        fills() {
          const { blockSize, minGridSize } = driver.occupancyMaxPotentialBlockSize(kernel, 0, 0);
          const fitting = driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, blockSize, 0);
          return minGridSize === fitting * driver.deviceGetAttribute(0, deviceAttributes.multiProcessorCount);
        },
      });
    },
  },
  {
    name: "blocks of part of a warp that fit on a multiprocessor",
    run({ driver }) {
      const kernel = load(driver, "nothing");
      const fitting = (size: number) => () => driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel, size, 0);
      return attemptEach({
        "32": fitting(32),
        "33": fitting(33),
        "65": fitting(65),
        "100": fitting(100),
        "1000": fitting(1000),
      });
    },
  },
];
