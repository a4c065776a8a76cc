/**
 * What a store must do, written from its documentation: it knows what each name has, who holds what, what is used, and
 * what must become of each request.
 *
 * @module
 */

/** The granularity of memory in bytes. */
export const unit: number = 2 ** 21;

/** What a store may have, in units. */
export interface OracleLimits {
  readonly ofDevice: number;
  readonly ofUser: number;
  readonly evict: boolean;
}

/** A client, or what is left of the clients of a process whose connections have ended. */
export interface OracleHolder {
  readonly key: string;
  readonly process: number;
}

/** What has become of a request. */
export type OracleOutcome =
  | { readonly is: "created" | "published" | "removed" | "given up" }
  | { readonly is: "mapped"; readonly value: number; readonly byteLength: number }
  | { readonly is: "refused"; readonly code: string };

/** A memory of the store. */
export interface OracleMemory {
  /** The request that has created it. */
  readonly number: number;
  readonly name: string;
  readonly device: number;
  readonly units: number;
  readonly byteLength: number;
  /** What its first and last bytes are. */
  value: number;
  state: "unpublished" | "published" | "replaced" | "removed";
  generation: number;
  writer: OracleHolder | undefined;
  /** How often each of them has it mapped. */
  readonly readers: Map<OracleHolder, number>;
  /** The step in which it was mapped or released last. */
  lastUse: number;
}

/** A request to create memory. */
export interface CreateRequest {
  readonly number: number;
  readonly holder: OracleHolder;
  readonly name: string;
  readonly device: number;
  readonly byteLength: number;
  readonly value: number;
}

/** A request to map memory. */
export interface MapRequest {
  readonly number: number;
  readonly holder: OracleHolder;
  readonly name: string;
}

/** A mapping of a process, whether its client is still connected or not. */
export interface OracleMapping {
  readonly memory: OracleMemory;
  readonly holder: OracleHolder;
  readonly mayWrite: boolean;
}

/** Of several memories that were used last at the same time, the one that has made room. */
type Choose = (candidates: readonly OracleMemory[]) => Promise<OracleMemory>;

export class StoreOracle {
  readonly #limits: OracleLimits;
  readonly #choose: Choose;
  #memories: OracleMemory[] = [];
  #creates: CreateRequest[] = [];
  #maps: (MapRequest & { readonly write: boolean })[] = [];
  /** By the number of the request. */
  readonly outcomes: Map<number, OracleOutcome> = new Map();
  /** What processes have mapped, by the number of the request that has brought it. */
  readonly mappings: Map<number, OracleMapping> = new Map();
  #step = 0;

  constructor(limits: OracleLimits, choose: Choose) {
    this.#limits = limits;
    this.#choose = choose;
  }

  get memories(): readonly OracleMemory[] {
    return this.#memories;
  }

