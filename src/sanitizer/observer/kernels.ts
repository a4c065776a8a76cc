/**
 * Observes kernels, kernel launches, and the variables of modules.
 *
 * @module
 */
import type { Driver, KernelLaunch, LaunchAttributes, MemoryRange } from "../../driver.ts";
import type { LaunchFinding } from "../../kernel_checker.ts";
import { InstrumentedLaunches } from "../kernel_accesses/instrumented_launches.ts";
import {
  type KernelOptions,
  type KnownAccesses,
  LaunchAccesses,
  withSources,
} from "../kernel_accesses/launch_accesses.ts";
import type { Operation } from "../order/timelines.ts";
import type { Reports } from "../reporting/reports.ts";
import type { ObservedOperation, RangeAccess } from "../order/stream_order.ts";
import type { ObservedHostMemory } from "./host_memory.ts";
import type { ObservedWork } from "./observed_events.ts";
import type { ObservedTextures } from "./textures.ts";

/** The checks of the software device that an analysis of the PTX can prove unnecessary for a launch. */
const provable = ["race", "initialization", "synchronization"] as const;

/** The parts of the sanitizer that `ObservedKernels` uses. */
interface ObservedKernelsParts {
  readonly reports: Reports;
  readonly work: ObservedWork;
  readonly hostMemory: ObservedHostMemory;
  readonly textures: ObservedTextures;
}

/** Observes the calls that load and launch kernels. */
export class ObservedKernels {
  readonly #driver: Driver;
  readonly #parts: ObservedKernelsParts;
  /** The names of kernels for messages, keyed by handle. */
  readonly #names = new Map<bigint, string>();
  /** Derives the accesses of launches from the PTX. Undefined if the driver observes accesses itself. */
  readonly #launches: LaunchAccesses | undefined;
  /** Proves checks of launches unnecessary. Undefined if the driver makes no such checks. */
  readonly #proofs: LaunchAccesses | undefined;
  /** Instruments kernels whose accesses cannot be derived from the PTX alone. Undefined if not requested. */
  readonly #instrumented: InstrumentedLaunches | undefined;
  /** The modules without instructions that write surfaces, and their kernels. */
  readonly #surfaceReaders = new Set<bigint>();
  /** The keys of the module variables that were added as allocations. */
  readonly #variables = new Set<string>();

  /** @param options how to find the accesses of kernels that the driver does not observe */
  constructor(driver: Driver, options: KernelOptions, parts: ObservedKernelsParts) {
    this.#driver = driver;
    this.#parts = parts;
    const { observesAccesses = false, checks } = driver.checker ?? {};
    const saysAccesses = observesAccesses || (checks !== undefined && checks.size > 0);
    this.#launches = saysAccesses ? undefined : new LaunchAccesses(options);
    const isProvable = provable.some((check) => checks?.has(check));
    this.#proofs = observesAccesses || isProvable ? new LaunchAccesses(options) : undefined;
    this.#instrumented = saysAccesses || !options.instruments ? undefined : new InstrumentedLaunches(driver);
  }

