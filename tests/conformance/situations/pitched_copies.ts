/**
 * Rows about copies and fills of rows, and about batches of copies.
 *
 * @module
 */
import {
  type BatchAttributes,
  type BatchedCopy,
  defaultStream,
  type Driver,
  type HostAllocation,
  type PitchedCopy,
  type PitchedMemory,
  sourceAccessOrder,
  streamCaptureMode,
  streamFlags,
} from "../../../src/driver.ts";
import { deviceAttributes } from "../../../src/support/device_attributes.ts";
import { attemptEach, type Attempts } from "../attempts.ts";
import { byteLength as partsByteLength, endOf, nameOfStatus, prepare, shapeOf } from "../graph_parts.ts";
import { readBytes } from "../launch.ts";
import { prepareLongWork } from "../long_work.ts";
import { createPool, createStream, mebibyte, onFirstNode } from "../pools.ts";
import type { Answer, Fixture, Situation } from "../situation.ts";

/** An address where no device has an allocation. */
const farAddress = 0x0060_0000_0000n;
const pitch = 16;
/** Rows of 4 bytes, two in a slice, and two slices with a row between them. */
const size = { width: 4, height: 2, depth: 2 };
const spanned = 64 + 16 + 4;

/** The rows at an address or in host memory. */
function rowsAt(memory: bigint | Uint8Array, change: Partial<PitchedMemory> = {}): PitchedMemory {
  return { memory, pitch, rows: 4, ...change };
}

/** Bytes that are all different. */
function numbers(byteLength: number): Uint8Array {
  return Uint8Array.from({ length: byteLength }, (_, index) => index + 1);
}

/** Device memory that holds `numbers`, and device memory that holds zeros. */
function prepareMemory(driver: Driver, byteLength = 128): { from: bigint; to: bigint } {
  const from = driver.malloc(0, byteLength), to = driver.malloc(0, byteLength);
  driver.memcpyHtoDAsync(0, from, numbers(byteLength), defaultStream);
  driver.memsetAsync(0, to, 0, byteLength, defaultStream);
  driver.deviceSynchronize(0);
  return { from, to };
}

/** The results of a copy whose extents and ends are changed one by one. Waits for each one. */
function attemptCopies(
  driver: Driver,
  changes: Readonly<Record<string, (copy: PitchedCopy) => PitchedCopy>>,
): Attempts {
  const { from, to } = prepareMemory(driver);
  const copy: PitchedCopy = { source: rowsAt(from), destination: rowsAt(to), ...size };
  return attemptEach(Object.fromEntries(
    Object.entries(changes).map(([name, change]) => [name, () => {
      driver.memcpy3DAsync(0, change(copy), defaultStream);
      driver.deviceSynchronize(0);
    }]),
  ));
}

/** A kind of memory that copies can use. */
interface Place {
  /** The memory as an end of a copy. */
  readonly memory: bigint | Uint8Array;
  write(bytes: Uint8Array): void;
  read(): Uint8Array;
}

const placeByteLength = 128;

/** Creates memory of each kind. */
const places: Readonly<Record<string, (driver: Driver, devices: number) => Place>> = {
  pageable: () => ofHost(new Uint8Array(placeByteLength)),
  "page-locked": (driver) => ofHost(new Uint8Array(driver.hostAlloc(placeByteLength).buffer)),
  "page-locked by address": (driver) => {
    const allocation = driver.hostAlloc(placeByteLength);
    return { ...ofHost(new Uint8Array(allocation.buffer)), memory: driver.hostGetDevicePointer(allocation) };
  },
  device: (driver) => ofDevice(driver, driver.malloc(0, placeByteLength)),
  pool: (driver) => ofDevice(driver, driver.mallocFromPoolAsync(0, placeByteLength, createPool(driver), defaultStream)),
  "host pool": (driver) => {
    const pool = createPool(driver, { location: onFirstNode });
    return ofDevice(driver, driver.mallocFromPoolAsync(0, placeByteLength, pool, defaultStream));
  },
};

