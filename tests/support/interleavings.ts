/**
 * Runs the programs of several threads in all orders of their accesses to shared memory, up to a number of preemptions.
 * The programs are functions that use `Atomics`, such as the library's own. All of them run on the calling thread.
 *
 * JavaScript cannot suspend a function between two accesses. So a program is called again for each access, and gets the
 * results that its accesses before have had. What it does next depends only on these results. So this is done once for
 * each sequence of results, and then known in all states of the memory and of the other threads.
 *
 * @module
 */

/** A thread. */
export interface ModelThread {
  readonly name: string;
  /**
   * The thread's program, which must depend only on the results of its accesses to shared memory.
   *
   * @param forget says, just before an access, that all that follows depends only on the given string and on the results
   * of later accesses, so that states that differ only in what was before are the same
   */
  readonly run: (forget: (local: string) => void) => void;
  /** Called after each pause, such as the library's `pause`. May call `forget`. */
  readonly onPause?: () => void;
  /** Whether the program runs again and again, each time as if for the first time, and need not end. */
  readonly repeats?: boolean;
  /** What the thread does before. Without this, a thread that repeats its program is waiting when the others begin. */
  readonly first?: ModelThread["run"] | undefined;
}

/** Threads that share memory. */
export interface Model {
  readonly threads: readonly ModelThread[];
  /** The shared memory, with its initial contents. */
  readonly memory: readonly SharedArrayBuffer[];
  /** Words of the first memory on which no thread depends, such as statistics. They are always 0. */
  readonly ignored?: readonly number[];
  /** The maximum number of times that a thread that could go on is interrupted. With Infinity, all orders are explored. */
  readonly mostPreemptions: number;
}

/** What was explored. */
export interface Exploration {
  readonly states: number;
  /**
   * The accesses that lead to a state in which a thread has thrown an error, or from which the threads that should end
   * do not, without those that commute with the other threads'. Undefined if there is none.
   */
  readonly failure: string | undefined;
}

type WordArray = Int32Array | BigInt64Array;
type Value = number | bigint;
type Result = Value | string;
type Kind = "load" | "store" | "add" | "sub" | "exchange" | "compareExchange" | "wait" | "notify" | "read" | "write";

/** An access to shared memory. */
interface Access {
  readonly kind: Kind;
  /** The place of the word in all memory, in words. Negative in memory that does not belong to the model. */
  readonly address: number;
  readonly isLong: boolean;
  readonly values: readonly Value[];
}

/** A place in a thread's program: the results of its accesses before. */
interface Place {
  readonly number: number;
  readonly thread: number;
  readonly before: Place | undefined;
  readonly result: Result | undefined;
  readonly following: Map<Result, Place>;
  /** The next access. Undefined if the program has ended. */
  next: Access | undefined;
  error: unknown;
  /** For each word, how the thread accesses it from here on, as far as is known: the sum of some of the bits below. */
  readonly accesses: Uint8Array;
  /** All places from which the thread comes here. */
  readonly from: Place[];
}

const bits = { uses: 1, changes: 2, waits: 4 } as const;

/** Contents of the memory. There is one object for the same contents. */
interface Contents {
  readonly number: number;
  readonly words: Int32Array;
  /** The contents after a change of one word. */
  readonly following: Map<string, Contents>;
}

/** Thrown to leave a thread's program at its next access. */
const suspended = Symbol("suspended");

/** Explores all orders of accesses, of those that differ only in accesses that commute only one. */
export function explore(model: Model): Exploration {
  return new Explorer(model).explore();
}

const observedArrays = new WeakMap<WordArray, WordArray>();
let running: Explorer | undefined;

/** Returns an array of which accesses without `Atomics` are steps of a model's threads, too. */
export function observed(words: Int32Array<SharedArrayBuffer>): Int32Array<SharedArrayBuffer> {
  const proxy = new Proxy(words, {
    get(target, name) {
      if (typeof name === "string" && /^\d+$/.test(name)) return running!.access("read", words, Number(name));
      return Reflect.get(target, name, target);
    },
    set(_, name, value) {
      running!.access("write", words, Number(name), value | 0);
      return true;
    },
  });
  observedArrays.set(proxy, words);
  return proxy;
}

/**
 * A state is a record of numbers: those of the memory's contents and of each thread's place, then the threads that wait,
 * in hexadecimal digits from the last to the first, and the thread that ran last.
 */