  /** Returns wrappers of the driver's module and launch calls that observe and forward each call. */
  calls(): Partial<Driver> {
    const driver = this.#driver;
    const calls: Partial<Driver> = {
      ...this.#proofs?.calls(driver),
      ...this.#launches?.calls(driver, this.#instrumented?.moduleLoadData),
      ...this.#instrumented?.calls(),
    };
    return {
      ...calls,
      moduleLoadData: (device, image, options) => {
        const module = calls.moduleLoadData?.(device, image, options) ?? driver.moduleLoadData(device, image, options);
        if (typeof image === "string" && !/\b(sust|sured)\./.test(image)) this.#surfaceReaders.add(module);
        return module;
      },
      moduleGetGlobal: (module, name) => {
        const variable = driver.moduleGetGlobal(module, name);
        this.#addVariable(module, name, variable);
        return variable;
      },
      moduleGetFunction: (module, name) => {
        const kernel = driver.moduleGetFunction(module, name);
        this.#names.set(kernel, `kernel ${name}`);
        if (this.#surfaceReaders.has(module)) this.#surfaceReaders.add(kernel);
        this.#launches?.addKernel(kernel, module, name);
        this.#proofs?.addKernel(kernel, module, name);
        this.#instrumented?.addKernel(kernel, module, name);
        return kernel;
      },
      launchKernel: (launch) => this.#launch(launch, undefined),
      launchKernelEx: (launch, attributes) => this.#launch(launch, attributes),
    };
  }

  /** Returns the name and the accesses of a launch in a graph, as far as they are known before it runs. */
  describe(launch: KernelLaunch): { name: string } & Pick<KnownAccesses, "certain" | "possible"> {
    const { certain = [], possible = [] } = (this.#launches ?? this.#proofs)?.of(launch) ?? {};
    const byTextures = this.#accessesByTextures(launch);
    return { name: this.#nameOf(launch), certain: [...certain, ...byTextures], possible };
  }

  #accessesByTextures(launch: KernelLaunch): RangeAccess[] {
    return this.#parts.textures.accessesOf(launch, { onlyReads: this.#surfaceReaders.has(launch.kernel) });
  }

  #nameOf({ kernel }: KernelLaunch): string {
    return this.#names.get(kernel) ?? `kernel ${kernel}`;
  }

  /** Processes the accesses that completed instrumented launches have recorded. */
  collectInstrumented(): void {
    this.#instrumented?.settle();
  }

  /**
   * Adds a module's variable as an allocation if it is not added yet. Called when the program looks up the variable.
   */
  #addVariable(module: bigint, name: string, { address, byteLength }: MemoryRange): void {
    const key = `${module} ${name}`;
    if (this.#variables.has(key)) return;
    this.#variables.add(key);
    const { work } = this.#parts;
    work.allocated(work.nextOfHost("allocate"), { address: Number(address), byteLength });
  }

  #launch(launch: KernelLaunch, attributes: LaunchAttributes | undefined): void {
    const { device, stream } = launch;
    const operation = this.#parts.work.next(this.#nameOf(launch), device, stream);
    if (this.#launches === undefined) {
      this.#launchObserved(launch, attributes, operation);
      return;
    }
    const driver = this.#driver;
    const call = (launch: KernelLaunch) => {
      if (attributes === undefined) driver.launchKernel(launch);
      else driver.launchKernelEx(launch, attributes);
    };
    this.#launchAnalyzed(launch, call, { operation, launches: this.#launches });
  }

  /** Launches a kernel whose accesses the driver observes. */
  #launchObserved(launch: KernelLaunch, attributes: LaunchAttributes | undefined, operation: Operation): void {
    const { reports, work: { order }, hostMemory } = this.#parts;
    const byTextures = this.#accessesByTextures(launch);
    let found: readonly LaunchFinding[] = [];
    // Called when the launch is checked. The buffers must be looked up then, because later operations may free or
    // replace them.
    const then = () => {
      for (const finding of found) {
        const { allocation = finding.range } = finding;
        const region = allocation && order.regionAt(Number(allocation.address));
        reports.addOfKernel({ finding, operation, region });
      }
    };
    const observed: ObservedOperation = { operation, then };
    const checker = this.#driver.checker!;
    const { checks, observesAccesses } = checker;
    checker.launch(launch, attributes, {
      isRaceFree: checks.has("race") && this.#proofs!.areSeparate(launch),
      hasUniformBarriers: checks.has("synchronization") && this.#proofs!.hasUniformBarriers(launch),
      globalAccesses: checks.has("initialization") ? this.#proofs!.allOf(launch) : undefined,
      accesses: observesAccesses ? this.#proofs!.exactlyOf(launch) : undefined,
      onFindings: (findings) => found = findings,
      onAccesses(accesses) {
        hostMemory.afterKernel(accesses);
        const byKernel = accesses.map(({ address, byteLength, operation, source, first, parts }) => {
          return { address: Number(address), byteLength, access: operation, source, first, parts };
        });
        observed.accesses = byTextures.length === 0 ? byKernel : [...byKernel, ...byTextures];
        order.proceed();
      },
    });
    order.add(observed);
  }

  /** Launches a kernel whose accesses the driver does not observe, and derives them from the PTX. */
  #launchAnalyzed(
    launch: KernelLaunch,
    call: (launch: KernelLaunch) => void,
    { operation, launches }: { operation: Operation; launches: LaunchAccesses },
  ): void {
    const known = this.#instrumented && launches.of(launch);
    if (known?.isExact === false && this.#launchInstrumented(launch, call, { observed: { operation }, known })) return;
    call(launch);
    const { certain, possible } = known ?? launches.of(launch);
    const accesses = [...certain, ...this.#accessesByTextures(launch)];
    this.#parts.work.order.add({ operation, accesses, possible });
  }

  /**
   * Launches the instrumented version of a kernel, which records its accesses. Returns false if there is no such
   * version.
   */
  #launchInstrumented(
    launch: KernelLaunch,
    call: (launch: KernelLaunch) => void,
    { observed, known }: { observed: ObservedOperation; known: KnownAccesses },
  ): boolean {
    const { order } = this.#parts.work;
    return this.#instrumented!.launch(launch, call, (noted) => {
      observed.accesses = withSources(noted, known);
      order.proceed();
    }) && (order.add(observed), true);
  }
}
