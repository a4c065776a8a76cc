/**
 * Memory that several processes use, and channels of frames between them: what `mod.ts` exports for sharing, and
 * nothing else. `mod.ts` has the objects to share and to share with, from `open` on.
 *
 * @example
 * ```ts
 * import { open } from "./mod.ts";
 * import { Exporter, Importer } from "./sharing.ts";
 *
 * using cuda = open();
 * using stream = cuda.device(0).createStream();
 * using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
 * using weights = pool.allocateArray(Float32Array, 3);
 * weights.copyFrom(Float32Array.of(1, 2, 3));
 * await using exporter = Exporter.listen("/tmp/weights.sock");
 * exporter.offer("weights", weights);
 *
 * await using importer = await Importer.connect(cuda, "/tmp/weights.sock"); // usually in another process
 * const offer = await importer.offer("weights");
 * using mapped = await offer.map({ stream });
 * console.log(await mapped.read(Float32Array)); // 1, 2, 3
 * ```
 *
 * @module
 */
export {
  ChannelConsumer,
  type ChannelOptions,
  ChannelProducer,
  type ChannelStatistics,
  type ConsumerOptions,
  type ConsumerStatistics,
  Exporter,
  type ExporterOptions,
  type ExporterStatistics,
  ImportedMemoryPool,
  Importer,
  type ImporterOptions,
  type JsonValue,
  Lease,
  type LeaseState,
  type LeaseStatistics,
  type ListenOptions,
  type MapOptions,
  Offer,
  type OfferOptions,
  type Peer,
  type RecallOptions,
  type Received,
  ReceivedSlot,
  type ReceiveOptions,
  RemoteOffer,
  type SendFrameOptions,
  type SendOptions,
  ShareableHandle,
  SharingError,
  type SharingErrorCode,
  Slot,
  type TrafficStatistics,
  UnixListener,
  UnixSocket,
} from "./mod.ts";
