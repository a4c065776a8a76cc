/**
 * The importing process of poolpass: maps what it receives, acknowledges that, and frees it, until the process that
 * started it ends.
 *
 * @module
 */
import {
  type CudaStream,
  type DeviceBuffer,
  type ImportedMemoryPool,
  Importer,
  open,
  SharingError,
  UnixSocket,
} from "../../mod.ts";
import { acknowledge, type Job, numberByteLength, pointerByteLength, receiveJob } from "./control.ts";

const [folder] = Deno.args;
await using control = await UnixSocket.connect(`${folder}/control.sock`);
using cuda = open();
const device = cuda.device(0);
using stream: CudaStream = device.createStream({ nonBlocking: true });
await using importer = await Importer.connect(cuda, `${folder}/exporter.sock`);
const { handles } = await control.receive(1, { handles: 1 });
using pool: ImportedMemoryPool = device.importPool(handles[0]!);

async function mapPointers({ work, repetitions, byteLength }: Job): Promise<void> {
  for (let i = 0; i < repetitions; i++) {
    const { bytes } = await control.receive(pointerByteLength);
    const buffer = pool.importPointer(bytes, byteLength);
    buffer.free(stream);
    if (work === "share-one-asked") await stream.finished();
    else stream.synchronize();
    await acknowledge(control);
  }
}

async function mapOffers({ repetitions }: Job): Promise<void> {
  const offers = importer.offers();
  for (let i = 0; i < repetitions; i++) {
    const buffer = await mapNext(offers);
    buffer.free();
  }
  await offers.return();
}

async function mapSlabs({ repetitions, byteLength, count }: Job): Promise<void> {
  for (let i = 0; i < repetitions; i++) {
    const { bytes } = await control.receive(pointerByteLength + (1 + count) * numberByteLength);
    const [slabByteLength, ...offsets] = new Float64Array(bytes.buffer, pointerByteLength);
    const slab = pool.importPointer(bytes.subarray(0, pointerByteLength), slabByteLength!);
    const buffers: DeviceBuffer[] = [];
    for (const offset of offsets) buffers.push(slab.subarray(offset, offset + byteLength));
    await acknowledge(control);
    checkBuffers(buffers, byteLength);
    slab.free(stream);
    stream.synchronize();
    // The mapping must be freed before the exporter frees the memory.
    await acknowledge(control);
  }
}

async function mapManyOffers({ repetitions, byteLength, count }: Job): Promise<void> {
  const offers = importer.offers();
  for (let i = 0; i < repetitions; i++) {
    const buffers: DeviceBuffer[] = [];
    while (buffers.length < count) buffers.push(await mapNext(offers));
    await acknowledge(control);
    checkBuffers(buffers, byteLength);
    for (const buffer of buffers) buffer.free();
  }
  await offers.return();
}

async function mapNext(offers: ReturnType<Importer["offers"]>): Promise<DeviceBuffer> {
  const { value: offer } = await offers.next();
  if (offer === undefined) throw new SharingError("peer-gone", "The exporter has closed");
  return await offer.map({ stream });
}

/** Throws unless each buffer has a distinct address and the right size. */
function checkBuffers(buffers: readonly DeviceBuffer[], byteLength: number): void {
  const addresses = new Set(buffers.map(({ address }) => address));
  const areRight = addresses.size === buffers.length && buffers.every((buffer) => buffer.byteLength === byteLength);
  if (!areRight) throw new Error("The mapped buffers are not the shared ones");
}

const works = {
  "share-one": mapPointers,
  "share-one-asked": mapPointers,
  "share-one-offer": mapOffers,
  "share-thousand": mapSlabs,
  "share-thousand-offer": mapManyOffers,
};
try {
  for (;;) {
    const job = await receiveJob(control);
    await works[job.work](job);
  }
} catch (error) {
  if (!(error instanceof SharingError && error.code === "peer-gone")) throw error;
}
