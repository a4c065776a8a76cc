/**
 * A process of random programs of a store: does what it is told with its clients, and says what has become of it.
 *
 * @module
 */
import {
  type Cuda,
  type DeviceBuffer,
  type JsonValue,
  open,
  SharingError,
  StoreClient,
  type StoredMemory,
  type StoreEntry,
} from "../../mod.ts";
import type { OracleOutcome } from "./store_oracle.ts";
import { countResources } from "./resources.ts";

/** What a process is told. Requests and mappings have the number of the request. */
export type StoreCommand =
  | { readonly do: "begin"; readonly path: string }
  | { readonly do: "connect" | "disconnect" | "list"; readonly client: number }
  | { readonly do: "outcomes" | "end" | "resources" }
  | { readonly do: "giveUp" | "free" | "read"; readonly number: number }
  | { readonly do: "write"; readonly number: number; readonly value: number }
  | { readonly do: "request"; readonly client: number; readonly number: number; readonly request: StoreRequest };

/** What a client asks its store for. */
export type StoreRequest =
  | {
    readonly do: "create";
    readonly name: string;
    readonly device: number;
    readonly byteLength: number;
    readonly value: number;
    /** Characters of metadata that mean nothing: much of it lets the store write its table anew. */
    readonly padding: number;
  }
  | { readonly do: "publish"; readonly memory: number }
  | { readonly do: "map"; readonly name: string; readonly write: boolean }
  | { readonly do: "remove"; readonly name: string };

/** What the first and the last bytes of a mapping are; -1 if they differ. */
async function valueOf(buffer: DeviceBuffer): Promise<number> {
  const first = await buffer.read(Uint8Array, { length: 4 });
  const last = await buffer.subarray(buffer.byteLength - 4).read(Uint8Array);
  const [a, b] = [first, last].map((bytes) => new Uint32Array(bytes.slice().buffer)[0]!);
  return a === b ? a! : -1;
}

async function setValue(buffer: DeviceBuffer, value: number): Promise<void> {
  const bytes = new Uint8Array(Uint32Array.of(value).buffer);
  buffer.subarray(0, 4).copyFrom(bytes);
  buffer.subarray(buffer.byteLength - 4).copyFrom(bytes);
  await buffer.stream.finished();
}

export class StoreParticipant {
  #cuda: Cuda | undefined;
  #path = "";
  readonly #clients = new Map<number, StoreClient>();
  readonly #created = new Map<number, StoredMemory>();
  readonly #mapped = new Map<number, DeviceBuffer>();
  readonly #ending = new Map<number, AbortController>();
  #outcomes: [number, OracleOutcome | { readonly is: "wrong"; readonly why: string }][] = [];

  async run(command: StoreCommand): Promise<unknown> {
    switch (command.do) {
      case "begin":
        this.#path = command.path;
        this.#cuda = open({ driver: "software", softwareDevices: 2, sanitize: false });
        return;
      case "connect":
        this.#clients.set(command.client, await StoreClient.connect(this.#cuda!, this.#path, { wait: true }));
        return;
      case "disconnect":
        return await this.#clients.get(command.client)![Symbol.asyncDispose]();
      case "list":
        return (await this.#clients.get(command.client)!.entries()).map(listed);
      case "outcomes":
        return this.#outcomes.splice(0);
      case "giveUp":
        return this.#ending.get(command.number)!.abort();
      case "free":
        return await this.#free(command.number);
      case "read":
        return await valueOf(this.#bufferOf(command.number));
      case "write":
        return await setValue(this.#bufferOf(command.number), command.value);
      case "request":
        return this.#begin(command.client, command.number, command.request);
      case "resources":
        return [...countResources()].sort();
      case "end":
        return await this.#end();
    }
  }

  #bufferOf(number: number): DeviceBuffer {
    return this.#created.get(number)?.buffer ?? this.#mapped.get(number)!;
  }

  /** A buffer of created memory can be freed, too. */
  async #free(number: number): Promise<void> {
    const memory = this.#created.get(number);
    if (memory !== undefined && number % 2 === 0) await memory[Symbol.asyncDispose]();
    else this.#bufferOf(number).free();
  }

  #begin(client: number, number: number, request: StoreRequest): void {
    const ending = new AbortController();
    this.#ending.set(number, ending);
    // Those of another program may come late.
    const outcomes = this.#outcomes;
    void this.#ask(this.#clients.get(client)!, number, request, ending.signal).then(
      (outcome) => outcomes.push([number, outcome]),
      (error: unknown) => {
        outcomes.push([
          number,
          error instanceof SharingError
            ? { is: "refused", code: error.code }
            : ending.signal.aborted
            ? { is: "given up" }
            : { is: "wrong", why: String(error) },
        ]);
      },
    );
  }

  async #ask(
    client: StoreClient,
    number: number,
    request: StoreRequest,
    signal: AbortSignal,
  ): Promise<OracleOutcome | { readonly is: "wrong"; readonly why: string }> {
    switch (request.do) {
      case "create": {
        const { name, byteLength, value, padding } = request;
        const device = this.#cuda!.device(request.device);
        const memory = await client.create(name, byteLength, { device, metadata: metadataOf(number, padding), signal });
        this.#created.set(number, memory);
        const before = await valueOf(memory.buffer);
        if (before !== 0) return { is: "wrong", why: `new memory is ${before}` };
        await setValue(memory.buffer, value);
        return { is: "created" };
      }
      case "publish":
        await this.#created.get(request.memory)!.publish();
        return { is: "published" };
      case "map": {
        const buffer = await client.map(request.name, { write: request.write, signal });
        this.#mapped.set(number, buffer);
        return { is: "mapped", value: await valueOf(buffer), byteLength: buffer.byteLength };
      }
      case "remove":
        await client.remove(request.name);
        return { is: "removed" };
    }
  }

  async #end(): Promise<void> {
    for (const client of this.#clients.values()) await client[Symbol.asyncDispose]();
    this.#cuda?.[Symbol.dispose]();
    this.#cuda = undefined;
    for (const map of [this.#clients, this.#created, this.#mapped, this.#ending]) map.clear();
    this.#outcomes = [];
  }
}

/** The metadata of memory, by the number of the request. */
interface Metadata {
  readonly number: number;
  readonly padding: string;
}

function metadataOf(number: number, padding: number): Metadata & JsonValue {
  return { number, padding: "x".repeat(padding) };
}

/** The request that has created memory, by its metadata; undefined unless they are complete. */
export function numberIn(metadata: JsonValue | undefined): number | undefined {
  const { number, padding } = metadata as unknown as Metadata;
  return /^x*$/.test(padding) ? number : undefined;
}

/** What is compared of an entry. */
function listed({ name, byteLength, generation, metadata, readers }: StoreEntry): unknown {
  return [name, byteLength, generation, numberIn(metadata), readers.map(({ pid }) => pid).sort((a, b) => a - b)];
}
