/**
 * The messages of the sharing protocol. PROTOCOL.md specifies the encoding of each message.
 *
 * @module
 */
import { SharingError, type SharingErrorCode } from "../../support/errors.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";

/** The versions of the protocol that this implementation supports. */
export const protocolVersions = { lowest: 1, highest: 3 } as const;
/** The minimum protocol version in which POOL may announce a `PhysicalMemory`. */
export const memoryVersion = 2;
/** The minimum protocol version in which an importer may request the handle of an announced pool again. */
export const requestHandleVersion = 3;

/** Formats a range of versions for an error message, such as "versions 1 to 2". */
export function versionsText(lowest: number, highest: number): string {
  return lowest === highest ? `version ${lowest}` : `versions ${lowest} to ${highest}`;
}

/** The reasons for closing a connection, in the order of their numbers in GOODBYE. */
export const goodbyeReasons = [
  "done",
  "version-mismatch",
  "not-permitted",
  "bad-message",
  "timed-out",
  "cut-off",
  "limit-exceeded",
  "device-lost",
  "out-of-resources",
  "not-released",
  "internal-error",
] as const;

/** The reason for closing a connection. */
export type GoodbyeReason = typeof goodbyeReasons[number];

/** The maximum length of a message's body in bytes. */
export const maximumBodyByteLength = 65_536;
/** The maximum length of an offer's name in bytes of UTF-8. */
export const maximumNameByteLength = 255;
/** The maximum length of metadata in bytes of UTF-8, as JSON. */
export const maximumMetadataByteLength = 32_768;
/** The maximum number of bytes of a document that one message carries. */
export const maximumPartByteLength: number = maximumBodyByteLength - 8;
/** The maximum length of a GOODBYE's text in bytes of UTF-8. */
export const maximumGoodbyeTextByteLength = 1024;
/** The maximum number of slots of a channel. */
export const maximumSlots = 1024;
/** The default maximum number of bytes of names and metadata of all offers of an exporter. */
export const defaultMaximumMetadata: number = 64 * 2 ** 20;
/**
 * The maximum number of offers of an exporter at a time. The same maximum applies to announced allocations and to
 * announced events.
 */
export const maximumIdentifiers = 65_536;
/** The maximum number of events that an importer may announce. */
export const maximumImporterEvents = 1024;

/**
 * The roles of connecting processes other than importers, in the order of their numbers in HELLO, which start at 1. The
 * number 0 stands for an importer.
 */
export const connectionRoles = ["operator", "store-client", "standby"] as const;

/**
 * The role of a connecting process that is not an importer: `"operator"` reads the status of a listener,
 * `"store-client"` uses a store, and `"standby"` backs up a store.
 */
export type ConnectionRole = typeof connectionRoles[number];

/** The first message of the connecting side. */
export interface HelloMessage {
  readonly type: "hello";
  readonly lowestVersion: number;
  readonly highestVersion: number;
  /** The role of the connecting process; undefined for an importer. */
  readonly role?: ConnectionRole;
}

/** The first message of the listening side. */
export interface WelcomeMessage {
  readonly type: "welcome";
  readonly version: number;
}

/** The last message of either side. */
export interface GoodbyeMessage {
  readonly type: "goodbye";
  readonly reason: GoodbyeReason;
  readonly lowestVersion: number;
  readonly highestVersion: number;
  readonly text: string;
}

/** Announces a pool, or a `PhysicalMemory`, that later offers refer to. */
export interface PoolMessage {
  readonly type: "pool";
  readonly pool: number;
  readonly kind: "device" | "host" | "memory";
  /** The UUID of the device, 16 bytes; all zero for host memory. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /**
   * The handle of the memory. The sender still owns the passed handle; the receiver must dispose of the received
   * handle.
   */
  readonly handle: ShareableHandle;
}

/** Answers `RequestHandleMessage`. */
export interface PoolHandleMessage {
  readonly type: "pool-handle";
  readonly pool: number;
  /** A random number that the next request must repeat, which proves that the importer has read this message. */
  readonly token: number;
  /**
   * The handle of the memory. The sender still owns the passed handle; the receiver must dispose of the received
   * handle.
   */
  readonly handle: ShareableHandle;
}

/** Requests the handle of an announced pool. Sent by an importer that has closed it to save descriptors. */
export interface RequestHandleMessage {
  readonly type: "request-handle";
  readonly pool: number;
  /** The token of the last `PoolHandleMessage`; 0 in the first request of a connection. */
  readonly token: number;
}

/** Announces an allocation that later offers refer to. */
export interface AllocationMessage {
  readonly type: "allocation";
  readonly allocation: number;
  readonly pool: number;
  readonly byteLength: number;
  /** CUDA's export data of the allocation, 64 bytes; all zero if the pool is a `PhysicalMemory`. */
  readonly exportData: Uint8Array<ArrayBuffer>;
}

/** Announces an interprocess event of the sender. */
export interface EventMessage {
  readonly type: "event";
  readonly event: number;
  /** The UUID of the device, 16 bytes. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /** The interprocess handle of the event, 64 bytes. */
  readonly handle: Uint8Array<ArrayBuffer>;
}

/** Announces memory that the importer may map. */
export interface OfferMessage {
  readonly type: "offer";
  readonly offer: number;
  readonly kind: "buffer" | "pool" | "channel";
  /** The identifier of the allocation. For a whole pool, `allocation`, `byteOffset` and `byteLength` are 0. */
  readonly allocation: number;
  readonly pool: number;
  readonly byteOffset: number;
  readonly byteLength: number;
  /**
   * The identifier of the event that must fire before the memory may be read; 0 if the memory may be read immediately.
   */
  readonly readyEvent: number;
  readonly name: string;
  /** The metadata as JSON; empty if there is none. */
  readonly metadata: string;
}

