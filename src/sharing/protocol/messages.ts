/**
 * The messages between exporters and importers. PROTOCOL.md describes each message byte for byte.
 *
 * @module
 */
import { SharingError, type SharingErrorCode } from "../../support/errors.ts";
import type { ShareableHandle } from "../../memory/handles/shareable_handle.ts";

/** The versions of the protocol that this implementation knows. */
export const protocolVersions = { lowest: 1, highest: 2 } as const;
/** The version from which on a POOL may be a piece of virtual memory. */
export const memoryVersion = 2;

/** Versions in the message of an error, such as "versions 1 to 2". */
export function versionsText(lowest: number, highest: number): string {
  return lowest === highest ? `version ${lowest}` : `versions ${lowest} to ${highest}`;
}

/** The reasons for ending a connection, in the order of their numbers. */
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

/** The reason for ending a connection. */
export type GoodbyeReason = typeof goodbyeReasons[number];

/** The maximum length of a message's body in bytes. */
export const maximumBodyByteLength = 65_536;
/** The maximum length of an offer's name in bytes of UTF-8. */
export const maximumNameByteLength = 255;
/** The maximum length of metadata in bytes of UTF-8, as JSON. */
export const maximumMetadataByteLength = 32_768;
/** The maximum number of bytes of a document in one message. */
export const maximumPartByteLength: number = maximumBodyByteLength - 8;
/** The maximum length of a GOODBYE's text in bytes of UTF-8. */
export const maximumGoodbyeTextByteLength = 1024;
/** The maximum number of slots of a channel. */
export const maximumSlots = 1024;
/** The maximum number of bytes of names and metadata of all offers of an exporter, unless an application sets another. */
export const defaultMaximumMetadata: number = 64 * 2 ** 20;
/** The maximum number of offers of an exporter at a time, and of events of either side. */
export const maximumIdentifiers = 65_536;
/** The maximum number of events that an importer announces. */
export const maximumImporterEvents = 1024;

/**
 * The roles of connecting processes other than importers, in the order of their numbers, which begin at 1. An importer
 * is 0.
 */
export const connectionRoles = ["operator", "store-client", "standby"] as const;

/** The role of a connecting process: to read the status of a listener, to use a store, or to back up a store. */
export type ConnectionRole = typeof connectionRoles[number];

/** The first message of the side that connects. */
export interface HelloMessage {
  readonly type: "hello";
  readonly lowestVersion: number;
  readonly highestVersion: number;
  /** Undefined for an importer. */
  readonly role?: ConnectionRole;
}

/** The exporter's first message. */
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

/** Announces a pool that offers will belong to, or a piece of virtual memory. */
export interface PoolMessage {
  readonly type: "pool";
  readonly pool: number;
  readonly kind: "device" | "host" | "memory";
  /** 16 bytes; all zero for host memory. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /** Borrowed by the sender; the receiver must dispose of it. */
  readonly handle: ShareableHandle;
}

/** Announces an allocation that offers will lie in. */
export interface AllocationMessage {
  readonly type: "allocation";
  readonly allocation: number;
  readonly pool: number;
  readonly byteLength: number;
  /** 64 bytes; all zero if the pool is a piece of virtual memory. */
  readonly exportData: Uint8Array<ArrayBuffer>;
}

/** Announces an interprocess event of the sender. */
export interface EventMessage {
  readonly type: "event";
  readonly event: number;
  /** 16 bytes. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /** 64 bytes. */
  readonly handle: Uint8Array<ArrayBuffer>;
}

/** Announces memory that the importer may map. */
export interface OfferMessage {
  readonly type: "offer";
  readonly offer: number;
  readonly kind: "buffer" | "pool" | "channel";
  /** 0 for a whole pool, as are `byteOffset` and `byteLength`. */
  readonly allocation: number;
  readonly pool: number;
  readonly byteOffset: number;
  readonly byteLength: number;
  /** 0 if the memory may be read immediately. */
  readonly readyEvent: number;
  readonly name: string;
  /** JSON, or empty if there is none. */
  readonly metadata: string;
}