function ofHost(bytes: Uint8Array): Place {
  return { memory: bytes, write: (values) => bytes.set(values), read: () => bytes.slice() };
}

function ofDevice(driver: Driver, address: bigint, device = 0): Place {
  return {
    memory: address,
    write(bytes) {
      driver.memcpyHtoDAsync(device, address, bytes, defaultStream);
      driver.streamSynchronize(device, defaultStream);
    },
    read: () => Uint8Array.from(readBytes(driver, device, address, placeByteLength)),
  };
}

/** Copies rows from one place to another, and returns the error, or whether the right bytes arrived. */
function tryCopy(
  driver: Driver,
  [from, to]: readonly [Place, Place],
  copy: (copy: PitchedCopy) => void = (copy) => driver.memcpy3DAsync(0, copy, defaultStream),
  extents: { readonly width: number; readonly height: number; readonly depth: number } = size,
): string | boolean {
  from.write(numbers(placeByteLength));
  to.write(new Uint8Array(placeByteLength));
  const ends = { source: rowsAt(from.memory), destination: rowsAt(to.memory, { pitch: 8, rows: 3 }) };
  const answer = attemptEach({
    copy: () => copy({ ...ends, ...extents }),
    wait: () => driver.deviceSynchronize(0),
  });
  if (answer["copy"] !== "done") return String(answer["copy"]);
  if (answer["wait"] !== "done") return `wait: ${answer["wait"]}`;
  const expected = new Uint8Array(placeByteLength);
  const source = numbers(placeByteLength);
  for (let slice = 0; slice < extents.depth; slice++) {
    for (let row = 0; row < extents.height; row++) {
      const begin = slice * 64 + row * 16;
      expected.set(source.subarray(begin, begin + extents.width), slice * 24 + row * 8);
    }
  }
  return to.read().every((byte, index) => byte === expected[index]);
}

/** The answers of copies between each pair of kinds of memory. */
function betweenPlaces({ driver }: Fixture): Answer {
  return Object.fromEntries(
    Object.entries(places).map(([from, createFrom]) => [
      from,
      Object.fromEntries(
        Object.entries(places).map(([to, createTo]) => {
          return [to, tryCopy(driver, [createFrom(driver, 1), createTo(driver, 1)])];
        }),
      ),
    ]),
  );
}

const inOrder: BatchAttributes = { sourceAccessOrder: sourceAccessOrder.stream, preferOverlapWithCompute: false };

/** A batch of `count` copies of 4 bytes each. */
function batchOf(from: bigint, to: bigint, count = 2, attributes: BatchAttributes = inOrder): BatchedCopy[] {
  return Array.from({ length: count }, (_, index) => {
    const offset = BigInt(8 * index);
    return { source: from + offset, destination: to + offset, byteLength: 4, attributes };
  });
}

/** The results of batches on a new stream. Waits for each one. */
function attemptBatches(
  driver: Driver,
  batches: Readonly<Record<string, (parts: { from: bigint; to: bigint }) => readonly BatchedCopy[]>>,
): Answer {
  const parts = prepareMemory(driver);
  const stream = createStream(driver);
  return Object.fromEntries(
    Object.entries(batches).map(([name, batch]) => {
      driver.memsetAsync(0, parts.to, 0, 24, defaultStream);
      driver.deviceSynchronize(0);
      const answer = attemptEach({
        copy: () => driver.memcpyBatchAsync(0, batch(parts), stream),
        wait: () => driver.streamSynchronize(0, stream),
      });
      return [name, { ...answer, bytes: readBytes(driver, 0, parts.to, 12) }];
    }),
  );
}

const fills = {
  memsetD2D8Async: { elementSize: 1, value: 0xa1 },
  memsetD2D16Async: { elementSize: 2, value: 0xb1b2 },
  memsetD2D32Async: { elementSize: 4, value: 0xc1c2c3c4 },
} as const;
type FillName = keyof typeof fills;
const fillNames = Object.keys(fills) as FillName[];

