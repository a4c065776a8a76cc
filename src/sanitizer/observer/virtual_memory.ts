/**
 * Observes virtual memory: it is created without an address, and mapped at any number of them, also in other processes.
 *
 * @module
 */
import type { Driver } from "../../driver.ts";
import { MemoryHistory, PossibleAccesses } from "../memory_history.ts";
import { identityOf } from "../processes/shared_memory.ts";
import type { OtherProcesses } from "../processes/other_processes.ts";
import type { SharedContents } from "../order/stream_order.ts";
import type { ObservedWork } from "./observed_work.ts";

/** A piece of memory with all its handles and mappings. */
interface ObservedMemory {
  /** The accesses by all of its addresses. Undefined until it is first mapped. */
  contents: SharedContents | undefined;
  /** Its identity, the same in all processes. Undefined if it is not shared, or its identity is unknown. */
  identity: string | undefined;
  /** The sizes of its mappings, by address. */
  readonly mappings: Map<number, number>;
  handleCount: number;
}

/** The virtual memory of a program. */
export class ObservedVirtualMemory {
  readonly #processes: OtherProcesses;
  readonly #work: ObservedWork;
  /** By handle. CUDA may return a handle more than once, so each counts its uses. */
  readonly #handles = new Map<bigint, { readonly memory: ObservedMemory; count: number }>();
  readonly #byIdentity = new Map<string, ObservedMemory>();
  /** By the address of a mapping. */
  readonly #mapped = new Map<number, ObservedMemory>();

  constructor(processes: OtherProcesses, work: ObservedWork) {
    this.#processes = processes;
    this.#work = work;
  }

  /** The driver's calls, observed. */
  calls(driver: Driver): Partial<Driver> {
    return { ...this.#handleCalls(driver), ...this.#mappingCalls(driver) };
  }

  #handleCalls(driver: Driver): Partial<Driver> {
    return {
      memCreate: (props, byteLength) => {
        const handle = driver.memCreate(props, byteLength);
        this.#addHandle(handle, undefined);
        return handle;
      },
      memImportFromShareableHandle: (shared, handleType, name) => {
        const handle = driver.memImportFromShareableHandle(shared, handleType);
        this.#addHandle(handle, identityOf(shared) ?? name);
        return handle;
      },
      memExportToShareableHandle: (handle, handleType) => {
        const shared = driver.memExportToShareableHandle(handle, handleType);
        this.#identify(this.#memoryOf(handle), identityOf(shared));
        return shared;
      },
      memRelease: (handle) => {
        driver.memRelease(handle);
        const known = this.#handles.get(handle);
        if (known === undefined) return;
        known.memory.handleCount--;
        if (--known.count === 0) this.#handles.delete(handle);
        this.#forgetUnused(known.memory);
      },
    };
  }

  #mappingCalls(driver: Driver): Partial<Driver> {
    return {
      memMap: (address, byteLength, handle) => {
        driver.memMap(address, byteLength, handle);
        const memory = this.#memoryOf(handle), at = Number(address);
        const contents = memory.contents ??= {
          history: new MemoryHistory(byteLength),
          possible: new PossibleAccesses(),
        };
        memory.mappings.set(at, byteLength);
        this.#mapped.set(at, memory);
        this.#work.allocated(this.#work.nextOfHost("map"), { address: at, byteLength }, () => contents);
        if (memory.identity !== undefined) this.#processes.mapped(memory.identity, at, byteLength);
      },
      memUnmap: (address, byteLength) => {
        driver.memUnmap(address, byteLength);
        const at = Number(address), memory = this.#mapped.get(at);
        const operation = this.#work.nextOfHost("unmap");
        this.#processes.freed(operation, at);
        this.#work.freed(operation, at);
        if (memory === undefined) return;
        this.#mapped.delete(at);
        memory.mappings.delete(at);
        this.#forgetUnused(memory);
      },
    };
  }

  #memoryOf(handle: bigint): ObservedMemory {
    return this.#handles.get(handle)?.memory ?? this.#addHandle(handle, undefined);
  }

  #addHandle(handle: bigint, identity: string | undefined): ObservedMemory {
    const known = this.#handles.get(handle);
    const memory = known?.memory ?? (identity === undefined ? undefined : this.#byIdentity.get(identity)) ??
      { contents: undefined, identity: undefined, mappings: new Map(), handleCount: 0 };
    memory.handleCount++;
    if (known === undefined) this.#handles.set(handle, { memory, count: 1 });
    else known.count++;
    this.#identify(memory, identity);
    return memory;
  }

  /** Call when other processes may map memory. */
  #identify(memory: ObservedMemory, identity: string | undefined): void {
    if (identity === undefined || memory.identity !== undefined) return;
    memory.identity = identity;
    this.#byIdentity.set(identity, memory);
    for (const [address, byteLength] of memory.mappings) this.#processes.mapped(identity, address, byteLength);
  }

  #forgetUnused({ handleCount, mappings, identity }: ObservedMemory): void {
    if (handleCount === 0 && mappings.size === 0 && identity !== undefined) this.#byIdentity.delete(identity);
  }
}