/** Describes how the memory of the preceding offer is divided into slots. */
export interface ChannelMessage {
  readonly type: "channel";
  readonly offer: number;
  readonly slotByteLength: number;
  readonly slotStride: number;
  /** The maximum number of frames that an importer holds: the number of slots if no frames are dropped. */
  readonly window: number;
  /** The event of each slot. */
  readonly readyEvents: readonly number[];
}

/** Messages whose only field is an offer. */
export interface OfferNotice {
  readonly type: "withdraw" | "recall" | "end" | "held" | "withdrawn";
  readonly offer: number;
}

/** The importer requests the frames of a channel. */
export interface JoinMessage {
  readonly type: "join";
  readonly offer: number;
}

/** An identifier is no longer used. */
export interface ForgetMessage {
  readonly type: "forget";
  readonly kind: "pool" | "allocation" | "event";
  readonly identifier: number;
}

/** Asks for FIRED about an event of the receiver, which the sender cannot open. */
export interface WaitMessage {
  readonly type: "wait";
  readonly event: number;
}

/** The latest record of an event of the sender has fired. */
export interface FiredMessage {
  readonly type: "fired";
  readonly event: number;
}

/** One of the importer's events may be recorded again. */
export interface EventFreeMessage {
  readonly type: "event-free";
  readonly event: number;
}

/** A frame was written, or is being written, to a slot of a channel. */
export interface FrameMessage {
  readonly type: "frame";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  readonly byteLength: number;
  /** Whether the slot's ready event must fire before the frame may be read. */
  readonly hasEvent: boolean;
  /** JSON, or empty if there is none. */
  readonly metadata: string;
}

/** The importer stops using an offer. */
export interface ReleasedMessage {
  readonly type: "released";
  readonly offer: number;
  /** 0 if all work with it is done. */
  readonly event: number;
}

/** The importer stops using a frame. */
export interface ReleaseSlotMessage {
  readonly type: "release-slot";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  /** 0 if all work with it is done. */
  readonly event: number;
}

/** A part of a document: of a request, or of an answer. */
export interface DocumentMessage {
  readonly type: "ask" | "answer";
  /** The sender's number of the request. */
  readonly request: number;
  /** The number of bytes of the document that follow in further messages. */
  readonly remaining: number;
  /** Bytes of JSON in UTF-8. They may begin and end within a character. */
  readonly part: Uint8Array<ArrayBuffer>;
}

/** Memory that the document with the same number, which follows, is about. */
export interface MemoryMessage {
  readonly type: "memory";
  readonly request: number;
  /** Borrowed by the sender; the receiver must dispose of it. */
  readonly handle: ShareableHandle;
}

/** Any message of the protocol. */
export type Message =
  | HelloMessage
  | WelcomeMessage
  | GoodbyeMessage
  | PoolMessage
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

/** The error code that represents the reason of a peer's GOODBYE. */
export function codeOfGoodbye(reason: Exclude<GoodbyeReason, "done">): SharingErrorCode {
  // The peer ended the connection because of its own state: for this process, it is gone.
  return reason === "out-of-resources" || reason === "not-released" ? "peer-gone" : reason;
}

/** The reason of the GOODBYE that reports an error of this process to the peer. */
export function reasonOfError({ code }: SharingError): GoodbyeReason {
  switch (code) {
    case "out-of-descriptors":
      return "out-of-resources";
    case "device-not-visible":
      // The peer used a device that the two processes do not share.
      return "bad-message";
    default:
      return goodbyeReasons.find((reason) => reason === code) ?? "internal-error";
  }
}

/**
 * The error for what exceeds a limit on peers.
 *
 * @param exceeding what cannot be done, such as `"accept another pool of process 12"`
 * @param limit the limit with its value, such as `"256 pools of an exporter"`, and the option that sets it, if any
 */
export function limitExceeded(exceeding: string, limit: string): SharingError {
  return new SharingError("limit-exceeded", `Cannot ${exceeding}: the limit is ${limit}`);
}

/** The error for a peer's message that breaks a rule of the protocol. */
export function badMessage(what: string): SharingError {
  return new SharingError("bad-message", `Cannot continue the connection: ${what}`);
}