/** Describes how the memory of the preceding offer is divided into slots. */
export interface ChannelMessage {
  readonly type: "channel";
  readonly offer: number;
  readonly slotByteLength: number;
  readonly slotStride: number;
  /** The maximum number of frames that an importer may hold; the number of slots if no frames are dropped. */
  readonly window: number;
  /** The identifier of each slot's ready event. */
  readonly readyEvents: readonly number[];
}

/** A message about an offer, without further fields. */
export interface OfferNotice {
  readonly type: "withdraw" | "recall" | "end" | "held" | "withdrawn";
  readonly offer: number;
}

/** Requests that the frames of a channel be sent to the importer. */
export interface JoinMessage {
  readonly type: "join";
  readonly offer: number;
}

/** States that the identifier of a pool, allocation or event is no longer used and may be announced again. */
export interface ForgetMessage {
  readonly type: "forget";
  readonly kind: "pool" | "allocation" | "event";
  readonly identifier: number;
}

/** Requests the answer FIRED once an event of the receiver has fired. Sent if the sender cannot open the event. */
export interface WaitMessage {
  readonly type: "wait";
  readonly event: number;
}

/** States that an event of the sender has fired since it was last recorded. */
export interface FiredMessage {
  readonly type: "fired";
  readonly event: number;
}

/** States that the exporter no longer queries an event of the importer, so that the event may be recorded again. */
export interface EventFreeMessage {
  readonly type: "event-free";
  readonly event: number;
}

/** Announces a frame that was written, or is being written, to a slot of a channel. */
export interface FrameMessage {
  readonly type: "frame";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  readonly byteLength: number;
  /** Whether the slot's ready event must fire before the frame may be read. */
  readonly hasEvent: boolean;
  /** The metadata as JSON; empty if there is none. */
  readonly metadata: string;
}

/** States that the importer has released an offer that it had mapped or imported. */
export interface ReleasedMessage {
  readonly type: "released";
  readonly offer: number;
  /**
   * The identifier of the event that fires when the importer's work with the memory is done; 0 if the work is done
   * already.
   */
  readonly event: number;
}

/** States that the importer has released a frame. */
export interface ReleaseSlotMessage {
  readonly type: "release-slot";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  /**
   * The identifier of the event that fires when the importer's work with the frame is done; 0 if the work is done
   * already.
   */
  readonly event: number;
}

/** A part of a document. The document is a request ("ask") or an answer. */
export interface DocumentMessage {
  readonly type: "ask" | "answer";
  /** The number of the request, chosen by its sender. */
  readonly request: number;
  /** The number of the document's bytes that follow in later messages. */
  readonly remaining: number;
  /** Bytes of the document, which is JSON in UTF-8. A part may begin or end within a character. */
  readonly part: Uint8Array<ArrayBuffer>;
}

/**
 * Carries the handle of shared memory. The document that refers to the memory follows in later messages with the same
 * request number.
 */
export interface MemoryMessage {
  readonly type: "memory";
  readonly request: number;
  /**
   * The handle of the memory. The sender still owns the passed handle; the receiver must dispose of the received
   * handle.
   */
  readonly handle: ShareableHandle;
}

/** Any message of the protocol. */
export type Message =
  | HelloMessage
  | WelcomeMessage
  | GoodbyeMessage
  | PoolMessage
  | PoolHandleMessage
  | RequestHandleMessage
  | AllocationMessage
  | EventMessage
  | WaitMessage
  | FiredMessage
  | OfferMessage
  | ChannelMessage
  | OfferNotice
  | JoinMessage
  | ForgetMessage
  | EventFreeMessage
  | FrameMessage
  | ReleasedMessage
  | ReleaseSlotMessage
  | DocumentMessage
  | MemoryMessage;

/** Returns the error code that represents the reason of a peer's GOODBYE. */
export function codeOfGoodbye(reason: Exclude<GoodbyeReason, "done">): SharingErrorCode {
  // These two reasons describe problems of the peer itself. For this process, they only mean that the peer is gone.
  return reason === "out-of-resources" || reason === "not-released" ? "peer-gone" : reason;
}

/** Returns the reason to state in the GOODBYE that reports an error to the peer. */
export function reasonOfError({ code }: SharingError): GoodbyeReason {
  switch (code) {
    case "out-of-descriptors":
      return "out-of-resources";
    case "device-not-visible":
      // The peer sent a message that refers to a device that is not visible to this process.
      return "bad-message";
    default:
      return goodbyeReasons.find((reason) => reason === code) ?? "internal-error";
  }
}

/**
 * Returns the error for a peer that exceeds a limit.
 *
 * @param exceeding the refused operation, such as `"accept another pool of process 12"`
 * @param limit the limit with its value, such as `"256 pools of an exporter"`, and the option that sets it, if any
 */
export function limitExceeded(exceeding: string, limit: string): SharingError {
  return new SharingError("limit-exceeded", `Cannot ${exceeding}: the limit is ${limit}`);
}

/** Returns the error for a peer's message that violates the protocol. `what` describes the violation. */
export function badMessage(what: string): SharingError {
  return new SharingError("bad-message", `Cannot continue the connection: ${what}`);
}

/** Returns whether a message is sent together with a descriptor. */
export function hasHandle(message: Message): message is PoolMessage | PoolHandleMessage | MemoryMessage {
  return message.type === "pool" || message.type === "memory" || message.type === "pool-handle";
}