  /** The requests that wait. */
  get waiting(): readonly { readonly number: number; readonly holder: OracleHolder }[] {
    return [...this.#creates, ...this.#maps];
  }

  /** Those who wait for room. */
  get waitingForRoom(): readonly CreateRequest[] {
    return this.#creates;
  }

  published(name: string): OracleMemory | undefined {
    return this.#memories.find((memory) => memory.name === name && memory.state === "published");
  }

  /** What is used, in units. */
  used(device?: number): number {
    const counted = this.#memories.filter((memory) => device === undefined || memory.device === device);
    return counted.reduce((sum, { units }) => sum + units, 0);
  }

  beginStep(step: number): void {
    this.#step = step;
  }

  async create(request: CreateRequest): Promise<void> {
    const units = Math.ceil(request.byteLength / unit);
    if (units > this.#limits.ofDevice || this.#exceedsQuota(units)) return this.#refuse(request, "limit-exceeded");
    this.#creates.push(request);
    await this.#grant();
  }

  async publish(number: number, memoryNumber: number): Promise<void> {
    const { memory, holder } = this.mappings.get(memoryNumber)!;
    const last = this.published(memory.name);
    memory.state = "published";
    memory.generation = (last?.generation ?? 0) + 1;
    memory.writer = undefined;
    memory.readers.set(holder, 1);
    memory.lastUse = this.#step;
    this.mappings.set(memoryNumber, { memory, holder, mayWrite: false });
    this.outcomes.set(number, { is: "published" });
    if (last !== undefined) last.state = "replaced";
    const waiting = this.#maps.filter(({ name }) => name === memory.name);
    this.#maps = this.#maps.filter((request) => !waiting.includes(request));
    for (const request of waiting) this.map(request, request.write);
    await this.#dropUnused();
  }

  map(request: MapRequest, write: boolean): void {
    const memory = this.published(request.name);
    if (memory === undefined) return void this.#maps.push({ ...request, write });
    memory.readers.set(request.holder, (memory.readers.get(request.holder) ?? 0) + 1);
    memory.lastUse = this.#step;
    this.mappings.set(request.number, { memory, holder: request.holder, mayWrite: write });
    const { value, byteLength } = memory;
    this.outcomes.set(request.number, { is: "mapped", value, byteLength });
  }

  /** A mapping is freed. Nobody tells the store of it if the client has gone. */
  async free(number: number, isConnected: boolean): Promise<void> {
    const { memory, holder } = this.mappings.get(number)!;
    this.mappings.delete(number);
    if (!isConnected) return;
    if (memory.writer === holder) memory.writer = undefined;
    else this.#release(memory, holder, 1);
    await this.#dropUnused();
  }

  async remove(number: number, name: string): Promise<void> {
    const memory = this.published(name);
    if (memory === undefined) return void this.outcomes.set(number, { is: "refused", code: "not-found" });
    memory.state = "removed";
    this.outcomes.set(number, { is: "removed" });
    await this.#dropUnused();
  }

  async giveUp(number: number): Promise<void> {
    this.#creates = this.#creates.filter((request) => request.number !== number);
    this.#maps = this.#maps.filter((request) => request.number !== number);
    this.outcomes.set(number, { is: "given up" });
    await this.#grant();
  }

  /** A client disposes of its connection. What it has mapped, `left` holds from then on. */
  async disconnect(holder: OracleHolder, left: OracleHolder): Promise<void> {
    for (const { number, holder: asking } of this.waiting) {
      if (asking === holder) this.outcomes.set(number, { is: "refused", code: "cut-off" });
    }
    this.#forgetRequests([holder]);
    // What it has created is unmapped, what it has mapped is not.
    for (const [number, { memory, holder: mapping }] of this.mappings) {
      if (mapping !== holder || number !== memory.number) continue;
      this.mappings.delete(number);
      if (memory.writer === holder) memory.writer = undefined;
      else this.#release(memory, holder, 1);
    }
    for (const { readers } of this.#memories) {
      const count = readers.get(holder);
      if (count === undefined) continue;
      readers.delete(holder);
      readers.set(left, (readers.get(left) ?? 0) + count);
    }
    await this.#dropUnused();
  }

  /** A process is gone, with all that it has mapped. */
  async kill(holders: readonly OracleHolder[]): Promise<void> {
    this.#forgetRequests(holders);
    for (const [number, { holder }] of this.mappings) if (holders.includes(holder)) this.mappings.delete(number);
    for (const memory of this.#memories) {
      for (const holder of holders) {
        if (memory.writer === holder) memory.writer = undefined;
        this.#release(memory, holder, Infinity);
      }
    }
    await this.#dropUnused();
  }

  /** Another store takes over: only who is connected to it can say what it holds. */
  async takeOver(connected: readonly OracleHolder[]): Promise<void> {
    for (const memory of this.#memories) {
      memory.lastUse = this.#step;
      for (const holder of memory.readers.keys()) if (!connected.includes(holder)) memory.readers.delete(holder);
    }
    await this.#dropUnused();
  }

  #release(memory: OracleMemory, holder: OracleHolder, times: number): void {
    const count = memory.readers.get(holder);
    if (count === undefined) return;
    if (count <= times) memory.readers.delete(holder);
    else memory.readers.set(holder, count - times);
    memory.lastUse = this.#step;
  }

  #forgetRequests(holders: readonly OracleHolder[]): void {
    this.#creates = this.#creates.filter(({ holder }) => !holders.includes(holder));
    this.#maps = this.#maps.filter(({ holder }) => !holders.includes(holder));
  }

  #exceedsQuota(units: number): boolean {
    return this.used() + units > this.#limits.ofUser;
  }

  #refuse({ number }: CreateRequest, code: string): void {
    this.outcomes.set(number, { is: "refused", code });
  }

  async #dropUnused(): Promise<void> {
    this.#memories = this.#memories.filter(({ state, writer, readers }) => {
      return state === "published" || writer !== undefined || readers.size > 0;
    });
    await this.#grant();
  }

  /** Gives those who wait what there is, in the order in which they have asked for memory of each device. */
  async #grant(): Promise<void> {
    // What one has got may be more than its user's quota leaves for another one.
    for (let count = -1; count !== this.#creates.length;) {
      count = this.#creates.length;
      await this.#grantOnce();
    }
  }

  async #grantOnce(): Promise<void> {
    const full = new Set<number>();
    for (const request of this.#creates) {
      const { number, name, device, byteLength, value, holder } = request;
      if (full.has(device)) continue;
      const units = Math.ceil(byteLength / unit);
      if (this.#exceedsQuota(units)) {
        this.#refuse(request, "limit-exceeded");
      } else if (await this.#makeRoom(device, units)) {
        const memory: OracleMemory = {
          number,
          name,
          device,
          units,
          byteLength,
          value,
          state: "unpublished",
          generation: 0,
          writer: holder,
          readers: new Map(),
          lastUse: this.#step,
        };
        this.#memories.push(memory);
        this.mappings.set(number, { memory, holder, mayWrite: true });
        this.outcomes.set(number, { is: "created" });
      } else {
        full.add(device);
        continue;
      }
      this.#creates = this.#creates.filter((waiting) => waiting !== request);
    }
  }

  async #makeRoom(device: number, units: number): Promise<boolean> {
    while (this.used(device) + units > this.#limits.ofDevice) {
      if (!this.#limits.evict) return false;
      const unread = this.#memories.filter((memory) => {
        return memory.device === device && memory.state === "published" && memory.readers.size === 0;
      });
      const evictable = unread.reduce((sum, { units }) => sum + units, 0);
      if (this.used(device) + units - evictable > this.#limits.ofDevice) return false;
      const oldest = Math.min(...unread.map(({ lastUse }) => lastUse));
      const candidates = unread.filter(({ lastUse }) => lastUse === oldest);
      if (candidates.length === 0) return false;
      const evicted = candidates.length === 1 ? candidates[0] : await this.#choose(candidates);
      this.#memories = this.#memories.filter((memory) => memory !== evicted);
    }
    return true;
  }
}