class Explorer {
  readonly #model: Model;
  readonly #threads: number;
  readonly #begins: readonly number[];
  readonly #ignored: ReadonlySet<number>;
  readonly #wordCount: number;
  readonly #contents: Contents[] = [];
  readonly #contentsByKey = new Map<string, Contents>();
  readonly #places: Place[] = [];
  /** For each thread, where its program first depended only on a string. */
  readonly #forgotten: readonly Map<string, Place>[];
  readonly #beginnings: readonly Place[];
  /** For each thread that does something first, where it begins to do so. */
  readonly #firsts: readonly (Place | undefined)[];
  /** Whether a thread was found to access a word in another way than was known, so that accesses may not commute. */
  #hasFound = false;
  /** The results that the program gets that is called, and how many of them it has got. */
  #results: readonly Result[] = [];
  #position = 0;
  #next: Access | undefined;
  #local: string | undefined;
  #onPause: (() => void) | undefined;
  /** The state after the current step. */
  readonly #state: Int32Array;

  constructor(model: Model) {
    this.#model = model;
    this.#threads = model.threads.length;
    this.#state = new Int32Array(this.#threads + 3);
    this.#ignored = new Set(model.ignored);
    const begins: number[] = [];
    let length = 0;
    for (const { byteLength } of model.memory) {
      begins.push(length);
      length += byteLength / 4;
    }
    this.#begins = begins;
    this.#wordCount = length;
    const words = new Int32Array(length);
    for (const [index, memory] of model.memory.entries()) words.set(new Int32Array(memory), begins[index]!);
    this.#contentsOf(words);
    this.#forgotten = model.threads.map(() => new Map());
    this.#beginnings = model.threads.map((_, thread) => this.#addPlace(thread));
    this.#firsts = model.threads.map(({ first }, thread) => first && this.#addPlace(thread));
  }

