/**
 * The program of worker threads, which `deno task workers` bundles from `worker.ts`.
 *
 * @module
 */

/** The program of worker threads, as a script. */
export const workerProgram: string = `(() => {
  // src/support/version.ts
  function sharedAmongCopies(name, make) {
    return globalThis[Symbol.for(\`poolpass.\${name}\`)] ??= make();
  }

  // src/software/execution/workers/messages.ts
  function workerThreads() {
    let { process } = globalThis;
    return process?.getBuiltinModule?.("node:worker_threads");
  }

  // src/software/execution/workers/address_space.ts
  var { addressSpace } = workerThreads().workerData;
  sharedAmongCopies("addressSpaces", () => ({ taken: addressSpace }));

  // src/software/abi/host_functions.ts
  var hostFunctionTypes = {
    reduceAngle: { parameters: ["f64"], results: ["f64"] },
    encodeEightBits: { parameters: ["f64", "i32"], results: ["i32"] },
    fault: { parameters: ["i32", "i64", "i32", "i32"], results: [] },
    refuel: { parameters: ["i32", "i32"], results: ["i32"] },
    access: { parameters: ["i32", "i32", "i32"], results: [] },
    orderedAccess: { parameters: ["i32", "i32", "i32", "i32"], results: [] },
    order: { parameters: ["i32", "i32", "i32"], results: [] },
    stray: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32", "i32"], results: [] },
    decideByUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
    loadUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
    storeUninitialized: { parameters: ["i32", "i32", "i32"], results: [] },
    mark: { parameters: ["i32", "i32"], results: [] },
    setCondition: { parameters: ["i64", "i32"], results: [] },
    clock: { parameters: [], results: ["i64"] },
    print: {
      parameters: ["i64", "i64", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32", "i32"],
      results: ["i32"]
    },
    failAssertion: {
      parameters: [
        "i64",
        "i64",
        "i32",
        "i64",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32",
        "i32"
      ],
      results: []
    },
    allocate: { parameters: ["i64", "i64", "i32", "i32", "i32"], results: ["i64"] },
    free: { parameters: ["i64", "i32", "i32", "i32"], results: [] }
  }, originSpaces = ["param", "shared", "local", "global", "const"];
  var names = Object.keys(hostFunctionTypes), hostFunctionCount = names.length;

  // src/software/compiler/helpers/approximate_helpers.ts
  var twoOverPi = 0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041n;
  function reduceAngle(number) {
    if (!Number.isFinite(number))
      return NaN;
    let rightAngles = BigInt.asIntN(197, BigInt(number * 8) * twoOverPi);
    return Number(rightAngles >> 131n) / 18446744073709552000 * (Math.PI / 2);
  }

  // src/software/compiler/helpers/half_helpers.ts
  var formats = [
    { fractionBits: 3, leastExponent: -6, largest: 448, nan: 127 },
    { fractionBits: 2, leastExponent: -14, largest: 57344, nan: 127 }
  ];
  function encodeEightBits(number, format) {
    let { fractionBits, leastExponent, largest, nan } = formats[format];
    if (Number.isNaN(number))
      return nan;
    let sign = number < 0 || Object.is(number, -0) ? 128 : 0, magnitude = Math.min(Math.abs(number), largest), exponent = leastExponent;
    while (magnitude >= 2 ** (exponent + 1))
      exponent++;
    let units = roundToEven(magnitude * 2 ** (fractionBits - exponent));
    return sign | (exponent - leastExponent << fractionBits) + units;
  }
  function roundToEven(number) {
    let floor = Math.floor(number), rest = number - floor;
    return rest > 0.5 || rest === 0.5 && floor % 2 === 1 ? floor + 1 : floor;
  }

  // src/software/compiler/helpers/host_imports.ts
  function hostFunctionImports(supplied) {
    let all = { reduceAngle, encodeEightBits, ...supplied }, imports = {};
    for (let name of Object.keys(hostFunctionTypes))
      imports[name] = all[name] ?? absent(name);
    return imports;
  }
  function absent(name) {
    return () => {
      throw TypeError(\`Cannot call "\${name}": it is not supplied\`);
    };
  }

  // src/software/memory/condition_table.ts
  var entryWords = { lowHandle: 0, highHandle: 1, value: 2, count: 4 }, entryCount = 262144 / entryWords.count, indexShift = 48n;

  class ConditionTable {
    #words;
    #unused = [];
    #end = 0;
    constructor(memory, begin) {
      this.#words = new Int32Array(memory.buffer, begin, 262144);
    }
    add(serial, value) {
      let index = this.#unused.pop() ?? (this.#end < entryCount ? this.#end++ : void 0);
      if (index === void 0)
        return;
      let handle = BigInt(index) << indexShift | serial, entry = index * entryWords.count;
      return Atomics.store(this.#words, entry + entryWords.value, value | 0), this.#words[entry + entryWords.highHandle] = highWord(handle), Atomics.store(this.#words, entry + entryWords.lowHandle, lowWord(handle)), handle;
    }
    get(handle) {
      let entry = this.#entryOf(handle);
      return entry === void 0 ? void 0 : Atomics.load(this.#words, entry + entryWords.value) >>> 0;
    }
    set(handle, value) {
      let entry = this.#entryOf(handle);
      if (entry !== void 0)
        Atomics.store(this.#words, entry + entryWords.value, value | 0);
    }
    delete(handle) {
      let entry = this.#entryOf(handle);
      if (entry === void 0)
        return;
      Atomics.store(this.#words, entry + entryWords.lowHandle, 0), this.#words[entry + entryWords.highHandle] = 0, this.#unused.push(entry / entryWords.count);
    }
    #entryOf(handle) {
      let entry = Number(BigInt.asUintN(64, handle) >> indexShift) * entryWords.count, [low, high] = [lowWord(handle), highWord(handle)];
      if (low === 0 && high === 0 || entry >= this.#words.length)
        return;
      return Atomics.load(this.#words, entry + entryWords.lowHandle) === low && this.#words[entry + entryWords.highHandle] === high ? entry : void 0;
    }
  }
  function lowWord(handle) {
    return Number(BigInt.asIntN(32, handle));
  }
  function highWord(handle) {
    return Number(BigInt.asIntN(32, handle >> 32n));
  }

  // src/software/abi/addresses.ts
  var lowestAddressBase = 0x7a0000000000n, addressSpaceByteLength = 0x800000000n, addressBase = lowestAddressBase + addressesOfThisCopy(), addressSpace2 = Number((addressBase - lowestAddressBase) / addressSpaceByteLength), sharedAddressBase = addressBase + 0x100000000n, localAddressBase = addressBase + 0x200000000n, parameterAddressBase = addressBase + 0x300000000n, functionAddressBase = addressBase + 0x500000000n;
  var sharedSpan = { byteLength: 16777216, reserved: 1024 };
  var shadowSpace = { begin: 2147418112, byteLength: 2147549184 }, shadowOffset = shadowSpace.begin + 2112;
  var faultKind = {
    illegalAddress: 1,
    misalignedAddress: 2,
    trap: 3,
    outsideSharedSpan: 4,
    stackOverflow: 5,
    invalidFunction: 6,
    failedAssertion: 7,
    noBarrier: 10,
    noBarrierCount: 11,
    stepLimit: 8,
    deadlock: 9
  }, accessOperations = ["none", "read", "write", "atomic"], reportedSpaces = ["generic", "shared", "local"], lineBits = 23, placeBytesShift = 28;
  function decodePlace(place) {
    let flags = place >>> lineBits;
    return {
      line: place & 2 ** lineBits - 1,
      operation: accessOperations[flags & 3],
      space: reportedSpaces[flags >>> 2 & 3],
      thread: (flags & 16) === 0 ? "record" : "x",
      bytes: 1 << (place >>> placeBytesShift)
    };
  }
  function reportsRows(place) {
    return (place >>> lineBits & 16) !== 0;
  }
  var boundsGranuleBytes = 512, boundsGranuleShift = 9, boundsTable = { lengths: 33554432, readOnly: 67108864, byteLength: 67174400 }, pageShift = 16;
  function addressesOfThisCopy() {
    let spaces = sharedAmongCopies("addressSpaces", () => ({ taken: 0 }));
    return BigInt(spaces.taken++ % 64) * addressSpaceByteLength;
  }

  // src/software/memory/mutex.ts
  var mutexState = {
    free: 0,
    held: 1,
    contended: 2
  };
  function acquireMutex(words, index) {
    if (Atomics.compareExchange(words, index, mutexState.free, mutexState.held) !== mutexState.free)
      awaitMutex(words, index);
  }
  function awaitMutex(words, index) {
    for (let spin = 0;spin < 200; spin++)
      if (Atomics.load(words, index) === mutexState.free && Atomics.compareExchange(words, index, mutexState.free, mutexState.held) === mutexState.free)
        return;
    while (Atomics.exchange(words, index, mutexState.contended) !== mutexState.free)
      Atomics.wait(words, index, mutexState.contended, 100);
  }
  function releaseMutex(words, index) {
    if (Atomics.exchange(words, index, mutexState.free) === mutexState.contended)
      Atomics.notify(words, index, 1);
    Atomics.load(words, index);
  }

  // src/software/memory/heap_allocator.ts
  var leastAlignment = 16, largestAlignment = 65536, pageBytes = 1 << pageShift, granulesPerPage = pageBytes / boundsGranuleBytes, pageGranuleShift = pageShift - boundsGranuleShift, pageCount = 4294967296 / pageBytes, granuleWords = 4, pageDescriptionBytes = granulesPerPage * granuleWords * 4, rangeWords = { next: 0, previous: 1, size: 2, first: 3 }, exactLists = 32, listsShift = 4, listCount = exactLists + 18 * 2 ** listsShift, triedRanges = 8, stateWords = {
    mutex: 0,
    bounds: 1,
    limit: 2,
    used: 3,
    gap: 4,
    free: 5,
    hasRanges: 16,
    lists: 32,
    pages: 512
  }, heapStateBytes = Math.ceil((stateWords.pages + pageCount) * 4 / pageBytes) * pageBytes;

  class HeapAllocator {
    #words;
    #state;
    #bounds;
    #gap;
    constructor(memory, state) {
      this.#words = new Int32Array(memory.buffer), this.#state = state / 4, this.#bounds = (this.#words[this.#state + stateWords.bounds] >>> 0) / 4, this.#gap = this.#words[this.#state + stateWords.gap];
    }
    static create(memory, state, { bounds, limit, gap }) {
      let words = new Int32Array(memory.buffer, state, stateWords.hasRanges);
      return words[stateWords.bounds] = bounds, words[stateWords.limit] = Math.floor(Math.min(limit, 4294967296) / leastAlignment), words[stateWords.gap] = gap, new HeapAllocator(memory, state);
    }
    get remainingBytes() {
      return (this.#get(stateWords.limit) - this.#get(stateWords.used)) * leastAlignment;
    }
    get freeBytes() {
      return this.#get(stateWords.free) * boundsGranuleBytes;
    }
    allocate(byteLength, alignment = leastAlignment) {
      if (alignment < 1 || alignment > largestAlignment || (alignment & alignment - 1) !== 0)
        return;
      let counted = countedUnits(byteLength);
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        let used = this.#get(stateWords.used) + counted;
        if (used > this.#get(stateWords.limit))
          return;
        let granules = wholeGranules(byteLength), first = this.#take(granules + this.#gap, Math.max(1, alignment >> boundsGranuleShift));
        if (first === 0)
          return 0;
        return this.#set(stateWords.used, used), this.#allow(first, granules, byteLength), first * boundsGranuleBytes;
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    free(begin) {
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        let byteLength = this.#revoke(begin);
        if (byteLength === void 0)
          return !1;
        return this.#recycle(begin, byteLength), !0;
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    revoke(begin) {
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        return this.#revoke(begin);
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    recycle({ begin, byteLength }) {
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        this.#recycle(begin, byteLength);
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    addPages({ begin, end }, descriptions) {
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        let description = descriptions / 4;
        for (let page = begin / pageBytes;page < end / pageBytes; page++)
          this.#set(stateWords.pages + page, description), description += pageDescriptionBytes / 4;
        this.#addFree(begin / boundsGranuleBytes, (end - begin) / boundsGranuleBytes);
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    unusedFrom({ begin, end }) {
      let first = this.#words[this.#descriptionOf(end / boundsGranuleBytes - 1) + rangeWords.first];
      return first === 0 ? end : Math.max(begin, Math.ceil(first / granulesPerPage) * pageBytes);
    }
    removeUnused(range) {
      acquireMutex(this.#words, this.#state + stateWords.mutex);
      try {
        let unused = this.unusedFrom(range);
        if (unused === range.end)
          return unused;
        let first = this.#words[this.#descriptionOf(range.end / boundsGranuleBytes - 1) + rangeWords.first];
        this.#remove(first);
        for (let page = unused / pageBytes;page < range.end / pageBytes; page++)
          this.#set(stateWords.pages + page, 0);
        let left = unused / boundsGranuleBytes - first;
        if (left > 0)
          this.#insert(first, left);
        return unused;
      } finally {
        releaseMutex(this.#words, this.#state + stateWords.mutex);
      }
    }
    byteLengthAt(begin) {
      let first = begin / boundsGranuleBytes;
      if (!Number.isInteger(first) || this.#descriptionOf(first) === 0)
        return;
      let entry = this.#bounds + first;
      return this.#words[entry] === first + 1 ? this.#words[entry + boundsTable.lengths / 4] >>> 0 : void 0;
    }
    *blocks() {
      for (let page = 0;page < pageCount; page++) {
        if (this.#get(stateWords.pages + page) === 0)
          continue;
        for (let index = 0;index < granulesPerPage; index++) {
          let begin = page * pageBytes + index * boundsGranuleBytes, byteLength = this.byteLengthAt(begin);
          if (byteLength !== void 0)
            yield { begin, byteLength };
        }
      }
    }
    *ranges() {
      for (let { begin, byteLength } of this.blocks())
        yield { begin, byteLength, name: nameOfBlock(byteLength) };
    }
    #get(index) {
      return this.#words[this.#state + index];
    }
    #set(index, value) {
      this.#words[this.#state + index] = value;
    }
    #descriptionOf(granule) {
      let page = this.#words[this.#state + stateWords.pages + (granule >> pageGranuleShift)];
      return page === 0 ? 0 : page + (granule & granulesPerPage - 1) * granuleWords;
    }
    #allow(first, granules, byteLength) {
      let entry = this.#bounds + first;
      if (this.#words[entry + boundsTable.lengths / 4] = byteLength, granules === 1)
        this.#words[entry] = first + 1;
      else
        this.#words.fill(first + 1, entry, entry + granules);
    }
    #revoke(begin) {
      let byteLength = this.byteLengthAt(begin);
      if (byteLength === void 0)
        return;
      let entry = this.#bounds + begin / boundsGranuleBytes, granules = wholeGranules(byteLength);
      if (granules === 1)
        this.#words[entry] = 0;
      else
        this.#words.fill(0, entry, entry + granules);
      return this.#set(stateWords.used, this.#get(stateWords.used) - countedUnits(byteLength)), byteLength;
    }
    #recycle(begin, byteLength) {
      this.#addFree(begin / boundsGranuleBytes, wholeGranules(byteLength) + this.#gap);
    }
    #addFree(first, size) {
      let [begin, end] = [first, first + size], before = this.#descriptionOf(first - 1);
      if (before !== 0 && this.#words[before + rangeWords.first] !== 0)
        begin = this.#words[before + rangeWords.first], this.#remove(begin);
      let after = this.#descriptionOf(end);
      if (after !== 0 && this.#words[after + rangeWords.size] !== 0)
        end += this.#remove(end);
      this.#insert(begin, end - begin);
    }
    #take(size, alignment) {
      let range = this.#find(size, alignment);
      if (range === 0)
        return 0;
      let end = range + this.#remove(range), first = alignedUp(range, alignment);
      if (first > range)
        this.#insert(range, first - range);
      if (first + size < end)
        this.#insert(first + size, end - first - size);
      return this.#words[this.#descriptionOf(first) + rangeWords.size] = 0, this.#words[this.#descriptionOf(first + size - 1) + rangeWords.first] = 0, first;
    }
    #find(size, alignment) {
      let ofSize = listOf(size), close = this.#findIn(ofSize, size, alignment, triedRanges);
      if (close !== 0)
        return close;
      let room = size + alignment - 1, larger = this.#nonEmptyList(listOf(roundedUp(room)));
      if (larger < listCount)
        return this.#get(stateWords.lists + larger);
      for (let list = ofSize;list <= listOf(room) && list < listCount; list++) {
        let range = this.#findIn(list, size, alignment, 1 / 0);
        if (range !== 0)
          return range;
      }
      return 0;
    }
    #findIn(list, size, alignment, count) {
      let range = this.#get(stateWords.lists + list);
      for (let tried = 0;range !== 0 && tried < count; tried++) {
        let description = this.#descriptionOf(range);
        if (alignedUp(range, alignment) + size <= range + this.#words[description + rangeWords.size])
          return range;
        range = this.#words[description + rangeWords.next];
      }
      return 0;
    }
    #nonEmptyList(list) {
      if (list >= listCount)
        return listCount;
      let bits = this.#get(stateWords.hasRanges + (list >> 5)) & -1 << (list & 31);
      for (let word = list >> 5;word < listCount / 32; bits = this.#get(stateWords.hasRanges + ++word))
        if (bits !== 0)
          return word * 32 + 31 - Math.clz32(bits & -bits);
      return listCount;
    }
    #insert(first, size) {
      let list = listOf(size), next = this.#get(stateWords.lists + list), description = this.#descriptionOf(first);
      if (this.#words[description + rangeWords.next] = next, this.#words[description + rangeWords.previous] = 0, this.#words[description + rangeWords.size] = size, this.#words[this.#descriptionOf(first + size - 1) + rangeWords.first] = first, next !== 0)
        this.#words[this.#descriptionOf(next) + rangeWords.previous] = first;
      this.#set(stateWords.lists + list, first), this.#words[this.#state + stateWords.hasRanges + (list >> 5)] |= 1 << (list & 31), this.#words[this.#state + stateWords.free] += size;
    }
    #remove(first) {
      let description = this.#descriptionOf(first), size = this.#words[description + rangeWords.size], next = this.#words[description + rangeWords.next], previous = this.#words[description + rangeWords.previous];
      if (next !== 0)
        this.#words[this.#descriptionOf(next) + rangeWords.previous] = previous;
      if (previous !== 0)
        this.#words[this.#descriptionOf(previous) + rangeWords.next] = next;
      else {
        let list = listOf(size);
        if (this.#set(stateWords.lists + list, next), next === 0)
          this.#words[this.#state + stateWords.hasRanges + (list >> 5)] &= ~(1 << (list & 31));
      }
      return this.#words[this.#state + stateWords.free] -= size, size;
    }
  }
  function nameOfBlock(byteLength, source) {
    let where = source === void 0 ? "" : \` at \${source}\`;
    return \`a block of \${byteLength} bytes that a kernel allocated with malloc\${where}\`;
  }
  function countedUnits(byteLength) {
    return Math.max(1, Math.ceil(byteLength / leastAlignment));
  }
  function wholeGranules(byteLength) {
    return Math.max(1, Math.ceil(byteLength / boundsGranuleBytes));
  }
  function listOf(size) {
    if (size < exactLists)
      return size;
    let exponent = 31 - Math.clz32(size), part = (size >>> exponent - listsShift) - 2 ** listsShift;
    return exactLists + (exponent - 5 << listsShift) + part;
  }
  function roundedUp(size) {
    return size < exactLists ? size : size + (1 << 31 - Math.clz32(size) - listsShift) - 1;
  }
  function alignedUp(granule, alignment) {
    return granule + alignment - 1 & -alignment;
  }

  // src/software/memory/memory_layout.ts
  var linearMemoryByteLength = 4294967296;
  var pageByteLength = 1 << pageShift, scratch = {
    parameters: { begin: 65536, byteLength: 32768 },
    launch: { begin: 98304, byteLength: 8192 },
    argumentRanges: { begin: 106496, byteLength: 16384 },
    checks: { begin: 122880, byteLength: 1024 },
    reservedShared: { begin: 130048, byteLength: 1024 },
    shared: { begin: 131072, byteLength: 262144 },
    threads: { begin: 393216, byteLength: 65536 },
    local: { begin: 458752, byteLength: 67108864 }
  };
  scratch.launch.begin;
  scratch.checks.begin;
  var freshByte = 203;
  function addressOfOffset(offset) {
    return addressBase + BigInt(offset);
  }
  function offsetOfAddress(address) {
    let offset = address - addressBase;
    return offset >= 0n && offset < BigInt(linearMemoryByteLength) ? Number(offset) : void 0;
  }

  // src/support/program_errors.ts
  var isOfRuntime = /^(?:(?:ext|node|bun|native|wasm):|\\[|$)/, errors = Error, entries = /* @__PURE__ */ new Set, functionsByName, keepsLibraryFrames = !1, isBun = "Bun" in globalThis;
  function startStackAtProgram(error) {
    if (keepsLibraryFrames)
      return error;
    let sites = callSites(startStackAtProgram), [here] = callSites(callSites);
    if (here === void 0)
      return error;
    let library = libraryOf(here), isLibrary = (site) => scriptOf(site).startsWith(library), own = sites.findIndex((site) => !isLibrary(site) && !isOfRuntime.test(scriptOf(site))), entered = sites.slice(0, Math.max(0, own)).findLast(isLibrary);
    if (entered === void 0)
      return error;
    if (isBun) {
      let { frames } = partsOf(capture(startStackAtProgram, errors.prepareStackTrace));
      if (frames.length === sites.length)
        replaceFrames(error, frames.slice(own, own + errors.stackTraceLimit));
      return error;
    }
    functionsByName ??= collectFunctions();
    for (let called of functionsByName.get(nameOf(entered)) ?? []) {
      let [first] = callSites(called);
      if (first === void 0 || isLibrary(first))
        continue;
      errors.captureStackTrace(error, called);
      break;
    }
    return error;
  }
  function replaceFrames(error, frames) {
    let named = frames.map((frame) => frame.replace(/^( +at (?:async )?)([^(]+:\\d+)$/, "$1<anonymous> ($2)")), stack = [...partsOf(error.stack).title, ...named].join(\`
\`);
    Object.defineProperty(error, "stack", { value: stack, configurable: !0, writable: !0 });
  }
  function partsOf(stack) {
    let lines = typeof stack === "string" ? stack.split(\`
\`) : [], begin = lines.findIndex((line) => /^ +at /.test(line));
    return begin < 0 ? { title: lines, frames: [] } : { title: lines.slice(0, begin), frames: lines.slice(begin) };
  }
  function callSites(above) {
    let sites = capture(above, (_, sites) => sites);
    return Array.isArray(sites) ? sites : [];
  }
  function capture(above, format) {
    let { stackTraceLimit: limit, prepareStackTrace: prepare } = errors, holder = {};
    if (!Reflect.set(Error, "prepareStackTrace", format))
      return;
    Reflect.set(Error, "stackTraceLimit", limit + 20), errors.captureStackTrace(holder, above);
    let { stack } = holder;
    return Reflect.set(Error, "stackTraceLimit", limit), Reflect.set(Error, "prepareStackTrace", prepare), stack;
  }
  function scriptOf(site) {
    return site.getScriptNameOrSourceURL() ?? "";
  }
  function libraryOf(site) {
    return scriptOf(site).replace(/src\\/support\\/program_errors\\.[jt]s$/, "src/");
  }
  function nameOf(site) {
    return (site.getFunctionName() ?? "").replace(/^[gs]et /, "");
  }
  function collectFunctions() {
    let found = /* @__PURE__ */ new Map, add = (name, value) => {
      if (typeof value === "function")
        found.set(name, [...found.get(name) ?? [], value]);
    };
    for (let entry of entries) {
      add(entry.name, entry);
      for (let owner of [entry, entry.prototype ?? {}])
        for (let key of Reflect.ownKeys(owner)) {
          if (key === "constructor")
            continue;
          let { value, get, set } = Object.getOwnPropertyDescriptor(owner, key);
          for (let each of [value, get, set])
            add(typeof key === "symbol" ? \`[\${key.description}]\` : key, each);
        }
    }
    return found;
  }
  function startingAtProgram(constructor) {
    return new Proxy(constructor, {
      construct: function construct(target, given, made) {
        let error = Reflect.construct(target, given, made);
        return errors.captureStackTrace(error, construct), startStackAtProgram(error);
      }
    });
  }
  var TypeError2 = startingAtProgram(globalThis.TypeError), RangeError2 = startingAtProgram(globalThis.RangeError), ReferenceError = startingAtProgram(globalThis.ReferenceError);

  // src/support/printing.ts
  function formatSeconds(milliseconds) {
    return \`\${(milliseconds / 1000).toFixed(1)} s\`;
  }

  // src/software/execution/faults/kernel_fault.ts
  function markLine(line) {
    return \`\\x00\${line}\\x00\`;
  }
  class KernelStop extends Error {
    name = "KernelStop";
    report;
    constructor(report) {
      super("The kernel was stopped");
      this.report = report;
    }
  }

  class InVainError extends Error {
    name = "InVainError";
  }
  var untimedSteps = 65536;

  class StepCounter {
    fuelPerRefill = 1048576;
    isInVain;
    #limit;
    #count = 0;
    #begin;
    constructor(limit) {
      this.#limit = limit;
    }
    get count() {
      return this.#count;
    }
    get limit() {
      return this.#limit;
    }
    restart(steps = 0) {
      if (this.#count = steps, steps === 0)
        this.#begin = void 0;
    }
    refuel(place, thread) {
      if (this.#leaveIfInVain(), this.#begin ??= performance.now(), this.#count += this.fuelPerRefill, this.#count > this.#limit)
        this.#stop({ place: decodePlace(place), thread });
      return this.fuelPerRefill;
    }
    add(steps, thread, locate) {
      if (this.#leaveIfInVain(), this.#count += steps, this.#count > untimedSteps)
        this.#begin ??= performance.now();
      if (this.#count > this.#limit)
        this.#stop(locate(thread));
    }
    #leaveIfInVain() {
      if (this.isInVain?.())
        throw new InVainError;
    }
    #stop(report) {
      let steps = this.#count, duration = this.#begin === void 0 ? "" : \`, which took \${formatSeconds(performance.now() - this.#begin)}\`;
      throw new KernelStop({
        kind: faultKind.stepLimit,
        what: (_, waiting) => {
          let others = waiting === "" ? "" : \`, while others wait: \${waiting}\`, advice = waiting.includes("(barrier)") ? "all threads of the block must reach the same barrier" : "check the loop's condition and the arguments that it depends on";
          return \`stopped after \${steps} steps\${duration}, perhaps in a loop that never ends\${others}; \${advice}; POOLPASS_SOFTWARE_STEPS sets the limit for a block\`;
        },
        ...report
      });
    }
  }

  // src/software/memory/named_memory.ts
  function positionOf(access, { begin = 0, byteLength, name, reason }) {
    let end = begin + byteLength, accessEnd = access.begin + access.byteLength, before = begin === 0 && access.begin >= 2147483648 ? 4294967296 - access.begin : begin - access.begin;
    if (before > 0)
      return \`\${count(before)} before \${name}\`;
    let past = /^the \\d/.test(name) ? "past" : "past the end of";
    if (access.begin > end)
      return \`\${count(access.begin - end)} \${past} \${name}\`;
    if (access.begin === end)
      return \`right \${past} \${name}\`;
    if (accessEnd > end)
      return \`the last \${accessEnd - end} of them \${past} \${name}\`;
    let offset = access.begin - begin;
    return \`\${offset === 0 ? "at the start of" : \`\${count(offset)} into\`} \${name}\${reason === void 0 ? "" : \`, \${reason}\`}\`;
  }
  function count(bytes) {
    return bytes === 1 ? "1 byte" : \`\${bytes} bytes\`;
  }
  function nearestOf(access, ranges) {
    let nearest = nearestRange(access, ranges);
    return nearest === void 0 ? void 0 : positionOf(access, nearest);
  }
  function nearestRange(access, ranges) {
    let nearest, least = 1048576;
    for (let range of ranges) {
      let distance = Math.max(0, range.begin - (access.begin + access.byteLength) + 1, access.begin - (range.begin + range.byteLength) + 1);
      if (distance >= least)
        continue;
      nearest = range, least = distance;
    }
    return nearest;
  }

  // src/software/execution/printing/printf_conversions.ts
  function convertInteger(value, conversion) {
    let { flags, precision, type } = conversion, isSigned = type === "d" || type === "i", digits = paddedDigits(value, conversion), hasPrefix = type.toLowerCase() === "x" && flags.includes("#") && value !== 0n, prefix = (isSigned ? signOf(value < 0n, flags) : "") + (hasPrefix ? "0x" : "");
    return padded(inCaseOf(type, prefix), inCaseOf(type, digits), { conversion, withZeros: precision === void 0 });
  }
  function convertPointer(value, conversion) {
    if (value === 0n)
      return convertText("(nil)", { ...conversion, precision: void 0 });
    let digits = paddedDigits(value, { ...conversion, type: "x" }), withZeros = conversion.precision === void 0;
    return padded(\`\${signOf(!1, conversion.flags)}0x\`, digits, { conversion, withZeros });
  }
  function convertText(text, conversion) {
    return padded("", text.slice(0, conversion.precision), { conversion, withZeros: !1 });
  }
  function convertNullText(conversion) {
    return convertText((conversion.precision ?? 6) < 6 ? "" : "(null)", conversion);
  }
  function convertDouble(bits, conversion) {
    let { flags, type, precision } = conversion, sign = signOf(bits >> 63n !== 0n, flags), double = partsOf2(bits);
    if (!double.isFinite)
      return padded(sign, inCaseOf(type, double.fraction === 0n ? "inf" : "nan"), { conversion, withZeros: !1 });
    let isAlternative = flags.includes("#");
    switch (type.toLowerCase()) {
      case "a": {
        let digits = hexadecimal(double, { precision, isAlternative });
        return padded(inCaseOf(type, \`\${sign}0x\`), inCaseOf(type, digits), { conversion, withZeros: !0 });
      }
      case "e":
        return pad(exponential(decimalOf(double), { precision: precision ?? 6, isAlternative }).text);
      case "f":
        return pad(fixed(decimalOf(double), { precision: precision ?? 6, isAlternative }));
      default:
        return pad(general(decimalOf(double), { precision: precision ?? 6, isAlternative }));
    }
    function pad(digits) {
      return padded(sign, inCaseOf(type, digits), { conversion, withZeros: !0 });
    }
  }
  function inCaseOf(type, text) {
    return type >= "A" && type <= "Z" ? text.toUpperCase() : text;
  }
  function signOf(isNegative, flags) {
    if (isNegative)
      return "-";
    if (flags.includes("+"))
      return "+";
    return flags.includes(" ") ? " " : "";
  }
  function paddedDigits(value, { flags, precision = 1, type }) {
    let radix = type === "o" ? 8 : type.toLowerCase() === "x" ? 16 : 10, all = (value === 0n ? "" : (value < 0n ? -value : value).toString(radix)).padStart(precision, "0");
    return type === "o" && flags.includes("#") && !all.startsWith("0") ? \`0\${all}\` : all;
  }
  function padded(prefix, body, { conversion: { flags, width }, withZeros }) {
    if (flags.includes("-"))
      return (prefix + body).padEnd(width);
    if (withZeros && flags.includes("0"))
      return prefix + body.padStart(width - prefix.length, "0");
    return (prefix + body).padStart(width);
  }
  function partsOf2(bits) {
    let fraction = BigInt.asUintN(52, bits), field = Number(BigInt.asUintN(11, bits >> 52n)), significand = field === 0 ? fraction : fraction | 1n << 52n;
    return { isFinite: field !== 2047, fraction, significand, exponent: Math.max(field, 1) - 1023 };
  }
  function decimalOf({ significand, exponent }) {
    let power = exponent - 52;
    if (power >= 0)
      return { digits: significand << BigInt(power), scale: 0 };
    return { digits: significand * 5n ** BigInt(-power), scale: -power };
  }
  function quotient(dividend, divisor) {
    let down = dividend / divisor, twice = 2n * (dividend % divisor);
    return twice > divisor || twice === divisor && down % 2n === 1n ? down + 1n : down;
  }
  function withPoint(whole, fraction, isAlternative) {
    return fraction === "" && !isAlternative ? whole : \`\${whole}.\${fraction}\`;
  }
  function fixed({ digits, scale }, { precision, isAlternative }) {
    let kept = Math.min(precision, scale), text = quotient(digits, 10n ** BigInt(scale - kept)).toString().padStart(kept + 1, "0"), point = text.length - kept;
    return withPoint(text.slice(0, point), text.slice(point).padEnd(precision, "0"), isAlternative);
  }
  function exponential({ digits, scale }, { precision, isAlternative }) {
    let text = digits.toString(), exponent = digits === 0n ? 0 : text.length - 1 - scale, excess = text.length - 1 - precision;
    if (excess > 0) {
      if (text = quotient(digits, 10n ** BigInt(excess)).toString(), text.length > precision + 1)
        exponent++;
    }
    let fraction = text.slice(1, precision + 1).padEnd(precision, "0"), power = Math.abs(exponent).toString().padStart(2, "0");
    return { text: \`\${withPoint(text[0], fraction, isAlternative)}e\${exponent < 0 ? "-" : "+"}\${power}\`, exponent };
  }
  function general(decimal, { precision, isAlternative }) {
    let significant = Math.max(precision, 1), { text, exponent } = exponential(decimal, { precision: significant - 1, isAlternative }), full = exponent >= -4 && exponent < significant ? fixed(decimal, { precision: significant - 1 - exponent, isAlternative }) : text;
    if (isAlternative || !full.includes("."))
      return full;
    let [mantissa, power] = full.split("e");
    return withoutZeros(mantissa).replace(/\\.$/, "") + (power === void 0 ? "" : \`e\${power}\`);
  }
  function withoutZeros(fraction) {
    let end = fraction.length;
    while (fraction[end - 1] === "0")
      end--;
    return fraction.slice(0, end);
  }
  function hexadecimal({ significand, exponent }, { precision, isAlternative }) {
    let kept = Math.min(precision ?? 13, 13), digits = quotient(significand, 1n << BigInt(52 - 4 * kept)).toString(16).padStart(kept + 1, "0"), fraction = digits.slice(1), shown = precision === void 0 ? withoutZeros(fraction) : fraction.padEnd(precision, "0"), power = significand === 0n ? 0 : exponent;
    return \`\${withPoint(digits[0], shown, isAlternative)}p\${power < 0 ? "-" : "+"}\${Math.abs(power)}\`;
  }

  // src/software/execution/printing/device_print.ts
  class UnreadableError extends Error {
    name = "UnreadableError";
    address;
    byteLength;
    constructor(address, byteLength = 1) {
      super(\`Cannot read from 0x\${address.toString(16)}: the kernel may not\`);
      this.address = address, this.byteLength = byteLength;
    }
  }
  var maximumArguments = 32, maximumCharacters = 1048576, integerBits = { h: 16, l: 64, ll: 64 }, conversionPattern = /%([-+ #0]*)(\\*|\\d*)(?:\\.(\\d*))?(ll?|h?)([cdiouxXpeEfFgGaAsS%])/y;
  function printFromDevice(bytes, call, write, limit = maximumCharacters) {
    if (call.format === 0n)
      return -1;
    let memory = new DeviceText(bytes, call.memory);
    try {
      let format = memory.text(call.format), values = new ArgumentReader(memory, call.arguments), text = formatted(format, { values, memory });
      if (text.length > limit)
        return -2;
      if (text !== "")
        write(Uint8Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
      return values.count;
    } catch (error) {
      if (error instanceof LengthError)
        return -2;
      throw error;
    }
  }
  function assertionMessage(bytes, call) {
    let memory = new DeviceText(bytes, call.memory), [message, file, name] = [call.message, call.file, call.function].map((address) => {
      try {
        return (/* @__PURE__ */ new TextDecoder()).decode(memory.characters(address));
      } catch (error) {
        if (error instanceof LengthError || error instanceof UnreadableError)
          return "?";
        throw error;
      }
    }), { line, block, thread } = call;
    return {
      text: \`\${\`\${file}:\${line >>> 0}: \${name}: block: [\${block.join(",")}], thread: [\${thread.join(",")}]\`} Assertion \\\`\${message}\\\` failed.\`,
      source: file === "?" ? void 0 : \`\${file.replace(/^.*[\\\\/]/, "")}:\${line >>> 0}\`,
      what: \`the assertion \\\`\${message}\\\` failed in \${name}\`
    };
  }

  class LengthError extends Error {
    name = "LengthError";
    constructor() {
      super(\`Cannot print more than \${maximumCharacters} characters at once\`);
    }
  }

  class DeviceText {
    #bytes;
    #view;
    #bounds;
    #ranges;
    constructor(bytes, { shared, local, parameters, bounds }) {
      this.#bytes = bytes, this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), this.#bounds = bounds, this.#ranges = /* @__PURE__ */ new Map([
        [sharedAddressBase >> 32n, shared],
        [localAddressBase >> 32n, local],
        [parameterAddressBase >> 32n, parameters]
      ]);
    }
    int(address) {
      return this.#view.getInt32(this.#offsetOf(address, 4), !0);
    }
    long(address) {
      return this.#view.getBigUint64(this.#offsetOf(address, 8), !0);
    }
    characters(address, maximum = 1 / 0) {
      let wanted = Math.min(maximum, maximumCharacters + 1);
      if (wanted === 0)
        return new Uint8Array;
      let { begin, byteLength } = this.#readableFrom(address), found = this.#bytes.subarray(begin, begin + Math.min(byteLength, wanted)), length = found.indexOf(0);
      if (length < 0 && found.length < wanted)
        throw new UnreadableError(address + BigInt(found.length));
      if (length < 0 && found.length > maximumCharacters)
        throw new LengthError;
      return found.slice(0, length < 0 ? void 0 : length);
    }
    text(address, maximum) {
      let parts = [];
      for (let byte of this.characters(address, maximum))
        parts.push(String.fromCharCode(byte));
      return parts.join("");
    }
    #offsetOf(address, wanted) {
      let { begin, byteLength } = this.#readableFrom(address, wanted);
      if (byteLength < wanted)
        throw new UnreadableError(address, wanted);
      return begin;
    }
    #readableFrom(address, wanted = 1) {
      let bits = BigInt.asUintN(64, address), offset = Number(BigInt.asUintN(32, bits)), space = bits >> 32n, isGlobal = space === addressBase >> 32n, range = isGlobal ? this.#allocationOf(offset) : this.#ranges.get(space);
      if (range === void 0)
        throw new UnreadableError(bits, wanted);
      let within = isGlobal ? offset - range.begin : offset;
      if (within >= range.byteLength)
        throw new UnreadableError(bits, wanted);
      return { begin: range.begin + within, byteLength: range.byteLength - within };
    }
    #allocationOf(offset) {
      let entryOf = (granule) => this.#bounds + 4 * granule, first = this.#view.getUint32(entryOf(Math.floor(offset / boundsGranuleBytes)), !0) - 1;
      if (first < 0)
        return;
      let byteLength = this.#view.getUint32(entryOf(first) + boundsTable.lengths, !0);
      return { begin: first * boundsGranuleBytes, byteLength };
    }
  }

  class ArgumentReader {
    #memory;
    #address;
    #end = 0n;
    #count = 0;
    constructor(memory, address) {
      this.#memory = memory, this.#address = address;
    }
    get count() {
      return this.#count;
    }
    get isAtEnd() {
      return this.#count === maximumArguments;
    }
    int() {
      return this.#memory.int(this.#next(4n));
    }
    long() {
      return this.#memory.long(this.#next(8n));
    }
    #next(byteLength) {
      let offset = (this.#end + byteLength - 1n) / byteLength * byteLength;
      return this.#end = offset + byteLength, this.#count++, this.#address + offset;
    }
  }
  function formatted(format, { values, memory }) {
    let parts = [], begin = 0;
    for (let end = format.indexOf("%");end >= 0; end = format.indexOf("%", begin)) {
      parts.push(format.slice(begin, end)), conversionPattern.lastIndex = end;
      let match = conversionPattern.exec(format), [directive] = match ?? ["%"];
      parts.push(match === null ? directive : converted(match, { values, memory }) ?? directive), begin = end + directive.length;
    }
    return parts.push(format.slice(begin)), parts.join("");
  }
  function converted([, flags = "", width = "", digits, size = "", type = ""], { values, memory }) {
    if (type === "%")
      return "%";
    if (values.isAtEnd)
      return;
    let precision = digits === void 0 ? void 0 : Number(digits), conversion = { flags, width: Number(width), precision, type };
    if (width === "*") {
      let value = values.int();
      if (conversion = { ...conversion, flags: value < 0 ? \`-\${flags}\` : flags, width: Math.abs(value) }, values.isAtEnd)
        return;
    }
    let bits = /[cdiouxX]/.test(type) ? integerBits[size] ?? 32 : 64, value = bits === 64 ? values.long() : BigInt(values.int());
    if (Math.max(conversion.width, /[sSc]/.test(type) ? 0 : precision ?? 0) > maximumCharacters)
      throw new LengthError;
    return convert(value, { conversion, bits, isWide: type === "S" || size.startsWith("l"), memory });
  }
  function convert(value, { conversion, bits, isWide, memory }) {
    let { type, precision } = conversion;
    switch (type) {
      case "d":
      case "i":
        return convertInteger(BigInt.asIntN(bits, value), conversion);
      case "o":
      case "u":
      case "x":
      case "X":
        return convertInteger(BigInt.asUintN(bits, value), conversion);
      case "p":
        return convertPointer(value, conversion);
      case "c": {
        let code = Number(BigInt.asUintN(isWide ? 32 : 8, value));
        if (isWide && code > 127)
          return "";
        return convertText(String.fromCharCode(code), { ...conversion, precision: void 0 });
      }
      case "s":
      case "S":
        if (value === 0n)
          return convertNullText(conversion);
        return isWide ? "" : convertText(memory.text(value, precision), conversion);
      default:
        return convertDouble(value, conversion);
    }
  }

  // src/software/execution/printing/standard_output.ts
  var globals = globalThis, { Deno: deno } = globals, sleeping = new Int32Array(new SharedArrayBuffer(4));
  function writeStandardOutput(text) {
    if (deno === void 0)
      writeWhole(toDescriptor(1), text);
    else
      writeThroughLineBuffer((bytes) => deno.stdout.writeSync(bytes), text);
  }
  function writeStandardError(text) {
    writeWhole(deno === void 0 ? toDescriptor(2) : (bytes) => deno.stderr.writeSync(bytes), text);
  }
  function writeWhole(write, text) {
    let written = 0;
    while (written < text.length) {
      let outcome = attempt(write, text.subarray(written));
      if (outcome === "lost")
        return;
      if (outcome === "full")
        wait();
      else
        written += outcome;
    }
  }
  function writeThroughLineBuffer(write, text) {
    let written = 0;
    while (written < text.length) {
      let most = text.subarray(written, written + 1023), linesEnd = most.lastIndexOf(10) + 1, piece = linesEnd > 0 ? most.subarray(0, linesEnd) : most, outcome = attempt(write, piece);
      if (outcome === "lost")
        return;
      if (outcome !== "full")
        written += outcome;
      else if (linesEnd > 0)
        wait();
      else {
        do
          wait();
        while (attempt(write, new Uint8Array) === "full");
        written += piece.length;
      }
    }
  }
  function attempt(write, bytes) {
    try {
      return write(bytes);
    } catch (error) {
      return error.code === "EAGAIN" ? "full" : "lost";
    }
  }
  function wait() {
    Atomics.wait(sleeping, 0, 0, 1);
  }
  function toDescriptor(descriptor) {
    let fileSystem = globals.process?.getBuiltinModule?.("node:fs");
    if (fileSystem === void 0)
      return (bytes) => bytes.length;
    return (bytes) => fileSystem.writeSync(descriptor, bytes);
  }

  // src/software/execution/host_functions.ts
  function hostFunctions(parts) {
    return { ...faultFunctions(parts), ...checkFunctions(parts), ...heapFunctions(parts), ...printFunctions(parts) };
  }
  function faultFunctions({ running, steps, linearMemory, timeOrigin = performance.timeOrigin }) {
    let offset = performance.timeOrigin - timeOrigin;
    return {
      fault(kind, address, place, thread) {
        let unsigned = BigInt.asUintN(64, address), offset = kind === faultKind.illegalAddress ? offsetOfAddress(unsigned) : void 0;
        if (offset !== void 0)
          running?.refuse(offset, place, thread);
        throw new KernelStop({ kind, address: unsigned, place: decodePlace(place), thread });
      },
      refuel: (place, thread) => steps.refuel(place, thread),
      setCondition: (handle, value) => linearMemory.conditions?.table.set(handle, value),
      clock: () => BigInt(Math.round((performance.now() + offset) * 1e6))
    };
  }
  function checkFunctions({ running, image }) {
    let { begin, byteLength } = image;
    return {
      access(offset, place, thread) {
        let unsigned = offset >>> 0;
        if (unsigned < begin || unsigned >= begin + byteLength)
          running?.access(unsigned, place, thread);
        else
          running?.accessVariable(unsigned);
      },
      orderedAccess: (offset, place, thread, order) => running?.orderedAccess(offset >>> 0, place, thread, order),
      order: (place, thread, order) => running?.order(place, thread, order),
      stray(location, place, thread, space, offset, begin, byteLength) {
        let origin = { space: originSpaces[space], offset, begin: begin >>> 0, byteLength: byteLength >>> 0 };
        running?.stray({ begin: location >>> 0, place, thread, origin });
      },
      decideByUninitialized: (decision, place, thread) => running?.initialization?.decide(decision, place, thread),
      loadUninitialized: (offset, place, thread) => running?.initialization?.load(offset >>> 0, place, thread),
      storeUninitialized: (offset, place) => running?.initialization?.store(offset >>> 0, place),
      mark: (mark, thread) => running?.mark(mark, thread)
    };
  }
  function heapFunctions({ linearMemory, running }) {
    return {
      allocate(size, alignment, place, _thread, bounds) {
        let heap = linearMemory.heapAt(bounds >>> 0), address = allocateOnHeap(heap, { size, alignment, site: running?.siteOf(place) }), offset = offsetOfAddress(address);
        if (offset !== void 0)
          running?.allocated(offset, Number(BigInt.asUintN(64, size)));
        return running?.initialization?.allocate(offset, Number(size)), address;
      },
      free(address, place, thread, bounds) {
        let heap = linearMemory.heapAt(bounds >>> 0), offset = offsetOfAddress(BigInt.asUintN(64, address));
        if (offset !== void 0)
          running?.frees(offset, heap.byteLengthAt(offset), place, thread);
        let what = refusalOfFree(heap, BigInt.asUintN(64, address));
        if (what === void 0)
          return;
        throw new KernelStop({ kind: faultKind.illegalAddress, address, place: decodePlace(place), thread, what });
      }
    };
  }
  function allocateOnHeap(heap, { size, alignment, site }) {
    let [bytes, multiple] = [size, alignment].map((number) => Number(BigInt.asUintN(64, number))), offset = heap.allocate(bytes, multiple, site);
    return offset === void 0 ? 0n : addressOfOffset(offset);
  }
  function refusalOfFree(heap, address) {
    if (address === 0n)
      return;
    let offset = offsetOfAddress(address);
    if (offset !== void 0 && heap.free(offset))
      return;
    let position = offset === void 0 ? void 0 : nearestOf({ begin: offset, byteLength: 1 }, heap.ranges());
    return \`frees 0x\${address.toString(16)}, which malloc in a kernel did not return, or which was freed already\` + (position === void 0 ? "" : \`: it is \${position}\`);
  }
  function printFunctions({ linearMemory }) {
    return {
      print(format, values, place, thread, ...spaces) {
        try {
          let call = { format, arguments: values, memory: readableMemory(spaces) };
          return printFromDevice(linearMemory.bytes, call, writeStandardOutput, linearMemory.printLimitAt(call.memory.bounds));
        } catch (error) {
          if (!(error instanceof UnreadableError))
            throw error;
          let { address, byteLength: bytes } = error, kind = faultKind.illegalAddress;
          throw new KernelStop({ kind, address, place: { ...decodePlace(place), bytes }, thread });
        }
      },
      failAssertion(message, file, sourceLine, name, blockX, blockY, blockZ, threadX, threadY, threadZ, line, ...spaces) {
        let { text, source, what } = assertionMessage(linearMemory.bytes, {
          message,
          file,
          function: name,
          line: sourceLine,
          block: [blockX, blockY, blockZ],
          thread: [threadX, threadY, threadZ],
          memory: readableMemory(spaces)
        });
        writeStandardError((/* @__PURE__ */ new TextEncoder()).encode(\`\${text}
\`));
        let kind = faultKind.failedAssertion;
        throw new KernelStop({ kind, place: { line }, index: [threadX, threadY, threadZ], source, what });
      }
    };
  }
  function readableMemory(spaces) {
    let [shared, sharedBytes, local, localBytes, parameters, parameterBytes, bounds] = spaces.map((number) => number >>> 0);
    return {
      shared: { begin: shared, byteLength: sharedBytes },
      local: { begin: local, byteLength: localBytes },
      parameters: { begin: parameters, byteLength: parameterBytes },
      bounds
    };
  }

  // src/software/abi/launch_record.ts
  var warpSize = 32, launchFields = [
    "firstBlockX",
    "lastBlockX",
    "blockX",
    "firstThread",
    "lastThread",
    "blockY",
    "blockZ",
    "gridX",
    "gridY",
    "gridZ",
    "blockDimX",
    "blockDimY",
    "blockDimZ",
    "parameters",
    "shared",
    "sharedBytes",
    "localMemory",
    "savedRegisters",
    "threads",
    "bounds",
    "fuelLeft",
    "gangs",
    "divergences",
    "rounds",
    "rowY",
    "rowZ",
    "multiprocessor",
    "workspaceHigh",
    "workspaceLow",
    "argumentRanges",
    "threadStartX",
    "threadStartY",
    "threadStartZ",
    "reversedThreads"
  ], threadStarts = ["threadStartX", "threadStartY", "threadStartZ"];
  var multiProcessorCount = 4, launchFieldOffsets = new Map(launchFields.map((field, index) => [field, index * 4])), launchRecordByteLength = launchFields.length * 4;
  function launchFieldOffset(field) {
    return launchFieldOffsets.get(field);
  }
  var threadRecordByteLength = 64, threadRecord = {
    threadIndex: 0,
    resumeIndex: 4,
    request: 8,
    saved: 12,
    frame: 16,
    stackPointer: 20,
    mask: 24,
    first: 28,
    second: 32,
    spins: 36,
    value: 40,
    result: 48,
    predicate: 56
  }, exited = -1, savedHeader = { resumeIndex: 0, frame: 4, stackPointer: 8, byteLength: 16 };

  // src/software/execution/scheduling/block_barriers.ts
  class DeadlockError extends Error {
    name = "DeadlockError";
    line;
    #waiting;
    constructor(waiting) {
      super();
      this.line = waiting[0].suspension.line, this.#waiting = waiting, this.message = this.describe((line) => \`line \${line}\`);
    }
    describe(nameLine) {
      return \`all threads of the block that have not exited wait, and none can continue: \${describeWaiting(this.#waiting, nameLine)}\`;
    }
  }
  function describeWaiting(waiting, nameLine) {
    return waiting.map(({ threads, isOne, suspension: { line, request } }) => {
      let kind = request.kind === "yield" || request.kind === "lockstep" ? "loop" : request.kind;
      return \`\${isOne ? "thread" : "threads"} \${threads} at \${nameLine(line)} (\${kind})\`;
    }).join(", ");
  }
  function formatRanges(numbers) {
    let texts = [];
    for (let begin = 0, end = 0;begin < numbers.length; begin = ++end) {
      while (numbers[end + 1] === numbers[end] + 1)
        end++;
      texts.push(begin === end ? \`\${numbers[begin]}\` : \`\${numbers[begin]}-\${numbers[end]}\`);
    }
    return texts.join(", ");
  }

  class BlockBarriers {
    #barriers = /* @__PURE__ */ new Map;
    #isLive;
    constructor(isLive) {
      this.#isLive = isLive;
    }
    clear() {
      this.#barriers.clear();
    }
    arrive(thread, { barrier: number, count, waits, predicate }) {
      let barrier = this.#barrier(number, count);
      if (barrier.arrived++, waits)
        barrier.waiting.push(thread);
      if (predicate !== void 0) {
        if (barrier.reduced++, predicate)
          barrier.held++;
      }
      if (barrier.count === 0)
        return;
      let warp = Math.floor(thread / warpSize), lanes = barrier.lanes.get(warp);
      if (barrier.lanes.set(warp, (lanes ?? 0) | 1 << thread % warpSize), lanes === void 0)
        barrier.missing += this.#missing(warp, 0);
      return barrier.arrived + barrier.missing >= barrier.count ? this.#complete(number, barrier) : void 0;
    }
    arriveTogether(warp, { barrier: number, threads }) {
      let barrier = this.#barrier(number, 0);
      barrier.arrived += threads, barrier.warps.push(warp);
    }
    complete(live) {
      let completed = [];
      for (let [number, barrier] of this.#barriers) {
        let { count, arrived } = barrier;
        if (count === 0 ? arrived >= live : arrived + this.#missingOfAll(barrier) >= count)
          completed.push(this.#complete(number, barrier));
      }
      return completed;
    }
    #barrier(number, count) {
      let barrier = this.#barriers.get(number);
      if (barrier === void 0)
        barrier = { count, waiting: [], warps: [], lanes: /* @__PURE__ */ new Map, arrived: 0, missing: 0, held: 0, reduced: 0 }, this.#barriers.set(number, barrier);
      return barrier;
    }
    #complete(number, { count, waiting, warps, held, reduced }) {
      return this.#barriers.delete(number), { barrier: number, count, threads: waiting, warps, held, allHeld: held === reduced };
    }
    #missingOfAll({ lanes }) {
      let missing = 0;
      for (let [warp, arrived] of lanes)
        missing += this.#missing(warp, arrived);
      return missing;
    }
    #missing(warp, arrived) {
      let missing = 0;
      for (let lane = 0;lane < warpSize; lane++)
        if ((arrived >>> lane & 1) === 0 && !this.#isLive(warp * warpSize + lane))
          missing++;
      return missing;
    }
  }

  // src/software/execution/scheduling/warp_operations.ts
  var words = threadRecordByteLength / 4;

  class WarpRecords {
    shadows;
    #records;
    constructor(records, shadows) {
      this.#records = records, this.shadows = shadows;
    }
    get(lane, field) {
      return this.#records[lane * words + field / 4];
    }
    set(lane, field, value) {
      this.#records[lane * words + field / 4] = value;
    }
    get memory() {
      return new Uint16Array(this.#records.buffer);
    }
  }
  function forEachLane(group, action) {
    for (let rest = group;rest !== 0; rest &= rest - 1)
      action(31 - Math.clz32(rest & -rest));
  }
  function shuffle(values, records, { group, mode, absent = 0 }) {
    forEachLane(group, (lane) => {
      let { source, isInRange } = sourceOf(records, lane, mode), value = (group >>> source & 1) === 1 ? values.get(source, threadRecord.value) : absent;
      values.set(lane, threadRecord.result, value), values.set(lane, threadRecord.predicate, isInRange ? 1 : 0);
    });
  }
  function readerOfAbsentLane(records, { group, mode }) {
    if (group === -1)
      return;
    let reader;
    return forEachLane(group, (lane) => {
      if ((group >>> sourceOf(records, lane, mode).source & 1) === 0)
        reader ??= lane;
    }), reader;
  }
  function sourceOf(records, lane, mode) {
    let b = records.get(lane, threadRecord.first) & 31, c = records.get(lane, threadRecord.second), clamp = c & 31, segments = c >> 8 & 31, maximum = lane & segments | clamp & ~segments, minimum = lane & segments, source;
    switch (mode) {
      case "up":
        return source = lane - b, source >= maximum ? { source, isInRange: !0 } : { source: lane, isInRange: !1 };
      case "down":
        source = lane + b;
        break;
      case "bfly":
        source = lane ^ b;
        break;
      case "idx":
        source = minimum | b & ~segments;
        break;
    }
    return source <= maximum ? { source, isInRange: !0 } : { source: lane, isInRange: !1 };
  }
  function loadMatrices(records, group, { matrices, transposed, fragments = records, distance = 0 }) {
    let { memory } = records, read = (place) => place === 0 ? 0 : memory[place + distance / 2];
    forEachLane(group, (lane) => {
      for (let matrix = 0;matrix < matrices; matrix++) {
        let [low, high] = elementsOf(records, { lane, matrix, group, transposed });
        fragments.set(lane, threadRecord.result + 4 * matrix, read(low) | read(high) << 16);
      }
    });
  }
  function storeMatrices(records, group, { matrices, transposed, fragments = records, distance = 0 }) {
    let { memory } = records;
    forEachLane(group, (lane) => {
      for (let matrix = 0;matrix < matrices; matrix++) {
        let word = fragments.get(lane, threadRecord.result + 4 * matrix), [low, high] = elementsOf(records, { lane, matrix, group, transposed });
        if (low !== 0)
          memory[low + distance / 2] = word;
        if (high !== 0)
          memory[high + distance / 2] = word >>> 16;
      }
    });
  }
  function transposeMatrix(records, group) {
    let element = (row, column) => {
      let lane = row * 4 + (column >> 1);
      return ((group >>> lane & 1) === 1 ? records.get(lane, threadRecord.value) : 0) >>> 16 * (column & 1) & 65535;
    };
    forEachLane(group, (lane) => {
      let [row, column] = [lane >> 2, 2 * (lane & 3)];
      records.set(lane, threadRecord.result, element(column, row) | element(column + 1, row) << 16);
    });
  }
  function elementsOf(records, { lane, matrix, group, transposed }) {
    let [major, minor] = [lane >> 2, 2 * (lane & 3)], place = (row, column) => {
      let named = matrix * 8 + row, begin = (group >>> named & 1) === 1 ? records.get(named, threadRecord.value) >>> 1 : 0;
      return begin === 0 ? 0 : begin + column;
    };
    return transposed ? [place(minor, major), place(minor + 1, major)] : [place(major, minor), place(major, minor + 1)];
  }
  function answerShadows(records, shadows, { group, request }) {
    switch (request.kind) {
      case "shuffle":
        return shuffle(shadows, records, { group, mode: request.mode, absent: -1 }), forEachLane(group, (lane) => {
          let isDecided = shadows.get(lane, threadRecord.first) === 0;
          if (shadows.set(lane, threadRecord.predicate, isDecided ? 0 : 1), !isDecided)
            shadows.set(lane, threadRecord.result, -1);
        });
      case "vote":
        return voteShadows(records, shadows, { group, mode: request.mode });
      case "match":
      case "reduction":
        return reduceShadows(shadows, group);
      case "matrixLoad":
        return loadMatrices(records, group, { ...request, fragments: shadows, distance: shadowOffset });
      case "matrixStore":
        return storeMatrices(records, group, { ...request, fragments: shadows, distance: shadowOffset });
      case "matrixTranspose":
        return transposeMatrix(shadows, group);
      default:
        return;
    }
  }
  function voteShadows(records, shadows, { group, mode }) {
    let unknown = 0, held = 0, failed = 0;
    forEachLane(group, (lane) => {
      if (shadows.get(lane, threadRecord.value) !== 0)
        unknown |= 1 << lane;
      else if (records.get(lane, threadRecord.value) !== 0)
        held |= 1 << lane;
      else
        failed |= 1 << lane;
    });
    let isUnknown = unknown !== 0, results = {
      all: isUnknown && failed === 0 ? 1 : 0,
      any: isUnknown && held === 0 ? 1 : 0,
      uni: isUnknown && (held === 0 || failed === 0) ? 1 : 0,
      ballot: unknown
    };
    forEachLane(group, (lane) => shadows.set(lane, threadRecord.result, results[mode]));
  }
  function reduceShadows(shadows, group) {
    let unknown = 0;
    forEachLane(group, (lane) => {
      unknown |= shadows.get(lane, threadRecord.value) | shadows.get(lane, threadRecord.value + 4);
    }), forEachLane(group, (lane) => {
      shadows.set(lane, threadRecord.result, unknown === 0 ? 0 : -1), shadows.set(lane, threadRecord.predicate, unknown === 0 ? 0 : 1);
    });
  }
  function answerGroup(records, group, request) {
    if (records.shadows !== void 0)
      answerShadows(records, records.shadows, { group, request });
    switch (request.kind) {
      case "shuffle":
        return shuffle(records, records, { group, mode: request.mode });
      case "vote":
        return vote(records, group, request.mode);
      case "match":
        return match(records, group, request.mode);
      case "reduction":
        return reduce(records, group, request);
      case "matrixLoad":
        return loadMatrices(records, group, request);
      case "matrixStore":
        return storeMatrices(records, group, request);
      case "matrixTranspose":
        return transposeMatrix(records, group);
      case "activeMask":
        return forEachLane(group, (lane) => records.set(lane, threadRecord.result, group));
      default:
        return;
    }
  }
  function vote(records, group, mode) {
    let ballot = 0;
    forEachLane(group, (lane) => {
      if (records.get(lane, threadRecord.value) !== 0)
        ballot |= 1 << lane;
    });
    let results = {
      all: Number(ballot === group),
      any: Number(ballot !== 0),
      uni: Number(ballot === group || ballot === 0),
      ballot
    };
    forEachLane(group, (lane) => records.set(lane, threadRecord.result, results[mode]));
  }
  function match(records, group, mode) {
    let masks = /* @__PURE__ */ new Map, keyOf = (lane) => \`\${records.get(lane, threadRecord.value)} \${records.get(lane, threadRecord.value + 4)}\`;
    forEachLane(group, (lane) => masks.set(keyOf(lane), (masks.get(keyOf(lane)) ?? 0) | 1 << lane));
    let areEqual = masks.size === 1;
    forEachLane(group, (lane) => {
      records.set(lane, threadRecord.result, mode === "any" ? masks.get(keyOf(lane)) : areEqual ? group : 0), records.set(lane, threadRecord.predicate, Number(areEqual));
    });
  }
  function reduce(records, group, { operation, signed }) {
    let result;
    forEachLane(group, (lane) => {
      let value = records.get(lane, threadRecord.value);
      result = result === void 0 ? value : combine(result, value, { operation, signed });
    }), forEachLane(group, (lane) => records.set(lane, threadRecord.result, result));
  }
  function combine(a, b, { operation, signed }) {
    switch (operation) {
      case "add":
        return a + b | 0;
      case "and":
        return a & b;
      case "or":
        return a | b;
      case "xor":
        return a ^ b;
      case "min":
      case "max":
        return (signed ? a < b : a >>> 0 < b >>> 0) === (operation === "min") ? a : b;
    }
  }

  // src/software/execution/scheduling/block_records.ts
  class ThreadPositions {
    #options;
    #words;
    #ofSuspensions;
    constructor(options) {
      this.#options = options, this.#words = new Int32Array(options.memory.buffer), this.#ofSuspensions = options.kernel.suspensions.map(({ order }) => [order]);
    }
    get mayDiffer() {
      return (this.#options.kernel.callSites?.size ?? 0) > 0;
    }
    of(thread) {
      let { threads, saved, kernel: { callSites, savedBytes } } = this.#options, record = threads + thread * threadRecordByteLength, field = (name) => this.#words[(record + threadRecord[name]) / 4], last = this.#ofSuspensions[field("request") - 1];
      if (callSites === void 0 || callSites.size === 0)
        return last;
      let position = [...last], begin = saved + thread * savedBytes;
      for (let header = field("saved");header > begin; ) {
        let site = callSites.get(this.#words[(header + savedHeader.resumeIndex) / 4]);
        if (site === void 0)
          break;
        position.push(site.order), header -= site.savedBytes;
      }
      return position.reverse();
    }
  }
  function comparePositions(a, b) {
    if (a === b)
      return 0;
    let length = Math.min(a.length, b.length);
    for (let index = 0;index < length; index++)
      if (a[index] !== b[index])
        return a[index] - b[index];
    return b.length - a.length;
  }
  var words2 = threadRecordByteLength / 4, warpWords = warpSize * words2, requestWord = threadRecord.request / 4;

  class BlockRecords {
    count;
    warps;
    #options;
    #words;
    constructor(options) {
      let [x, y, z] = options.block;
      this.count = x * y * z, this.#options = options, this.#words = new Int32Array(options.memory.buffer, options.threads, this.count * words2);
      let shadows = options.hasShadows ? new Int32Array(options.memory.buffer, options.threads + shadowOffset, this.count * words2) : void 0;
      this.warps = Array.from({ length: Math.ceil(this.count / warpSize) }, (_, warp) => {
        let shadow = shadows && new WarpRecords(shadows.subarray(warp * warpWords));
        return new WarpRecords(this.#words.subarray(warp * warpWords), shadow);
      });
    }
    requestOf(thread) {
      return this.#words[thread * words2 + requestWord];
    }
    get(thread, field) {
      return this.#words[thread * words2 + field / 4];
    }
    set(thread, field, value) {
      this.#words[thread * words2 + field / 4] = value;
    }
    lanesOf(warp) {
      return Math.min(warpSize, this.count - warp * warpSize);
    }
    allLanesOf(warp) {
      let lanes = this.lanesOf(warp);
      return lanes === warpSize ? -1 : (1 << lanes) - 1;
    }
    presentLanesOf(warp) {
      let lanes = 0;
      for (let thread of this.threadsOf(warp))
        if (this.requestOf(thread) !== exited)
          lanes |= 1 << thread % warpSize;
      return lanes;
    }
    threadsOf(warp) {
      return Array.from({ length: this.lanesOf(warp) }, (_, lane) => warp * warpSize + lane);
    }
    start() {
      let { block: [blockX, blockY], kernel: { savedBytes, localBytes, frameBytes }, saved, local } = this.#options;
      this.#options.onStart?.();
      let records = this.#words, x = 0, y = 0, z = 0;
      for (let thread = 0;thread < this.count; thread++) {
        let at = thread * words2;
        if (records[at + threadRecord.threadIndex / 4] = x | y << 10 | z << 20, records[at + threadRecord.resumeIndex / 4] = 0, records[at + requestWord] = 0, records[at + threadRecord.saved / 4] = saved + thread * savedBytes, records[at + threadRecord.frame / 4] = local + thread * localBytes, records[at + threadRecord.stackPointer / 4] = local + thread * localBytes + frameBytes, ++x < blockX)
          continue;
        if (x = 0, ++y < blockY)
          continue;
        y = 0, z++;
      }
    }
    commonRequestOf(warp) {
      let records = this.#words, at = warp * warpWords + requestWord, end = Math.min(at + warpWords, records.length), request = records[at];
      for (let other = at + words2;other < end; other += words2)
        if (records[other] !== request)
          return 0;
      return request;
    }
    commonBarrierOf(warp) {
      let records = this.#words, begin = warp * warpWords, end = Math.min(begin + warpWords, records.length), barrier = records[begin + threadRecord.first / 4];
      for (let at = begin;at < end; at += words2)
        if (records[at + threadRecord.first / 4] !== barrier || records[at + threadRecord.second / 4] !== 0)
          return;
      return barrier;
    }
    nameAll(warp) {
      let records = this.#words, all = this.allLanesOf(warp), begin = warp * warpWords, end = Math.min(begin + warpWords, records.length);
      for (let at = begin;at < end; at += words2)
        if ((records[at + threadRecord.mask / 4] & all) !== all)
          return !1;
      return !0;
    }
    clearRequestsOf(warp) {
      let records = this.#words, begin = warp * warpWords + requestWord, end = Math.min(begin + warpWords, records.length);
      for (let at = begin;at < end; at += words2)
        records[at] = 0;
    }
  }

  // src/support/validation.ts
  var arrayNames = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array].map(({ name }) => name).concat("Float16Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array");

  // src/software/schedule.ts
  function* inOrder(count, { start, isReversed }) {
    for (let step = 0;step < count; step++) {
      let index = (step + start) % count;
      yield isReversed ? count - 1 - index : index;
    }
  }

  // src/software/execution/scheduling/warp_groups.ts
  class WarpGroups {
    #records;
    #suspensions;
    #operations;
    constructor(records, suspensions) {
      this.#records = records, this.#suspensions = suspensions;
      let keys = suspensions.map(({ request }) => JSON.stringify(request));
      this.#operations = keys.map((key) => keys.indexOf(key));
    }
    of(warp) {
      let records = this.#records, first = warp * warpSize, lanes = records.lanesOf(warp), present = 0, atLockstepPoints = !1;
      for (let lane = 0;lane < lanes; lane++) {
        let request = records.requestOf(first + lane);
        if (request !== exited)
          present |= 1 << lane;
        if (request > 0 && this.#suspensions[request - 1].request.kind === "lockstep")
          atLockstepPoints = !0;
      }
      let grouped = 0, complete = [], active;
      for (let lane = 0;lane < lanes; lane++) {
        if ((grouped >>> lane & 1) === 1)
          continue;
        let operation = this.#operationOf(first + lane);
        if (operation < 0)
          continue;
        let { request } = this.#suspensions[operation], isActiveMask = request.kind === "activeMask", place = records.requestOf(first + lane), named = isActiveMask ? present : records.get(first + lane, threadRecord.mask), mask = (named >>> lane & 1) === 1 ? named : 1 << lane, group = 0;
        for (let other = lane;other < lanes; other++)
          if ((isActiveMask ? records.requestOf(first + other) === place : this.#operationOf(first + other) === operation && records.get(first + other, threadRecord.mask) === named) && (mask >>> other & 1) === 1)
            group |= 1 << other;
        if (grouped |= group, isActiveMask)
          active ??= { group, request, lane };
        else if ((mask & present & ~group) === 0)
          complete.push({ group, request });
      }
      return { complete, active, atLockstepPoints };
    }
    #operationOf(thread) {
      let request = this.#records.requestOf(thread);
      if (request <= 0)
        return -1;
      let asked = this.#suspensions[request - 1].request;
      return asked.kind !== "lockstep" && isOfWarp(asked) ? this.#operations[request - 1] : -1;
    }
  }
  function isOfWarp({ kind }) {
    return kind !== "barrier" && kind !== "yield";
  }
  var mostTurns = { spinning: { first: 256, least: 4 }, other: 16384 }, mostYields = 4, turnsOfWarp = 64;

  class LockstepTurns {
    #suspensions;
    #turns;
    #spinning;
    #yields;
    #goings;
    #last;
    #now = 0;
    constructor(suspensions, { warps, threads }) {
      this.#suspensions = suspensions, this.#turns = new Int32Array(warps), this.#spinning = new Int32Array(warps).fill(mostTurns.spinning.first), this.#yields = new Int32Array(warps), this.#goings = new Int32Array(warps), this.#last = new Float64Array(threads);
    }
    restart() {
      this.#turns.fill(0), this.#yields.fill(0);
    }
    resume(warp) {
      return ++this.#goings[warp] % turnsOfWarp !== 0;
    }
    next(warp, { requestOf, positionOf, lanes, yielded, active }) {
      let runs = 0;
      for (let lane = 0;lane < lanes; lane++)
        if (requestOf(lane) === 0)
          runs |= 1 << lane;
      if ((runs & ~yielded) !== 0)
        return 0;
      if (runs !== 0 && this.#yields[warp] < mostYields)
        return this.#yields[warp]++, 0;
      this.#yields[warp] = 0;
      let waiting = [];
      for (let lane = 0;lane < lanes; lane++) {
        let request = requestOf(lane);
        if (request <= 0 || this.#suspensions[request - 1].request.kind !== "lockstep")
          continue;
        waiting.push({ lane, position: positionOf(lane) });
      }
      let chosen = waiting[0];
      for (let other of waiting)
        if (comparePositions(other.position, chosen.position) < 0)
          chosen = other;
      let { request } = this.#suspensions[requestOf(chosen.lane) - 1], spins = request.kind === "lockstep" && request.spins, isOver = this.#turns[warp] >= (spins ? this.#spinning[warp] : mostTurns.other);
      if (isOver && spins)
        this.#spinning[warp] = Math.max(mostTurns.spinning.least, this.#spinning[warp] >> 1);
      let isAlone = active === void 0 && waiting.every(({ position }) => comparePositions(position, chosen.position) === 0);
      if (this.#turns[warp] = isOver || isAlone ? 0 : this.#turns[warp] + 1, this.#now++, active !== void 0) {
        let isFirst = comparePositions(positionOf(active), chosen.position) < 0;
        if (isOver ? this.#now % 2 === 0 : isFirst)
          return "active";
      }
      let first = warp * 32;
      if (isOver) {
        for (let other of waiting)
          if (this.#last[first + other.lane] < this.#last[first + chosen.lane])
            chosen = other;
      }
      let group = 0;
      for (let { lane, position } of waiting) {
        if (comparePositions(position, chosen.position) !== 0)
          continue;
        group |= 1 << lane, this.#last[first + lane] = this.#now;
      }
      return group;
    }
  }

  // src/software/execution/scheduling/block_scheduler.ts
  var stepsOfYield = 64, roundsPerTurn = { usual: 8, observed: 1 }, answersPerRound = 4;

  class BlockScheduler {
    #options;
    #records;
    #count;
    #barriers;
    #seen;
    #waiting;
    #isReady;
    #groups;
    #maySpin;
    #yielded;
    #turns;
    #positions;
    #roundsPerTurn;
    #live = 0;
    #events = 0;
    #moves = 0;
    constructor(options) {
      this.#options = options, this.#records = new BlockRecords(options), this.#count = this.#records.count;
      let warpCount = this.#records.warps.length;
      this.#barriers = new BlockBarriers((thread) => thread < this.#count && this.#records.requestOf(thread) !== exited), this.#seen = new Int32Array(this.#count), this.#waiting = new Int32Array(warpCount), this.#isReady = Array(warpCount).fill(!1), this.#groups = new WarpGroups(this.#records, options.kernel.suspensions), this.#maySpin = maySpin(options.kernel.suspensions), this.#yielded = new Int32Array(this.#maySpin ? this.#count : 0), this.#turns = new LockstepTurns(options.kernel.suspensions, { warps: warpCount, threads: this.#count }), this.#positions = new ThreadPositions(options), this.#roundsPerTurn = roundsPerTurn[options.observer === void 0 ? "usual" : "observed"];
    }
    runBlock() {
      this.start();
      while (this.takeTurn() !== "ended")
        ;
    }
    finishBlock() {
      this.#forget();
      for (let warp = 0;warp < this.#isReady.length; warp++)
        this.#answerWarp(warp);
      while (this.takeTurn() !== "ended")
        ;
    }
    takeTurn() {
      this.#options.observer?.resume();
      let [eventsAtStart, movesAtStart] = [this.#events, this.#moves], mostAnswers = this.#maySpin ? answersPerRound : 1 / 0, live = this.#live;
      for (let rounds = 1;this.#live > 0; rounds++) {
        let { length } = this.#isReady, events = this.#events, isGoingOn = !1, order = this.#options.order?.warps(length);
        for (let place = 0;place < length; place++) {
          let warp = order?.[place] ?? place;
          if (!this.#isReady[warp])
            continue;
          isGoingOn = !0;
          let answers = 0;
          do
            this.#runWarp(warp);
          while (this.#answerWarp(warp) && ++answers < mostAnswers);
        }
        let isReleased = this.#live > 0 && this.#completeBarriers();
        if (!isGoingOn && !isReleased && this.#live > 0)
          throw this.#deadlock();
        if (!this.#maySpin || this.#live === 0)
          continue;
        if (this.#events === events && !isReleased)
          return events === eventsAtStart && this.#moves === movesAtStart ? "stuck" : "waiting";
        if (this.#live < live)
          live = this.#live, rounds = 0;
        if (rounds >= this.#roundsPerTurn)
          return "busy";
      }
      return "ended";
    }
    start() {
      this.#records.start(), this.#options.observer?.start(), this.#forget(), this.#yielded.fill(0), this.#isReady.fill(!0);
    }
    #forget() {
      this.#seen.fill(0), this.#waiting.fill(0), this.#isReady.fill(!1), this.#barriers.clear(), this.#turns.restart(), this.#live = this.#count;
    }
    #runWarp(warp) {
      this.#isReady[warp] = !1;
      let first = warp * warpSize, last = Math.min(first + warpSize, this.#count);
      this.#options.countSteps(last - first, first);
      let order = this.#options.order?.threads(last - first);
      if (order === void 0)
        this.#options.run(first, last);
      else
        this.#runInOrder(first, last, order);
    }
    #runInOrder(first, last, order) {
      let middle = first + order.start;
      if (order.isReversed)
        for (let lane of inOrder(last - first, order))
          this.#options.run(first + lane, first + lane + 1);
      else if (this.#options.run(middle, last), middle > first)
        this.#options.run(first, middle);
    }
    #answerWarp(warp) {
      let asked = this.#waiting[warp] === 0 ? this.#records.commonRequestOf(warp) : 0;
      if (asked > 0) {
        let { request } = this.#options.kernel.suspensions[asked - 1];
        if (request.kind === "barrier" && request.operation === "sync" && this.#arriveTogether(warp))
          return !1;
        if (request.kind === "lockstep" && !this.#positions.mayDiffer) {
          if (request.spins)
            this.#noteSpin(warp * warpSize, asked);
          else
            this.#events++;
          return this.#resumeWarp(warp), this.#turns.resume(warp);
        }
        if (isOfWarp(request) && request.kind !== "lockstep" && this.#answerTogether(warp, request))
          return !0;
      }
      return this.#answerThreads(warp);
    }
    #arriveTogether(warp) {
      let barrier = this.#records.commonBarrierOf(warp);
      if (barrier === void 0)
        return !1;
      return this.#barriers.arriveTogether(warp, { barrier, threads: this.#records.lanesOf(warp) }), this.#observeArrival(warp * warpSize), this.#events++, !0;
    }
    #answerTogether(warp, request) {
      if (request.kind !== "activeMask" && !this.#records.nameAll(warp))
        return !1;
      let lanes = this.#records.allLanesOf(warp);
      return answerGroup(this.#records.warps[warp], lanes, request), this.#observeMeeting(warp, lanes), this.#events++, this.#resumeWarp(warp), !0;
    }
    #resumeLanes(warp, group) {
      forEachLane(group, (lane) => this.#resume(warp * warpSize + lane));
    }
    #resumeWarp(warp) {
      this.#records.clearRequestsOf(warp), this.#isReady[warp] = !0;
    }
    #answerThreads(warp) {
      let { suspensions } = this.#options.kernel, first = warp * warpSize, last = Math.min(first + warpSize, this.#count), waitsInWarp = !1, yielded = 0;
      for (let thread = first;thread < last; thread++) {
        let request = this.#records.requestOf(thread);
        if (request === this.#seen[thread]) {
          waitsInWarp ||= request > 0 && isOfWarp(suspensions[request - 1].request);
          continue;
        }
        if (this.#seen[thread] = request, this.#waiting[warp]++, request === exited) {
          this.#live--, this.#events++;
          continue;
        }
        let asked = suspensions[request - 1].request;
        if (asked.kind === "yield") {
          this.#yield(thread, request), yielded |= 1 << thread - first;
          continue;
        }
        if (asked.kind === "lockstep" && asked.spins)
          this.#noteSpin(thread, request);
        else
          this.#events++;
        if (asked.kind === "barrier")
          this.#arrive(thread, asked.operation);
        else
          waitsInWarp = !0;
      }
      return waitsInWarp && this.#answerGroups(warp, yielded);
    }
    #arrive(thread, operation) {
      this.#observeArrival(thread);
      let completed = this.#barriers.arrive(thread, {
        barrier: this.#records.get(thread, threadRecord.first),
        count: this.#records.get(thread, threadRecord.second),
        waits: operation !== "arrive",
        predicate: operation === "sync" || operation === "arrive" ? void 0 : this.#records.get(thread, threadRecord.value) !== 0
      });
      if (operation === "arrive")
        this.#resume(thread);
      if (completed !== void 0)
        this.#release(completed);
    }
    #yield(thread, request) {
      this.#options.countSteps(stepsOfYield, thread), this.#noteSpin(thread, request), this.#resume(thread);
    }
    #noteSpin(thread, request) {
      if (this.#yielded[thread] !== request)
        this.#moves++;
      this.#yielded[thread] = request;
    }
    #resume(thread) {
      let warp = Math.floor(thread / warpSize);
      this.#records.set(thread, threadRecord.request, 0), this.#seen[thread] = 0, this.#waiting[warp]--, this.#isReady[warp] = !0;
    }
    #answerGroups(warp, yielded) {
      let { complete, active, atLockstepPoints } = this.#groups.of(warp);
      for (let { group, request } of complete)
        this.#answer(warp, group, request);
      if (complete.length > 0)
        return !0;
      if (atLockstepPoints)
        return this.#resumeAtLockstepPoint(warp, { yielded, active });
      if (active === void 0)
        return !1;
      return this.#answer(warp, active.group, active.request), !0;
    }
    #resumeAtLockstepPoint(warp, { yielded, active }) {
      let first = warp * warpSize, requestOf = (lane) => this.#records.requestOf(first + lane), lanes = this.#records.lanesOf(warp), positionOf = (lane) => this.#positions.of(first + lane), group = this.#turns.next(warp, { requestOf, positionOf, lanes, yielded, active: active?.lane });
      if (group === "active")
        this.#answer(warp, active.group, active.request);
      else
        this.#resumeLanes(warp, group);
      return this.#turns.resume(warp);
    }
    #answer(warp, group, request) {
      answerGroup(this.#records.warps[warp], group, request), this.#observeMeeting(warp, group), this.#resumeLanes(warp, group);
    }
    #completeBarriers() {
      let completed = this.#barriers.complete(this.#live);
      for (let barrier of completed)
        this.#release(barrier);
      return completed.length > 0;
    }
    #release(completed) {
      let { threads, warps, held, allHeld } = completed;
      this.#observe(completed);
      let { suspensions } = this.#options.kernel;
      for (let warp of warps)
        this.#resumeWarp(warp);
      for (let thread of threads) {
        let { request } = suspensions[this.#records.requestOf(thread) - 1];
        if (request.kind === "barrier" && request.operation !== "sync") {
          let results = { popc: held, and: Number(allHeld), or: Number(held > 0) };
          this.#records.set(thread, threadRecord.result, results[request.operation]);
        }
        this.#resume(thread);
      }
    }
    #observe({ barrier, count, threads, warps }) {
      this.#options.observer?.complete({
        barrier,
        isOfAll: count === 0 || threads.length === this.#count,
        isOfWholeWarps: threads.length === 0,
        threads: () => [...warps.flatMap((warp) => this.#records.threadsOf(warp)), ...threads],
        suspensionOf: (thread) => this.#suspensionOf(thread),
        hasExited: (thread) => thread >= this.#count || this.#records.requestOf(thread) === exited
      });
    }
    #observeArrival(thread) {
      let { observer } = this.#options;
      if (observer === void 0)
        return;
      let [barrier, count] = [threadRecord.first, threadRecord.second].map((field) => this.#records.get(thread, field));
      observer.arrive(thread, { barrier, count, suspension: this.#suspensionOf(thread) });
    }
    #observeMeeting(warp, lanes) {
      let { observer } = this.#options;
      if (observer === void 0)
        return;
      let first = warp * warpSize, suspension = this.#suspensionOf(first + 31 - Math.clz32(lanes & -lanes));
      observer.meet(warp, {
        lanes,
        present: this.#records.presentLanesOf(warp),
        suspension,
        maskOf: (lane) => this.#records.get(first + lane, threadRecord.mask),
        readerOfAbsentLane: () => {
          let { request } = suspension;
          if (request.kind !== "shuffle")
            return;
          return readerOfAbsentLane(this.#records.warps[warp], { group: lanes, mode: request.mode });
        }
      });
    }
    #suspensionOf(thread) {
      return this.#options.kernel.suspensions[this.#records.requestOf(thread) - 1];
    }
    #deadlock() {
      return new DeadlockError(this.waitingThreads());
    }
    waitingThreads({ spinning = !1 } = {}) {
      let { suspensions } = this.#options.kernel, places = /* @__PURE__ */ new Map;
      for (let thread = 0;thread < this.#count; thread++) {
        let asked = this.#records.requestOf(thread), request = asked === 0 && spinning ? this.#yielded[thread] : asked;
        if (request > 0 && (spinning || waitsForOthers(suspensions[request - 1].request)))
          places.set(request - 1, [...places.get(request - 1) ?? [], thread]);
      }
      return [...places].map(([place, threads]) => ({
        threads: formatRanges(threads),
        isOne: threads.length === 1,
        first: threads[0],
        suspension: suspensions[place]
      }));
    }
  }
  function maySpin(suspensions) {
    return suspensions.some(({ request }) => request.kind === "yield");
  }
  function waitsForOthers({ kind }) {
    return kind !== "yield" && kind !== "lockstep";
  }

  // src/software/execution/launching/launch_state.ts
  var words3 = {
    blockX: launchFieldOffset("blockX") / 4,
    blockY: launchFieldOffset("blockY") / 4,
    blockZ: launchFieldOffset("blockZ") / 4,
    rowY: launchFieldOffset("rowY") / 4,
    rowZ: launchFieldOffset("rowZ") / 4
  };
  function indexIn(number, [x, y]) {
    return [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
  }
  var addressHigh = Number(BigInt.asIntN(32, addressBase >> 32n));

  class LaunchRecord {
    kernel;
    geometry;
    place;
    resumeLines;
    scheduler;
    ranges;
    fields;
    constructor(kernel, geometry, place) {
      this.kernel = kernel, this.geometry = geometry, this.place = place, this.resumeLines = kernel.compiled.resumeLines, this.ranges = place.ranges ?? scratch, this.fields = new Int32Array(place.linearMemory.memory.buffer, this.ranges.launch.begin, launchFields.length);
    }
    get savedRegisters() {
      let { block } = this.geometry;
      return this.localMemory + this.kernel.compiled.localBytes * block[0] * block[1] * block[2];
    }
    get scratchPlace() {
      let { shared, threads } = this.ranges;
      return { shared: shared.begin, threads: threads.begin, local: this.localMemory, saved: this.savedRegisters };
    }
    get localMemory() {
      return this.place.threadMemory ?? this.ranges.local.begin;
    }
    write(owner) {
      this.place.linearMemory.takeScratch(owner);
      let { linearMemory, parameters, bounds, sharedMemoryBytes = 0, argumentRanges, order, workspace } = this.place, { grid, block } = this.geometry, { compiled, steps } = this.kernel;
      if (linearMemory.bytes.set(parameters, this.ranges.parameters.begin), this.set("gridX", grid[0]), this.set("gridY", grid[1]), this.set("gridZ", grid[2]), this.set("blockDimX", block[0]), this.set("blockDimY", block[1]), this.set("blockDimZ", block[2]), this.set("parameters", this.ranges.parameters.begin), this.set("shared", this.ranges.shared.begin), this.set("sharedBytes", compiled.sharedBytes + sharedMemoryBytes), this.set("localMemory", this.localMemory), this.set("savedRegisters", this.savedRegisters), this.set("threads", this.ranges.threads.begin), this.set("workspaceHigh", workspace === void 0 ? 0 : addressHigh), this.set("workspaceLow", workspace ?? 0), this.set("bounds", bounds), order !== void 0 && compiled.suspensions === void 0)
        this.#orderThreads(order);
      if (argumentRanges !== void 0) {
        let { begin } = scratch.argumentRanges;
        new Uint32Array(linearMemory.memory.buffer, begin, argumentRanges.length).set(argumentRanges), this.set("argumentRanges", begin);
      }
      this.set("fuelLeft", steps.fuelPerRefill);
    }
    #orderThreads(order) {
      let { block } = this.geometry, reversed = 0;
      threadStarts.forEach((field, axis) => {
        let { start, isReversed } = order.threads(block[axis]);
        if (this.set(field, start), isReversed)
          reversed |= 1 << axis;
      }), this.set("reversedThreads", reversed);
    }
    locateFault({ what, ...report }) {
      let waiting = () => describeWaiting(this.scheduler?.waitingThreads() ?? [], markLine);
      return {
        report: { kind: report.kind, address: report.address, place: report.place, source: report.source },
        ...this.indicesOf(report),
        line: this.#lineOf(report),
        what: typeof what === "function" ? what(markLine, waiting()) : what
      };
    }
    indicesOf(report) {
      return { block: [this.get("blockX"), this.get("blockY"), this.get("blockZ")], thread: this.#threadOf(report) };
    }
    numberOf(place, thread) {
      let { fields, geometry: { block } } = this, row = reportsRows(place) ? block[0] * (fields[words3.rowY] + block[1] * fields[words3.rowZ]) : 0;
      return this.blockNumber * block[0] * block[1] * block[2] + row + thread;
    }
    get blockNumber() {
      let { fields, geometry: { grid } } = this;
      return fields[words3.blockX] + grid[0] * (fields[words3.blockY] + grid[1] * fields[words3.blockZ]);
    }
    indexOf(number) {
      let { grid, block: [x, y, z] } = this.geometry, block = Math.floor(number / (x * y * z)), thread = number % (x * y * z);
      return { block: indexIn(block, grid), thread: indexIn(thread, [x, y, z]) };
    }
    #threadOf({ thread, index, place }) {
      if (thread === void 0)
        return index;
      if (place?.thread === "x")
        return [thread, this.get("rowY"), this.get("rowZ")];
      let packed = this.#recordOf(thread).getInt32(threadRecord.threadIndex, !0);
      return [packed & 1023, packed >> 10 & 1023, packed >> 20];
    }
    #lineOf({ thread, place }) {
      let line = place?.line ?? 0;
      if (line > 0 || thread === void 0 || place?.thread === "x")
        return line;
      return this.resumeLines[this.#recordOf(thread).getInt32(threadRecord.resumeIndex, !0)] ?? 0;
    }
    #recordOf(thread) {
      let { memory } = this.place.linearMemory, begin = this.get("threads") + thread * threadRecordByteLength;
      return new DataView(memory.buffer, begin, threadRecordByteLength);
    }
    locate(first) {
      let thread = first;
      while (this.#recordOf(thread).getInt32(threadRecord.request, !0) === exited)
        thread++;
      return { thread };
    }
    gangMemory({ hasBarriers, width, localBytes, savedBytes }) {
      let { block } = this.geometry, threads = hasBarriers ? block[0] * block[1] * block[2] : width, local = this.ranges.local.begin, saved = local + threads * localBytes;
      return { local, saved, gangs: saved + threads * savedBytes };
    }
    writeForGangs(kernel) {
      let { local, saved, gangs } = this.gangMemory(kernel);
      this.set("localMemory", local), this.set("savedRegisters", saved), this.set("gangs", gangs);
    }
    freshenShared(begin = this.ranges.shared.begin) {
      let { isDivided, linearMemory } = this.place;
      if (isDivided)
        linearMemory.bytes.fill(freshByte, begin, begin + this.get("sharedBytes"));
    }
    setRow({ x, y, z }, last) {
      this.set("firstBlockX", x), this.set("lastBlockX", last), this.set("blockY", y), this.set("blockZ", z), this.#setMultiprocessor({ y, z });
    }
    setBlock({ x, y, z }, multiprocessor) {
      if (this.set("blockX", x), this.set("blockY", y), this.set("blockZ", z), multiprocessor === void 0)
        this.#setMultiprocessor({ y, z });
      else
        this.set("multiprocessor", modulo(multiprocessor - x, multiProcessorCount));
    }
    get multiprocessor() {
      return (this.get("blockX") + this.get("multiprocessor")) % multiProcessorCount;
    }
    #setMultiprocessor({ y, z }) {
      let [gridX, gridY] = this.geometry.grid, row = (y + gridY * z) % multiProcessorCount;
      this.set("multiprocessor", gridX % multiProcessorCount * row % multiProcessorCount);
    }
    set(field, value) {
      this.fields[launchFieldOffset(field) / 4] = value;
    }
    get(field) {
      return this.fields[launchFieldOffset(field) / 4];
    }
  }
  function modulo(dividend, divisor) {
    return (dividend % divisor + divisor) % divisor;
  }
  function schedulerOf(launch, { run, shared, ...memory }) {
    let { shadow } = launch.place, { geometry: { block }, kernel: { steps } } = launch, locate = (thread) => launch.locate(thread);
    return new BlockScheduler({
      ...memory,
      memory: launch.place.linearMemory.memory,
      block,
      hasShadows: shadow !== void 0,
      onStart: shadow && (() => shadow.markUninitialized(shared, launch.get("sharedBytes"))),
      run(firstThread, lastThread) {
        launch.set("firstThread", firstThread), launch.set("lastThread", lastThread), run(launch.ranges.launch.begin);
      },
      countSteps: (count, thread) => steps.add(count, thread, locate),
      observer: launch.place.checks?.observeBlock(),
      order: launch.place.order
    });
  }
  function stopIfDeadlocked(run) {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof DeadlockError))
        throw error;
      throw new KernelStop({
        kind: faultKind.deadlock,
        place: { line: error.line },
        what: (nameLine) => error.describe(nameLine)
      });
    }
  }

  // src/software/execution/launching/block_runner.ts
  function blockRunner(launch, gang) {
    return gang === void 0 ? singleRunner(launch) : gangRunner(launch, gang);
  }
  function singleRunner(launch) {
    return launch.kernel.compiled.suspensions === void 0 ? rowRunner(launch) : turnRunner(launch);
  }
  function rowRunner(launch) {
    let { run, steps } = launch.kernel, record = launch.ranges.launch.begin;
    return {
      prepare: () => launch.write(),
      run(first, last) {
        return launch.setRow(first, last), launch.freshenShared(), steps.restart(), run(record), last;
      }
    };
  }
  function turnRunner(launch) {
    let { kernel: { compiled, run, steps } } = launch, suspensions = compiled.suspensions, scheduler = schedulerOf(launch, { kernel: { ...compiled, suspensions }, ...launch.scratchPlace, run });
    launch.scheduler = scheduler;
    let runBlock = () => (scheduler.start(), scheduler.takeTurn());
    return {
      prepare: () => launch.write(),
      run({ x, y, z }, last) {
        for (;x < last; x++)
          if (launch.setBlock({ x, y, z }), launch.freshenShared(), steps.restart(), stopIfDeadlocked(runBlock) !== "ended")
            return x;
        return last;
      }
    };
  }
  var divergedShare = 0.125;
  function gangRunner(launch, { compiled, gangs, threads }) {
    let { geometry: { block }, kernel: { steps } } = launch, record = launch.ranges.launch.begin, gangsPerBlock = block[0] * block[1] * block[2] / compiled.width, { local, saved } = launch.gangMemory(compiled), scheduler = schedulerOf(launch, {
      kernel: compiled,
      shared: launch.ranges.shared.begin,
      threads: launch.ranges.threads.begin,
      saved,
      local,
      run: threads
    });
    launch.resumeLines = compiled.resumeLines;
    let begun = 0, diverged = 0, rest, runGangs = (first, last) => {
      launch.setRow(first, last), launch.freshenShared(), launch.set("divergences", 0), launch.set("rounds", 0), steps.restart();
      let stopped = gangs(record), rounds = compiled.hasBarriers ? launch.get("rounds") : last - first.x;
      if (begun += rounds * gangsPerBlock, diverged += launch.get("divergences"), stopped === last)
        return last;
      return stopIfDeadlocked(() => scheduler.finishBlock()), stopped + 1;
    };
    return {
      prepare() {
        if (rest !== void 0)
          return rest.prepare();
        launch.write(), launch.writeForGangs(compiled);
      },
      run({ x, y, z }, last) {
        while (x < last) {
          if (rest !== void 0)
            return rest.run({ x, y, z }, last);
          if (x = runGangs({ x, y, z }, last), diverged > begun * divergedShare && begun > 64)
            launch.resumeLines = launch.kernel.compiled.resumeLines, rest = singleRunner(launch), rest.prepare();
        }
        return last;
      }
    };
  }

  // src/software/execution/workers/job_board.ts
  var jobCount = 32, header = {
    opened: 0,
    started: 1,
    openJobs: 2,
    idle: 3,
    words: 16
  }, jobFields = [
    "number",
    "kernel",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "sharedMemoryBytes",
    "parameters",
    "bounds",
    "scratchBegin",
    "scratchBytes",
    "threads",
    "heap",
    "conditions",
    "printLimit"
  ], threadsField = jobFields.indexOf("threads"), state = {
    open: 0,
    running: 1,
    stop: 2,
    busy: 3,
    words: 4
  }, counters = {
    next: 0,
    end: 1,
    fault: 2,
    count: 4
  }, wordsPerJob = 2 * counters.count + state.words + 20, noBlock = 2n ** 63n - 1n;

  class JobBoard {
    words;
    counters;
    constructor(buffer = new SharedArrayBuffer(4 * (header.words + 32 * wordsPerJob))) {
      this.words = new Int32Array(buffer), this.counters = new BigInt64Array(buffer);
    }
    get buffer() {
      return this.words.buffer;
    }
    get started() {
      return Atomics.load(this.words, header.started);
    }
    start() {
      Atomics.add(this.words, header.started, 1);
    }
    get opened() {
      return Atomics.load(this.words, header.opened);
    }
    waitForJob(opened) {
      Atomics.add(this.words, header.idle, 1), Atomics.wait(this.words, header.opened, opened), Atomics.sub(this.words, header.idle, 1);
    }
    wakeIdle() {
      if (Atomics.load(this.words, header.idle) === 0)
        return !1;
      return Atomics.notify(this.words, header.opened, 1), !0;
    }
    get hasSeveralJobs() {
      return Atomics.load(this.words, header.openJobs) > 1;
    }
    noteOpened(workers) {
      Atomics.add(this.words, header.openJobs, 1), Atomics.add(this.words, header.opened, 1), Atomics.notify(this.words, header.opened, workers);
    }
    noteClosed() {
      Atomics.sub(this.words, header.openJobs, 1);
    }
  }

  class Job {
    index;
    first = 0;
    last = 0;
    #board;
    #counters;
    #state;
    #fields;
    constructor(board, index) {
      this.index = index, this.#board = board;
      let begin = header.words + index * wordsPerJob;
      this.#counters = begin / 2, this.#state = begin + 2 * counters.count, this.#fields = this.#state + state.words;
    }
    open(fields, { first, end, workers }) {
      let { words } = this.#board;
      jobFields.forEach((name, index) => words[this.#fields + index] = fields[name]), this.#set("next", BigInt(first)), this.#set("end", BigInt(end)), this.#set("fault", noBlock), Atomics.store(words, this.#state + state.stop, 0), Atomics.store(words, this.#state + state.busy, 0), Atomics.store(words, this.#state + state.open, 1), this.#board.noteOpened(workers);
    }
    close() {
      let { words } = this.#board;
      Atomics.store(words, this.#state + state.stop, 1), Atomics.store(words, this.#state + state.open, 0), this.#board.noteClosed();
      for (;; ) {
        let running = this.running;
        if (running === 0)
          return;
        Atomics.wait(words, this.#state + state.running, running);
      }
    }
    fields() {
      let { words } = this.#board;
      return Object.fromEntries(jobFields.map((name, index) => [name, words[this.#fields + index] >>> 0]));
    }
    get number() {
      return this.#board.words[this.#fields] >>> 0;
    }
    get running() {
      return Atomics.load(this.#board.words, this.#state + state.running);
    }
    get isOpen() {
      return Atomics.load(this.#board.words, this.#state + state.open) === 1;
    }
    get hasBlocks() {
      return !this.isStopped && !this.hasFault && this.#get("next") < this.#get("end");
    }
    get isOver() {
      return !this.hasBlocks && this.running === 0;
    }
    get isStopped() {
      return Atomics.load(this.#board.words, this.#state + state.stop) === 1;
    }
    get hasFault() {
      return this.#get("fault") !== noBlock;
    }
    get lowestFault() {
      return Number(this.#get("fault"));
    }
    get busyMilliseconds() {
      return (Atomics.load(this.#board.words, this.#state + state.busy) >>> 0) / 1000;
    }
    get isFull() {
      return this.running >= this.#threads;
    }
    get #threads() {
      return this.#board.words[this.#fields + threadsField];
    }
    join() {
      let before = Atomics.add(this.#board.words, this.#state + state.running, 1);
      if (this.isOpen && this.hasBlocks && before < this.#threads)
        return !0;
      return this.leave(), !1;
    }
    leave(milliseconds = 0) {
      let { words } = this.#board;
      if (milliseconds > 0)
        Atomics.add(words, this.#state + state.busy, Math.ceil(milliseconds * 1000));
      let isLast = Atomics.sub(words, this.#state + state.running, 1) === 1;
      if (!this.isOpen)
        Atomics.notify(words, this.#state + state.running);
      return isLast;
    }
    claim(most, threads) {
      if (!this.hasBlocks)
        return !1;
      let end = Number(this.#get("end")), left = end - Number(this.#get("next")), count = Math.max(1, Math.min(most, Math.ceil(left / (2 * threads)))), first = Number(Atomics.add(this.#board.counters, this.#counters + counters.next, BigInt(count)));
      if (first >= end)
        return !1;
      return this.first = first, this.last = Math.min(first + count, end), !0;
    }
    fail(block) {
      let place = this.#counters + counters.fault;
      for (;; ) {
        let lowest = this.#get("fault");
        if (lowest <= BigInt(block))
          return !1;
        if (Atomics.compareExchange(this.#board.counters, place, lowest, BigInt(block)) === lowest)
          return !0;
      }
    }
    isInVain(block) {
      return this.isStopped || this.hasFault && this.#get("fault") < BigInt(block);
    }
    #get(counter) {
      return Atomics.load(this.#board.counters, this.#counters + counters[counter]);
    }
    #set(counter, value) {
      Atomics.store(this.#board.counters, this.#counters + counters[counter], value);
    }
  }

  // src/software/execution/launching/pace.ts
  class Pace {
    milliseconds;
    #count = 1;
    #start = 0;
    constructor(milliseconds) {
      this.milliseconds = milliseconds;
    }
    get count() {
      return this.#count;
    }
    get elapsed() {
      return performance.now() - this.#start;
    }
    begin() {
      this.#start = performance.now();
    }
    isOver() {
      let slice = this.milliseconds;
      if (slice === 0)
        return !0;
      let { elapsed } = this;
      if (elapsed < slice / 4) {
        let factor = elapsed < slice / 32 ? 8 : 2;
        this.#count = Math.min(this.#count * factor, 16777216);
      }
      return elapsed > slice;
    }
  }

  // src/software/execution/workers/claimed_blocks.ts
  function runBlocks(runner, { first, last }, [gridX, gridY]) {
    for (let block = first;block < last; ) {
      let x = block % gridX, row = Math.floor(block / gridX), end = Math.min(x + last - block, gridX);
      runner.run({ x, y: row % gridY, z: Math.floor(row / gridY) }, end), block += end - x;
    }
  }

  // src/software/execution/workers/progress.ts
  class Progress {
    word;
    #isAwaited = !1;
    constructor(word = new Int32Array(new SharedArrayBuffer(4))) {
      this.word = word;
    }
    get value() {
      return Atomics.load(this.word, 0);
    }
    advance() {
      Atomics.add(this.word, 0, 1), Atomics.notify(this.word, 0);
    }
    wait(seen, milliseconds) {
      Atomics.wait(this.word, 0, seen, milliseconds);
    }
    whenAdvanced(seen, callback) {
      if (this.#isAwaited)
        return;
      let { value } = Atomics.waitAsync(this.word, 0, seen);
      this.#isAwaited = !0, Promise.resolve(value).then(() => {
        this.#isAwaited = !1, callback();
      });
    }
  }
  var workerProgress = new Progress;

  // src/software/execution/workers/worker_scratch.ts
  var alignment = 1024, aligned = (byteLength) => Math.ceil(byteLength / alignment) * alignment;
  var sharedOffset = aligned(launchRecordByteLength) + aligned(sharedSpan.reserved);
  function scratchOfWorker({ parameters, scratchBegin, scratchBytes, blockX, blockY, blockZ }, { worker, sharedBytes }) {
    let launch = scratchBegin + worker * scratchBytes, shared = launch + sharedOffset, threads = shared + aligned(sharedBytes), local = threads + aligned(blockX * blockY * blockZ * threadRecordByteLength);
    return {
      parameters: { begin: parameters },
      launch: { begin: launch },
      shared: { begin: shared },
      threads: { begin: threads },
      local: { begin: local }
    };
  }

  // src/software/execution/workers/worker.ts
  var threads = workerThreads(), { source, index: worker, ports, memory, timeOrigin, ...data } = threads.workerData, board = new JobBoard(data.board), progress = new Progress(new Int32Array(data.progress)), port = ports.get(worker), launchMemory = {
    memory,
    bytes: new Uint8Array(memory.buffer),
    takeScratch() {},
    leaveScratch() {},
    reserve: () => {
      return;
    },
    release() {},
    discard: () => !1
  }, deviceMemory = {
    bytes: launchMemory.bytes,
    get conditions() {
      let { conditions: begin } = current.device;
      return begin === 0 ? void 0 : { begin, table: new ConditionTable(memory, begin) };
    },
    heapAt() {
      let allocator = new HeapAllocator(memory, current.device.heap);
      return {
        allocate: (byteLength, alignment) => allocator.allocate(byteLength, alignment) || void 0,
        free: (begin) => allocator.free(begin),
        byteLengthAt: (begin) => allocator.byteLengthAt(begin) ?? 0,
        ranges: () => allocator.ranges()
      };
    },
    printLimitAt: () => current.device.printLimit || void 0
  };
  function startOthers() {
    for (let index of [2 * worker + 1, 2 * worker + 2]) {
      if (!ports.has(index))
        continue;
      let theirs = new Map([...ports].filter(([other]) => isStartedBy(index, other))), workerData = { ...threads.workerData, index, ports: theirs };
      new threads.Worker(source, { eval: !0, workerData, transferList: [...theirs.values()] }).unref();
    }
  }
  function isStartedBy(index, other) {
    while (other > index)
      other = other - 1 >> 1;
    return other === index;
  }
  var sent = /* @__PURE__ */ new Map, kernels = /* @__PURE__ */ new Map;
  function kernelOf(number) {
    let kernel = kernels.get(number);
    while (kernel === void 0) {
      let found = sent.get(number);
      if (found === void 0)
        receive();
      else
        kernels.set(number, kernel = instantiate(found));
    }
    return kernel;
  }
  function receive() {
    for (let got;(got = threads.receiveMessageOnPort(port)) !== void 0; ) {
      let message = got.message;
      if (message.kind === "kernel")
        sent.set(message.number, message);
      else
        sent.delete(message.number), kernels.delete(message.number);
    }
  }
  var current;
  function instantiate({ code, image, compiled, gang, stepLimit }) {
    let steps = new StepCounter(stepLimit);
    steps.isInVain = () => current.job.isInVain(current.job.first);
    let functions = hostFunctions({ linearMemory: deviceMemory, steps, image, timeOrigin }), device = {
      memory,
      imageAddress: new WebAssembly.Global({ value: "i64" }, addressOfOffset(image.begin)),
      ...hostFunctionImports(functions)
    }, exportsOf = (code) => new WebAssembly.Instance(code, { device }).exports, run = exportsOf(code)[compiled.name], kernel = { compiled, run, steps };
    if (gang === void 0)
      return { kernel, gang: void 0 };
    let { gangs, threads } = exportsOf(gang.code);
    return { kernel, gang: { compiled: gang.compiled, gangs, threads } };
  }

  class JobRunner {
    fields;
    #job;
    #launch;
    #runner;
    #pace = new Pace(claimMilliseconds);
    constructor(job) {
      let fields = this.fields = job.fields(), { kernel, gang } = kernelOf(fields.kernel);
      this.#job = job, this.#launch = new LaunchRecord(kernel, {
        grid: [fields.gridX, fields.gridY, fields.gridZ],
        block: [fields.blockX, fields.blockY, fields.blockZ]
      }, {
        linearMemory: launchMemory,
        ranges: scratchOfWorker(fields, { worker, sharedBytes: kernel.compiled.sharedBytes + fields.sharedMemoryBytes }),
        parameters: new Uint8Array,
        bounds: fields.bounds,
        sharedMemoryBytes: fields.sharedMemoryBytes
      }), this.#runner = blockRunner(this.#launch, gang);
    }
    run() {
      let job = this.#job;
      this.#runner.prepare();
      do {
        if (this.#pace.begin(), !job.claim(this.#pace.count, this.fields.threads))
          break;
        this.#runClaimed(), this.#pace.isOver();
      } while (!board.hasSeveralJobs);
    }
    #runClaimed() {
      let job = this.#job;
      try {
        runBlocks(this.#runner, job, this.#launch.geometry.grid);
      } catch (error) {
        if (error instanceof InVainError)
          return;
        let fault = error instanceof KernelStop ? this.#launch.locateFault(error.report) : String(error);
        report({ job: this.fields.number, block: this.#launch.blockNumber, fault }, job);
      }
    }
  }
  var claimMilliseconds = 0.5, jobs = Array.from({ length: jobCount }, (_, index) => new Job(board, index)), runners = Array(jobCount).fill(void 0);
  function runJobs() {
    let hasRun = !1;
    for (let job of jobs) {
      if (!job.isOpen || !job.hasBlocks || job.isFull)
        continue;
      if (!job.join()) {
        if (job.isOver)
          progress.advance();
        continue;
      }
      hasRun = !0;
      let start = performance.now();
      try {
        let runner = runners[job.index];
        if (runner?.fields.number !== job.number)
          runners[job.index] = runner = new JobRunner(job);
        current = { job, device: runner.fields }, runner.run();
      } catch (error) {
        report({ job: job.number, block: 0, fault: String(error) }, job);
      }
      if (job.leave(performance.now() - start) && !job.hasBlocks)
        progress.advance();
    }
    return hasRun;
  }
  function report(message, job) {
    if (job.fail(message.block))
      port.postMessage(message);
  }
  startOthers();
  board.start();
  progress.advance();
  for (;; ) {
    let { opened } = board;
    if (!runJobs())
      receive(), board.waitForJob(opened);
  }
})();
`;