/** Captures calls, and returns the shape of the graph or the error, and the state of the capture after each call. */
function captured(
  { driver }: Fixture,
  calls: (parts: { from: bigint; to: bigint; stream: bigint; host: HostAllocation }) => Record<string, () => unknown>,
): Answer {
  const { from, to } = prepareMemory(driver);
  const stream = createStream(driver);
  const host = driver.hostAlloc(placeByteLength);
  return Object.fromEntries(
    Object.entries(calls({ from, to, stream, host })).map(([name, call]) => {
      driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
      const answer = attemptEach({ call });
      const status = nameOfStatus(driver.streamGetCaptureInfo(0, stream).status);
      return [name, { ...answer, status, end: endOf(driver, stream) }];
    }),
  );
}

/** Rows about copies and fills of rows, and about batches of copies. */
export const situations: readonly Situation[] = [
  {
    name: "rows and slices copied to memory with other distances",
    run({ driver }) {
      const { from, to } = prepareMemory(driver);
      const destination = rowsAt(to, { pitch: 5, rows: 2 });
      driver.memcpy3DAsync(0, { source: rowsAt(from), destination, ...size }, defaultStream);
      return readBytes(driver, 0, to, 24);
    },
  },
  {
    name: "rows copied: distances that are too small or too large",
    run: ({ driver }) =>
      attemptCopies(driver, {
        "a source pitch below the width": (copy) => ({ ...copy, source: { ...copy.source, pitch: 3 } }),
        "a destination pitch below the width": (copy) => ({ ...copy, destination: { ...copy.destination, pitch: 3 } }),
        "a pitch that is the width": (copy) => ({ ...copy, source: { ...copy.source, pitch: 4 } }),
        "a pitch that is odd": (copy) => ({ ...copy, source: { ...copy.source, pitch: 13 } }),
        "a pitch of 0 and one row": (copy) => ({ ...copy, source: { ...copy.source, pitch: 0 }, height: 1, depth: 1 }),
        "a pitch below the width and one row": (copy) => ({
          ...copy,
          source: { ...copy.source, pitch: 3 },
          height: 1,
          depth: 1,
        }),
        "a pitch of 0 and one row in each of two slices": (copy) => ({
          ...copy,
          source: { ...copy.source, pitch: 0 },
          height: 1,
        }),
        "fewer rows to a slice than are copied": (copy) => ({ ...copy, source: { ...copy.source, rows: 1 } }),
        "fewer rows to a slice of the destination than are copied": (copy) => ({
          ...copy,
          destination: { ...copy.destination, rows: 1 },
        }),
        "fewer rows to a slice than are copied, of one slice": (copy) => ({
          ...copy,
          source: { ...copy.source, rows: 1 },
          depth: 1,
        }),
        "no rows to a slice, of one slice": (copy) => ({ ...copy, source: { ...copy.source, rows: 0 }, depth: 1 }),
      }),
  },
  {
    name: "rows copied: pitches at and above the maximum",
    run({ driver }) {
      const maximum = driver.deviceGetAttribute(0, deviceAttributes.maxPitch);
      const withPitch = (pitch: number, rest: Partial<PitchedCopy>) => (copy: PitchedCopy) => ({
        ...copy,
        source: { ...copy.source, pitch },
        ...rest,
      });
      return {
        maximum,
        ...attemptCopies(driver, {
          "the maximum, one row": withPitch(maximum, { height: 1, depth: 1 }),
          "one more, one row": withPitch(maximum + 1, { height: 1, depth: 1 }),
          "4 GiB, one row": withPitch(2 ** 32, { height: 1, depth: 1 }),
          "one more, one row in each of two slices": withPitch(maximum + 1, { height: 1 }),
        }),
      };
    },
  },
  {
    name: "rows copied: none, or empty ones",
    run({ driver }) {
      const far = rowsAt(farAddress);
      return attemptCopies(driver, {
        "no bytes in a row": (copy) => ({ ...copy, width: 0 }),
        "no rows": (copy) => ({ ...copy, height: 0 }),
        "no slices": (copy) => ({ ...copy, depth: 0 }),
        "nothing at all": (copy) => ({ ...copy, width: 0, height: 0, depth: 0 }),
        "no bytes in a row, where no allocation is": (copy) => ({ ...copy, source: far, width: 0 }),
        "no rows, where no allocation is": (copy) => ({ ...copy, source: far, height: 0 }),
        "no slices, to where no allocation is": (copy) => ({ ...copy, destination: far, depth: 0 }),
        "no bytes in a row of pageable memory": (copy) => ({ ...copy, source: rowsAt(new Uint8Array(0)), width: 0 }),
        "no bytes in a row, and pitches of 0": (copy) => ({
          ...copy,
          source: { ...copy.source, pitch: 0 },
          destination: { ...copy.destination, pitch: 0 },
          width: 0,
        }),
      });
    },
  },
  {
    name: "the last column of an allocation of 2 MiB copied, which ends where the allocation ends",
    run({ driver }) {
      const from = driver.malloc(0, 2 * mebibyte), to = driver.malloc(0, 2 * mebibyte);
      const rows = 2 * mebibyte / 1024;
      driver.memsetAsync(0, from, 7, 2 * mebibyte, defaultStream);
      driver.memsetAsync(0, to, 0, 2 * mebibyte, defaultStream);
      const copy = (offset: number, height: number) => () => {
        const source = { memory: from + BigInt(offset), pitch: 1024, rows: height };
        const destination = { memory: to + BigInt(offset), pitch: 1024, rows: height };
        driver.memcpy3DAsync(0, { source, destination, width: 4, height, depth: 1 }, defaultStream);
        driver.deviceSynchronize(0);
      };
      return {
        ...attemptEach({
          "ends at the end": copy(1020, rows),
          "ends a byte past it": copy(1021, rows),
          "ends a row past it": copy(1020, rows + 1),
        }),
        last: readBytes(driver, 0, to + BigInt(2 * mebibyte - 8), 8),
      };
    },
  },
  { name: "rows copied between any two kinds of memory: whether the right bytes arrive", run: betweenPlaces },
  {
    name: "one row copied between any two kinds of memory by a call for rows",
    run: ({ driver }) =>
      Object.fromEntries(
        Object.entries(places).map(([name, create]) => {
          const device = () => places["device"]!(driver, 1);
          const extents = { width: 16, height: 1, depth: 1 };
          const copy = (copy: PitchedCopy) => {
            const destination = { ...copy.destination, pitch: 16 };
            driver.memcpy3DAsync(0, { ...copy, destination }, defaultStream);
          };
          return [name, {
            "to a device": tryCopy(driver, [create(driver, 1), device()], copy, extents),
            "from a device": tryCopy(driver, [device(), create(driver, 1)], copy, extents),
          }];
        }),
      ),
  },
  {
    name: "rows copied within a device by the call for peers",
    run({ driver }) {
      const { from, to } = prepareMemory(driver);
      const copy = { source: rowsAt(from), destination: rowsAt(to, { pitch: 8, rows: 2 }), ...size };
      driver.memcpy3DPeerAsync(0, copy, 0, 0, defaultStream);
      return readBytes(driver, 0, to, 32);
    },
  },
  {
    name: "rows of memory of a host pool copied by the call for peers",
    run: ({ driver }) => {
      const [device, host] = [places["device"]!(driver, 1), places["host pool"]!(driver, 1)];
      const copy = (copy: PitchedCopy) => driver.memcpy3DPeerAsync(0, copy, 0, 0, defaultStream);
      return { from: tryCopy(driver, [host, device], copy), to: tryCopy(driver, [device, host], copy) };
    },
  },
  {
    name: "pageable memory changed after a copy of its rows was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = createStream(driver);
      const { to } = prepareMemory(driver);
      const source = new Uint8Array(spanned).fill(1);
      keepBusy(stream);
      driver.memcpy3DAsync(0, { source: rowsAt(source), destination: rowsAt(to), ...size }, stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, to, 4);
    },
  },
  {
    name: "a copy of rows to pageable memory given to a busy stream: whether the stream is done when it returns",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = createStream(driver);
      const { from } = prepareMemory(driver);
      keepBusy(stream);
      const destination = rowsAt(new Uint8Array(spanned));
      driver.memcpy3DAsync(0, { source: rowsAt(from), destination, ...size }, stream);
      return driver.streamQuery(0, stream);
    },
  },
  {
    name: "page-locked memory changed after a copy of its rows was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = createStream(driver);
      const { to } = prepareMemory(driver);
      const source = new Uint8Array(driver.hostAlloc(spanned).buffer).fill(1);
      keepBusy(stream);
      driver.memcpy3DAsync(0, { source: rowsAt(source), destination: rowsAt(to), ...size }, stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, to, 4);
    },
  },
  {
    name: "rows copied in captures",
    run: (fixture) =>
      captured(fixture, ({ from, to, stream, host }) => {
        const { driver } = fixture;
        const bytes = new Uint8Array(host.buffer);
        const [source, destination] = [rowsAt(from), rowsAt(to)];
        return {
          "within a device": () => driver.memcpy3DAsync(0, { source, destination, ...size }, stream),
          "from page-locked memory": () =>
            driver.memcpy3DAsync(0, { source: rowsAt(bytes), destination, ...size }, stream),
          "to page-locked memory": () =>
            driver.memcpy3DAsync(0, { source, destination: rowsAt(bytes), ...size }, stream),
          "from pageable memory": () =>
            driver.memcpy3DAsync(0, { source: rowsAt(new Uint8Array(spanned)), destination, ...size }, stream),
          "to pageable memory": () =>
            driver.memcpy3DAsync(0, { source, destination: rowsAt(new Uint8Array(spanned)), ...size }, stream),
          "as peers": () => driver.memcpy3DPeerAsync(0, { source, destination, ...size }, 0, 0, stream),
          "no bytes": () => driver.memcpy3DAsync(0, { source, destination, ...size, width: 0 }, stream),
          "no rows": () => driver.memcpy3DAsync(0, { source, destination, ...size, height: 0 }, stream),
          "a pitch below the width": () =>
            driver.memcpy3DAsync(0, { source: { ...source, pitch: 3 }, destination, ...size }, stream),
        };
      }),
  },
  {
    name: "rows filled in captures",
    run: (fixture) =>
      captured(fixture, ({ to, stream }) => {
        const calls = fillNames.map((name) => [name, () => fixture.driver[name](0, to, 16, 1, 2, 2, stream)] as const);
        return {
          ...Object.fromEntries(calls),
          "no values": () => fixture.driver.memsetD2D8Async(0, to, 16, 1, 0, 2, stream),
          "no rows": () => fixture.driver.memsetD2D8Async(0, to, 16, 1, 2, 0, stream),
          "one row": () => fixture.driver.memsetD2D8Async(0, to, 16, 1, 2, 1, stream),
        };
      }),
  },
  {
    name: "a batch of copies in a capture",
    run: (fixture) =>
      captured(fixture, ({ from, to, stream }) => ({
        "of two": () => fixture.driver.memcpyBatchAsync(0, batchOf(from, to), stream),
        "of one": () => fixture.driver.memcpyBatchAsync(0, batchOf(from, to, 1), stream),
        "of none": () => fixture.driver.memcpyBatchAsync(0, [], stream),
        "of two, then a fill": () => {
          const answer = attemptEach({
            batch: () => fixture.driver.memcpyBatchAsync(0, batchOf(from, to), stream),
            fill: () => fixture.driver.memsetAsync(0, to, 1, 4, stream),
          });
          return `batch: ${answer["batch"]}, fill: ${answer["fill"]}`;
        },
      })),
  },
  {
    name: "rows copied by a node that was added to a graph",
    run({ driver }) {
      const { from, to } = prepareMemory(driver);
      const stream = createStream(driver);
      const graph = driver.graphCreate();
      const destination = rowsAt(to, { pitch: 5, rows: 2 });
      driver.graphAddMemcpyNode(0, graph, [], { source: rowsAt(from), destination, ...size });
      driver.graphLaunch(0, driver.graphInstantiate(graph, 0), stream);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, to, 20);
    },
  },
  {
    name: "an executable graph of a copy of rows updated",
    run({ driver }) {
      const { stream } = prepare(driver);
      const { from, to } = prepareMemory(driver, 256);
      const copy: PitchedCopy = { source: rowsAt(from), destination: rowsAt(to), ...size };
      const graphOf = (copy: PitchedCopy) => {
        driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
        driver.memcpy3DAsync(0, copy, stream);
        return driver.streamEndCapture(0, stream);
      };
      const graph = graphOf(copy);
      const exec = driver.graphInstantiate(graph, 0);
      const [node] = driver.graphGetNodes(graph);
      const single = { source: from, destination: to, byteLength: 4 };
      return {
        shape: shapeOf(driver, graph),
        ...attemptEach({
          "with the same": () => driver.graphExecUpdate(exec, graphOf(copy)),
          "with another source": () => driver.graphExecUpdate(exec, graphOf({ ...copy, source: rowsAt(from + 4n) })),
          "with another destination": () =>
            driver.graphExecUpdate(exec, graphOf({ ...copy, destination: rowsAt(to + 4n) })),
          "with another pitch": () =>
            driver.graphExecUpdate(exec, graphOf({ ...copy, source: rowsAt(from, { pitch: 20 }) })),
          "with fewer rows": () => driver.graphExecUpdate(exec, graphOf({ ...copy, height: 1 })),
          "by one row": () => driver.graphExecUpdate(exec, graphOf({ ...copy, height: 1, depth: 1 })),
          "its node given a copy in one dimension": () => driver.graphExecMemcpyNodeSetParams(0, exec, node!, single),
          launch: () => driver.graphLaunch(0, exec, stream),
          wait: () => driver.streamSynchronize(0, stream),
        }),
        bytes: readBytes(driver, 0, to, 32),
      };
    },
  },
  {
    name: "an executable graph of a fill of rows updated",
    run({ driver }) {
      const { stream, address } = prepare(driver);
      const graphOf = (to: bigint, value: number, height: number) => {
        driver.streamBeginCapture(0, stream, streamCaptureMode.relaxed);
        driver.memsetD2D8Async(0, to, 8, value, 2, height, stream);
        return driver.streamEndCapture(0, stream);
      };
      const exec = driver.graphInstantiate(graphOf(address, 1, 2), 0);
      return {
        ...attemptEach({
          "with the same": () => driver.graphExecUpdate(exec, graphOf(address, 1, 2)),
          "with another value": () => driver.graphExecUpdate(exec, graphOf(address, 2, 2)),
          "with another address": () => driver.graphExecUpdate(exec, graphOf(address + 4n, 2, 2)),
          "with more rows": () => driver.graphExecUpdate(exec, graphOf(address, 2, 3)),
          launch: () => driver.graphLaunch(0, exec, stream),
          wait: () => driver.streamSynchronize(0, stream),
        }),
        bytes: readBytes(driver, 0, address, Math.min(24, partsByteLength)),
      };
    },
  },
  {
    name: "a batch of copies, and its attributes",
    run: ({ driver }) =>
      attemptBatches(driver, {
        "of two": ({ from, to }) => batchOf(from, to),
        "of one": ({ from, to }) => batchOf(from, to, 1),
        "of none": () => [],
        "of no bytes": ({ from, to }) => batchOf(from, to).map((copy) => ({ ...copy, byteLength: 0 })),
        "of which one has no bytes": ({ from, to }) =>
          batchOf(from, to).map((copy, index) => index === 0 ? { ...copy, byteLength: 0 } : copy),
        "in any order": ({ from, to }) =>
          batchOf(from, to, 2, { ...inOrder, sourceAccessOrder: sourceAccessOrder.any }),
        "during the call": ({ from, to }) =>
          batchOf(from, to, 2, { ...inOrder, sourceAccessOrder: sourceAccessOrder.duringCall }),
        "in an unknown order": ({ from, to }) => batchOf(from, to, 2, { ...inOrder, sourceAccessOrder: 4 }),
        "without an order": ({ from, to }) => batchOf(from, to, 2, { ...inOrder, sourceAccessOrder: 0 }),
        "overlapping with kernels": ({ from, to }) =>
          batchOf(from, to, 2, { ...inOrder, preferOverlapWithCompute: true }),
        "with different attributes": ({ from, to }) =>
          batchOf(from, to).map((copy, index) => ({
            ...copy,
            attributes: { sourceAccessOrder: index + 1, preferOverlapWithCompute: index === 1 },
          })),
      }),
  },
  {
    name: "a batch of copies on a default stream",
    run({ driver }) {
      const { from, to } = prepareMemory(driver);
      return attemptEach({
        copy: () => driver.memcpyBatchAsync(0, batchOf(from, to), defaultStream),
        wait: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "a batch of copies on a blocking stream",
    run({ driver }) {
      const { from, to } = prepareMemory(driver);
      const stream = driver.streamCreateWithPriority(0, streamFlags.default, 0);
      driver.memcpyBatchAsync(0, batchOf(from, to), stream);
      return readBytes(driver, 0, to, 12);
    },
  },
  {
    name: "batches of one copy between any two kinds of memory",
    run: ({ driver }) => {
      const stream = createStream(driver);
      const extents = { width: 16, height: 1, depth: 1 };
      return Object.fromEntries(
        Object.entries(places).map(([from, createFrom]) => [
          from,
          Object.fromEntries(
            Object.entries(places).map(([to, createTo]) => {
              const copy = ({ source, destination }: PitchedCopy) => {
                const single = { source: source.memory, destination: destination.memory, byteLength: 16 };
                driver.memcpyBatchAsync(0, [{ ...single, attributes: inOrder }], stream);
              };
              return [to, tryCopy(driver, [createFrom(driver, 1), createTo(driver, 1)], copy, extents)];
            }),
          ),
        ]),
      );
    },
  },
  {
    name: "a batch with a copy from where no allocation is",
    run: ({ driver }) =>
      attemptBatches(driver, {
        "the second source": ({ from, to }) =>
          batchOf(from, to).map((copy, index) => index === 1 ? { ...copy, source: 0n } : copy),
      }),
  },
  {
    name: "page-locked memory changed after a batch of copies from it was given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = createStream(driver);
      const { to } = prepareMemory(driver);
      const source = new Uint8Array(driver.hostAlloc(64).buffer).fill(1);
      keepBusy(stream);
      driver.memcpyBatchAsync(0, [{ source, destination: to, byteLength: 4, attributes: inOrder }], stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, to, 4);
    },
  },
  {
    name: "a batch that reads page-locked memory during the call given to a busy stream: which bytes arrive",
    run({ driver }) {
      const { keepBusy } = prepareLongWork(driver, 0);
      const stream = createStream(driver);
      const { to } = prepareMemory(driver);
      const source = new Uint8Array(driver.hostAlloc(64).buffer).fill(1);
      const attributes = { ...inOrder, sourceAccessOrder: sourceAccessOrder.duringCall };
      keepBusy(stream);
      driver.memcpyBatchAsync(0, [{ source, destination: to, byteLength: 4, attributes }], stream);
      source.fill(2);
      driver.streamSynchronize(0, stream);
      return readBytes(driver, 0, to, 4);
    },
  },
  {
    name: "rows filled with values of 8, 16 and 32 bits: what is in memory then",
    run: ({ driver }) =>
      Object.fromEntries(fillNames.map((name) => {
        const address = driver.malloc(0, 40);
        driver.memsetAsync(0, address, 0, 40, defaultStream);
        driver[name](0, address, 16, fills[name].value, 2, 2, defaultStream);
        driver[name](0, address + 32n, 4, fills[name].value, 1, 2, defaultStream);
        return [name, readBytes(driver, 0, address, 40)];
      })),
  },
  {
    name: "rows filled with values of 8 and 16 bits: addresses, pitches and counts that are wrong",
    run({ driver }) {
      const address = driver.malloc(0, 64);
      return attemptEach({
        "memsetD2D16Async + 1": () => driver.memsetD2D16Async(0, address + 1n, 8, 1, 1, 2, defaultStream),
        "memsetD2D16Async, a pitch of 5": () => driver.memsetD2D16Async(0, address, 5, 1, 1, 2, defaultStream),
        "memsetD2D16Async, a pitch below the width": () =>
          driver.memsetD2D16Async(0, address, 2, 1, 2, 2, defaultStream),
        "memsetD2D8Async, a pitch of 5": () => driver.memsetD2D8Async(0, address, 5, 1, 1, 2, defaultStream),
        "memsetD2D8Async, a pitch below the width": () => driver.memsetD2D8Async(0, address, 1, 1, 2, 2, defaultStream),
        "memsetD2D8Async, one row and a pitch of 0": () =>
          driver.memsetD2D8Async(0, address, 0, 1, 2, 1, defaultStream),
        "memsetD2D16Async, one row and a pitch of 0": () =>
          driver.memsetD2D16Async(0, address, 0, 1, 2, 1, defaultStream),
        "memsetD2D16Async, one row and an odd pitch": () =>
          driver.memsetD2D16Async(0, address, 5, 1, 2, 1, defaultStream),
        "memsetD2D8Async, no rows": () => driver.memsetD2D8Async(0, address, 8, 1, 2, 0, defaultStream),
        "memsetD2D8Async, no values": () => driver.memsetD2D8Async(0, address, 8, 1, 0, 2, defaultStream),
        "memsetD2D16Async, no rows at + 1": () => driver.memsetD2D16Async(0, address + 1n, 8, 1, 2, 0, defaultStream),
      });
    },
  },
  {
    name: "rows filled that end at, and past, the end of an allocation of 2 MiB",
    run({ driver }) {
      const address = driver.malloc(0, 2 * mebibyte);
      const rows = 2 * mebibyte / 1024;
      return attemptEach({
        "ends at the end": () => driver.memsetD2D8Async(0, address + 1020n, 1024, 1, 4, rows, defaultStream),
        "ends a byte past it": () => driver.memsetD2D8Async(0, address + 1021n, 1024, 1, 4, rows, defaultStream),
        "ends a row past it": () => driver.memsetD2D8Async(0, address + 1020n, 1024, 1, 4, rows + 1, defaultStream),
        "with a pitch of 4 GiB, one row": () => driver.memsetD2D8Async(0, address, 2 ** 32, 1, 4, 1, defaultStream),
        "with a pitch of 4 GiB, two rows": () => driver.memsetD2D8Async(0, address, 2 ** 32, 1, 4, 2, defaultStream),
        wait: () => driver.deviceSynchronize(0),
      });
    },
  },
  {
    name: "rows of page-locked memory filled by its address",
    run({ driver }) {
      const host = driver.hostAlloc(64);
      const address = driver.hostGetDevicePointer(host);
      const bytes = new Uint8Array(host.buffer).fill(0);
      const answers = attemptEach({
        rows: () => driver.memsetD2D8Async(0, address, 16, 1, 2, 2, defaultStream),
        bytes: () => driver.memsetAsync(0, address + 40n, 2, 4, defaultStream),
        words: () => driver.memsetD32Async(0, address + 48n, 3, 1, defaultStream),
        wait: () => driver.streamSynchronize(0, defaultStream),
      });
      return { ...answers, memory: [...bytes] };
    },
  },
  {
    name:
      "the addresses of pool memory of several sizes: the largest power of 2, at most 512, that divides all of them",
    run({ driver }) {
      const pool = createPool(driver);
      const all = [1, 16, 100, 512, 513, 1000, 4096, 5000].map((byteLength) =>
        driver.mallocFromPoolAsync(0, byteLength, pool, defaultStream)
      ).reduce((bits, address) => bits | address, 0n);
      return Number([512n, 256n, 128n, 64n].find((alignment) => all % alignment === 0n) ?? 1n);
    },
  },
];