  explore(): Exploration {
    const scope = globalThis as unknown as { Atomics: unknown; setImmediate: unknown };
    const usual = { Atomics, setImmediate: scope.setImmediate };
    const { now } = performance;
    running = this;
    Object.assign(scope, { Atomics: this.#observedAtomics(), setImmediate() {} });
    performance.now = () => 0;
    try {
      for (const place of [...this.#beginnings, ...this.#firsts]) if (place !== undefined) this.#find(place);
      // Few preemptions show most of what threads access.
      const { mostPreemptions } = this.#model;
      for (let most = 0; most < Math.min(mostPreemptions, 3); most++) {
        const found = this.#exploreOnce(most);
        if (found.failure !== undefined) return found;
      }
      for (;;) {
        this.#hasFound = false;
        const found = this.#exploreOnce(mostPreemptions);
        if (found.failure !== undefined || !this.#hasFound) return found;
      }
    } finally {
      running = undefined;
      Object.assign(scope, usual);
      performance.now = now;
    }
  }

  /** An access by the program that is called. Returns its result if that is known, else leaves the program. */
  access(kind: Kind, array: WordArray, index: number, ...values: Value[]): Result {
    if (this.#position < this.#results.length) {
      this.#local = undefined;
      const result = this.#results[this.#position++]!;
      if (kind === "wait" && this.#memoryOf(array) < 0) this.#onPause?.();
      return result;
    }
    const words = observedArrays.get(array) ?? array;
    if (index >= words.length) throw new RangeError(`The memory ends before word ${index}`);
    const memory = this.#memoryOf(words);
    const isLong = words instanceof BigInt64Array;
    const address = memory < 0 ? -1 : this.#begins[memory]! + words.byteOffset / 4 + (isLong ? 2 * index : index);
    // The program may catch what was thrown first, and access memory again.
    this.#next ??= { kind, address, isLong, values };
    throw suspended;
  }

  #memoryOf(words: WordArray): number {
    return this.#model.memory.indexOf(words.buffer as SharedArrayBuffer);
  }

  #observedAtomics(): unknown {
    const kinds = ["load", "store", "add", "sub", "exchange", "compareExchange", "wait", "notify"] as const;
    return Object.fromEntries(kinds.map((kind) => {
      return [
        kind,
        (array: WordArray, index: number, ...values: Value[]) => this.access(kind, array, index, ...values),
      ];
    }));
  }

  #addPlace(thread: number, before?: Place, result?: Result): Place {
    const place: Place = {
      number: this.#places.length,
      thread,
      before,
      result,
      following: new Map(),
      next: undefined,
      error: undefined,
      accesses: new Uint8Array(this.#wordCount),
      from: before === undefined ? [] : [before],
    };
    this.#places.push(place);
    return place;
  }

  /** Finds the next access at a place. */
  #find(place: Place): void {
    const results: Result[] = [];
    let begin = place;
    for (; begin.before !== undefined; begin = begin.before) results.push(begin.result!);
    this.#results = results.reverse();
    this.#position = 0;
    this.#next = this.#local = undefined;
    const { run, onPause, first = run } = this.#model.threads[place.thread]!;
    this.#onPause = onPause;
    try {
      (begin === this.#firsts[place.thread] ? first : run)((local) => {
        if (this.#next === undefined) this.#local = local;
      });
    } catch (error) {
      if (this.#next === undefined) place.error = error;
    }
    place.next = this.#next;
    if (place.next !== undefined) this.#foresee(place, place.next);
  }

  /** Returns the place after one where the next access had a result. */
  #after(place: Place, result: Result): Place {
    const known = place.following.get(result);
    if (known !== undefined) return known;
    const { thread } = place;
    let after = this.#addPlace(thread, place, result);
    this.#find(after);
    let same: Place | undefined;
    if (after.next === undefined && after.error === undefined && this.#model.threads[thread]!.repeats) {
      same = this.#beginnings[thread]!;
    } else if (this.#local !== undefined) {
      const forgotten = this.#forgotten[thread]!;
      same = forgotten.get(this.#local);
      if (same === undefined) forgotten.set(this.#local, after);
    }
    if (same !== undefined) {
      same.from.push(place);
      for (const [address, how] of same.accesses.entries()) if (how !== 0) this.#spread(place, address, how);
      after = same;
    }
    place.following.set(result, after);
    return after;
  }

  /** Notes an access at a place for all places from which the thread comes there. */
  #foresee(place: Place, { kind, address, values }: Access): void {
    if (address < 0 || this.#ignored.has(address)) return;
    const changes = kind === "store" || kind === "write" || kind === "exchange" || kind === "compareExchange" ||
      (kind === "add" || kind === "sub") && Number(values[0]) !== 0;
    this.#spread(place, address, bits.uses + (changes ? bits.changes : 0) + (kind === "wait" ? bits.waits : 0));
  }

  #spread(place: Place, address: number, how: number): void {
    const open = [place];
    for (let at; (at = open.pop()) !== undefined;) {
      if ((at.accesses[address]! & how) === how) continue;
      at.accesses[address]! |= how;
      // Nobody has relied on what is known of a new place.
      if (at.following.size > 0) this.#hasFound = true;
      open.push(...at.from);
    }
  }

  #contentsOf(words: Int32Array): Contents {
    const halves = new Uint16Array(words.buffer, 0, 2 * words.length);
    const key = String.fromCharCode.apply(null, halves as unknown as number[]);
    let contents = this.#contentsByKey.get(key);
    if (contents === undefined) {
      contents = { number: this.#contents.length, words, following: new Map() };
      this.#contents.push(contents);
      this.#contentsByKey.set(key, contents);
    }
    return contents;
  }

  /** Returns the contents after a change of one word. */
  #changed({ words, following }: Contents, address: number, value: Value): Contents {
    const key = `${address} ${value}`;
    let after = following.get(key);
    if (after === undefined) {
      const changed = words.slice();
      if (typeof value === "bigint") setLong(changed, address, value);
      else changed[address] = value;
      following.set(key, after = this.#contentsOf(changed));
    }
    return after;
  }

  #placeOf(thread: number): Place {
    return this.#places[this.#state[1 + thread]!]!;
  }

  /** Whether a thread waits. */
  #waits(thread: number): boolean {
    for (let waiting = this.#state[1 + this.#threads]!; waiting !== 0; waiting >>>= 4) {
      if ((waiting & 15) === thread + 1) return true;
    }
    return false;
  }

  /** Whether an access commutes with all that other threads do from now on. */
  #commutes(thread: number, { kind, address, values }: Access): boolean {
    if (this.#ignored.has(address)) return true;
    if (address < 0 || kind === "wait") return false;
    const isLoad = kind === "load" || kind === "read" || (kind === "add" || kind === "sub") && Number(values[0]) === 0;
    const conflicts = kind === "notify" ? bits.waits : isLoad ? bits.changes : bits.uses;
    for (let other = 0; other < this.#threads; other++) {
      if (other !== thread && (this.#placeOf(other).accesses[address]! & conflicts) !== 0) return false;
    }
    return true;
  }

  /** Does the next access of a thread. */
  #step(thread: number): void {
    const state = this.#state, place = this.#placeOf(thread), waiters = 1 + this.#threads;
    const { kind, address, isLong, values } = place.next!;
    const end = (result: Result) => void (state[1 + thread] = this.#after(place, result).number);
    if (address < 0) return end("timed-out");
    if (this.#ignored.has(address)) return end(isLong ? 0n : 0);
    const contents = this.#contents[state[0]!]!;
    const value: Value = isLong ? longAt(contents.words, address) : contents.words[address]!;
    if (kind === "load" || kind === "read") return end(value);
    if (kind === "wait") {
      if (value !== values[0]) return end("not-equal");
      state[waiters] = state[waiters]! << 4 | thread + 1;
      return;
    }
    if (kind === "notify") {
      let most = Number(values[0] ?? Infinity), woken = 0, left = 0;
      const waiting: number[] = [];
      for (let rest = state[waiters]!; rest !== 0; rest >>>= 4) waiting.unshift((rest & 15) - 1);
      for (const other of waiting) {
        const at = this.#placeOf(other);
        if (most > 0 && at.next!.address === address) {
          state[1 + other] = this.#after(at, "ok").number;
          woken++;
          most--;
        } else {
          left = left << 4 | other + 1;
        }
      }
      state[waiters] = left;
      return end(woken);
    }
    const after = updated(kind, value, values);
    if (after !== value) state[0] = this.#changed(contents, address, after).number;
    end(kind === "store" ? after : value);
  }

  /** Does all accesses that commute with all that other threads do. */
  #settle(): void {
    for (let thread = 0; thread < this.#threads; thread++) {
      if (this.#waits(thread)) continue;
      for (let count = 0;; count++) {
        const { next } = this.#placeOf(thread);
        if (next === undefined || !this.#commutes(thread, next)) break;
        if (count === 10_000) throw new Error("A thread goes on for ever without another one");
        this.#step(thread);
      }
    }
  }

  #exploreOnce(mostPreemptions: number): Exploration {
    const { threads } = this.#model, state = this.#state, last = this.#threads + 2;
    const states = new Records(state.length);
    let open: number[] = [], next: number[] = [];
    const edges: number[] = [], ends: number[] = [];
    state.fill(0);
    for (const [thread, beginning] of this.#beginnings.entries()) {
      state[1 + thread] = (this.#firsts[thread] ?? beginning).number;
    }
    state[last] = -1;
    for (const [thread, { repeats, first }] of threads.entries()) {
      while (repeats && first === undefined && !this.#waits(thread)) this.#step(thread);
    }
    this.#settle();
    open.push(states.add(state, -1));
    for (let preemptions = 0; preemptions <= mostPreemptions && open.length > 0; preemptions++) {
      for (let at = 0; at < open.length; at++) {
        const number = open[at]!;
        // It may have been found after fewer preemptions, too.
        if (!states.visit(number)) continue;
        states.get(number, state);
        const by = state[last]!;
        const isPreempted = by >= 0 && !this.#waits(by) && (this.#placeOf(by).next?.address ?? -1) >= 0;
        let isStuck = true, isEnd = true;
        for (let thread = 0; thread < this.#threads; thread++) {
          if (thread > 0) states.get(number, state);
          const { next: access, error } = this.#placeOf(thread);
          if (error !== undefined) return { states: states.count, failure: this.#describe(states, number) };
          if (access === undefined) continue;
          const waits = this.#waits(thread);
          if (!waits || !threads[thread]!.repeats) isEnd = false;
          if (waits) continue;
          isStuck = false;
          this.#step(thread);
          state[last] = thread;
          this.#settle();
          const after = states.add(state, number);
          (isPreempted && thread !== by ? next : open).push(after);
          edges.push(number, after);
        }
        if (isEnd) ends.push(number);
        if (isStuck && !isEnd) return { states: states.count, failure: this.#describe(states, number) };
      }
      open = next;
      next = [];
    }
    const lost = firstLost(states, edges, ends);
    return { states: states.count, failure: lost === undefined ? undefined : this.#describe(states, lost) };
  }

  #describe(states: Records, failed: number): string {
    const lines: string[] = [];
    const textOf = ({ kind, address, values }: Access) => `${kind} ${[address, ...values].join(", ")}`;
    const { threads } = this.#model, state = this.#state;
    for (let number = failed; states.beforeOf(number) >= 0; number = states.beforeOf(number)) {
      states.get(number, state);
      const thread = state.at(-1)!;
      states.get(states.beforeOf(number), state);
      lines.push(`${threads[thread]!.name}: ${textOf(this.#placeOf(thread).next!)}`);
    }
    states.get(failed, state);
    const ends = threads.map(({ name }, thread) => {
      const { next, error } = this.#placeOf(thread);
      if (error !== undefined) return `${name} failed: ${error}`;
      return next === undefined
        ? `${name} has ended`
        : `${name} ${this.#waits(thread) ? "waits" : "is at"}: ${textOf(next)}`;
    });
    return [...lines.reverse(), ...ends].join("\n");
  }
}

/** A set of records of numbers. */
class Records {
  readonly #length: number;
  #all = new Int32Array(2 ** 16);
  /** For each record, the one before it, and whether it was visited. */
  #before = new Int32Array(2 ** 12);
  #visited = new Uint8Array(2 ** 12);
  /** The records, by their hash: the number plus 1 of each. */
  #table = new Int32Array(2 ** 13);
  count = 0;

  constructor(length: number) {
    this.#length = length;
  }

  /** Returns the number of a record, which is added if it is new. */
  add(record: Int32Array, before: number): number {
    if (2 * this.count >= this.#table.length) this.#growTable();
    const place = this.#placeOf(record);
    if (this.#table[place] !== 0) return this.#table[place]! - 1;
    const number = this.count++;
    this.#all = grown(this.#all, (number + 1) * this.#length);
    this.#before = grown(this.#before, number + 1);
    this.#visited = grown(this.#visited, number + 1);
    this.#all.set(record, number * this.#length);
    this.#before[number] = before;
    this.#table[place] = number + 1;
    return number;
  }

  get(number: number, record: Int32Array): void {
    for (let index = 0; index < this.#length; index++) record[index] = this.#all[number * this.#length + index]!;
  }

  beforeOf(number: number): number {
    return this.#before[number]!;
  }

  isVisited(number: number): boolean {
    return this.#visited[number] === 1;
  }

  /** Notes that a record was visited. Returns false if it had been before. */
  visit(number: number): boolean {
    const isNew = this.#visited[number] === 0;
    this.#visited[number] = 1;
    return isNew;
  }

  #placeOf(record: Int32Array): number {
    let hash = 0;
    for (let index = 0; index < this.#length; index++) {
      hash = Math.imul(hash ^ record[index]!, 0x9e37_79b1) ^ hash >>> 15;
    }
    const mask = this.#table.length - 1;
    for (let place = hash & mask;; place = place + 1 & mask) {
      const number = this.#table[place]! - 1;
      if (number < 0) return place;
      let index = 0;
      while (index < this.#length && this.#all[number * this.#length + index] === record[index]) index++;
      if (index === this.#length) return place;
    }
  }

  #growTable(): void {
    this.#table = new Int32Array(2 * this.#table.length);
    const record = new Int32Array(this.#length);
    for (let number = 0; number < this.count; number++) {
      this.get(number, record);
      this.#table[this.#placeOf(record)] = number + 1;
    }
  }
}

/** Returns the first visited state from which no end is reached. Undefined if there is none. */
function firstLost(states: Records, edges: readonly number[], ends: readonly number[]): number | undefined {
  const begins = new Int32Array(states.count + 1), from = new Int32Array(edges.length / 2);
  for (let edge = 0; edge < edges.length; edge += 2) begins[edges[edge + 1]! + 1]!++;
  for (let number = 0; number < states.count; number++) begins[number + 1]! += begins[number]!;
  const filled = begins.slice();
  for (let edge = 0; edge < edges.length; edge += 2) from[filled[edges[edge + 1]!]!++] = edges[edge]!;
  const reaches = new Uint8Array(states.count);
  const open = [...ends];
  for (const end of ends) reaches[end] = 1;
  for (let number; (number = open.pop()) !== undefined;) {
    for (let at = begins[number]!; at < begins[number + 1]!; at++) {
      const before = from[at]!;
      if (reaches[before] === 1) continue;
      reaches[before] = 1;
      open.push(before);
    }
  }
  for (let number = 0; number < states.count; number++) {
    if (reaches[number] === 0 && states.isVisited(number)) return number;
  }
  return undefined;
}

/** Returns an array with at least the given length, which begins with the given one. */
function grown<Words extends Int32Array | Uint8Array>(words: Words, length: number): Words {
  if (length <= words.length) return words;
  const larger = new (words.constructor as new (length: number) => Words)(2 * words.length);
  larger.set(words);
  return larger;
}

function updated(kind: Kind, value: Value, [first, second]: readonly Value[]): Value {
  if (kind === "compareExchange") return value === first ? second! : value;
  if (kind !== "add" && kind !== "sub") return first!;
  const isAdd = kind === "add";
  if (typeof value === "bigint") return isAdd ? value + (first as bigint) : value - (first as bigint);
  return (isAdd ? value + (first as number) : value - (first as number)) | 0;
}

function longAt(words: Int32Array, address: number): bigint {
  return BigInt(words[address]! >>> 0) | BigInt(words[address + 1]!) << 32n;
}

function setLong(words: Int32Array, address: number, value: bigint): void {
  words[address] = Number(BigInt.asIntN(32, value));
  words[address + 1] = Number(BigInt.asIntN(32, value >> 32n));
}
