/**
 * For those who operate a machine: the status of exporters and stores in other processes, and metrics of this one, as
 * `mod.ts` exports them.
 *
 * @example
 * ```ts
 * import { Operator } from "./operators.ts";
 * import { Exporter } from "./sharing.ts";
 *
 * await using exporter = Exporter.listen("/tmp/frames.sock"); // usually in another process
 *
 * await using operator = await Operator.connect("/tmp/frames.sock");
 * const status = await operator.status();
 * if (status.kind === "exporter") console.log("exporter", status.offers.length); // exporter 0
 * ```
 *
 * @module
 */
export {
  type CommonStatus,
  type EventRefusal,
  type ExporterStatus,
  type HolderStatus,
  type ImportRefusal,
  type LeftOut,
  type ListenerStatus,
  type OfferStatus,
  Operator,
  type OperatorOptions,
  type ProcessStatus,
  prometheusText,
  type RefusalStatistics,
  refusalStatistics,
  type StoreEntryState,
  type StoreEntryStatus,
  type StoreLimits,
  type StoreStatistics,
  type StoreStatus,
} from "./mod.ts";
