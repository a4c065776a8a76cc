/**
 * What exporters and importers say to each other. PROTOCOL.md has each message byte for byte.
 *
 * @module
 */
import { SharingError, type SharingErrorCode } from "../../support/errors.ts";
import type { ShareableHandle } from "../../memory/shareable_handle.ts";

/** The version of the protocol that is spoken here; no other is known. */
export const protocolVersion = 1;

/** Why a connection is ended, in the order of their numbers. */
export const goodbyeReasons = [
  "done",
  "version-mismatch",
  "not-permitted",
  "bad-message",
  "timed-out",
  "cut-off",
  "full",
  "failed",
] as const;

/** Why a connection is ended. */
export type GoodbyeReason = typeof goodbyeReasons[number];

/** Bytes: no body of a message is longer. */
export const maximumBodyByteLength = 65_536;
/** Bytes of an offer's name in UTF-8. */
export const maximumNameByteLength = 255;
/** Bytes of metadata as JSON in UTF-8. */
export const maximumMetadataByteLength = 32_768;
/** Slots of a channel. */
export const maximumSlots = 1024;
/** Offers that an exporter has at a time, and events that either end has told of. */
export const maximumIdentifiers = 65_536;

/** The importer's first message. */
export interface HelloMessage {
  readonly type: "hello";
  readonly lowestVersion: number;
  readonly highestVersion: number;
}

/** The exporter's first message. */
export interface WelcomeMessage {
  readonly type: "welcome";
  readonly version: number;
}

/** The last message of either. */
export interface GoodbyeMessage {
  readonly type: "goodbye";
  readonly reason: GoodbyeReason;
  readonly lowestVersion: number;
  readonly highestVersion: number;
  readonly text: string;
}

/** A pool that offers will be in. */
export interface PoolMessage {
  readonly type: "pool";
  readonly pool: number;
  readonly kind: "device" | "host";
  /** 16 bytes; zeros for host memory. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /** Borrowed by whoever sends it; the receiver's to dispose of. */
  readonly handle: ShareableHandle;
}

/** Memory of a pool that offers will lie in. */
export interface AllocationMessage {
  readonly type: "allocation";
  readonly allocation: number;
  readonly pool: number;
  readonly byteLength: number;
  /** 64 bytes. */
  readonly exportData: Uint8Array<ArrayBuffer>;
}

/** An interprocess event of the sender's. */
export interface EventMessage {
  readonly type: "event";
  readonly event: number;
  /** 16 bytes. */
  readonly deviceUuid: Uint8Array<ArrayBuffer>;
  /** 64 bytes. */
  readonly handle: Uint8Array<ArrayBuffer>;
}

/** Something that may be mapped. */
export interface OfferMessage {
  readonly type: "offer";
  readonly offer: number;
  readonly kind: "buffer" | "pool" | "channel";
  /** 0 for a whole pool, as are `byteOffset` and `byteLength`. */
  readonly allocation: number;
  readonly pool: number;
  readonly byteOffset: number;
  readonly byteLength: number;
  /** 0 where the memory may be read at once. */
  readonly readyEvent: number;
  readonly name: string;
  /** JSON, or empty where there are none. */
  readonly metadata: string;
}

/** How the memory of the offer that came before is divided into slots. */
export interface ChannelMessage {
  readonly type: "channel";
  readonly offer: number;
  readonly slotByteLength: number;
  readonly slotStride: number;
  /** As many frames may be sent that were not taken; the number of slots where importers need not say so. */
  readonly window: number;
  /** One for each slot. */
  readonly readyEvents: readonly number[];
}

/** Messages that say something of one offer, and nothing else. */
export interface OfferNotice {
  readonly type: "withdraw" | "recall" | "end" | "held" | "withdrawn";
  readonly offer: number;
}

/** The importer wants the frames of a channel. */
export interface JoinMessage {
  readonly type: "join";
  readonly offer: number;
}

/** An identifier is not used any more. */
export interface ForgetMessage {
  readonly type: "forget";
  readonly kind: "pool" | "allocation" | "event";
  readonly identifier: number;
}

/** One of the importer's events may be recorded again. */
export interface EventFreeMessage {
  readonly type: "event-free";
  readonly event: number;
}

/** A frame lies in a slot of a channel. */
export interface FrameMessage {
  readonly type: "frame";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  readonly byteLength: number;
  /** Whether the slot's ready event must have fired first. */
  readonly hasEvent: boolean;
  /** JSON, or empty where there are none. */
  readonly metadata: string;
}

/** The importer's use of an offer ends. */
export interface ReleasedMessage {
  readonly type: "released";
  readonly offer: number;
  /** 0 where all its work is done. */
  readonly event: number;
}

/** The application has got a frame. */
export interface TakenMessage {
  readonly type: "taken";
  readonly offer: number;
  readonly sequence: number;
}

/** The importer's use of a frame ends. */
export interface ReleaseSlotMessage {
  readonly type: "release-slot";
  readonly offer: number;
  readonly slot: number;
  readonly sequence: number;
  /** 0 where all its work is done. */
  readonly event: number;
}

/** All there are. */
export type Message =
  | HelloMessage
  | WelcomeMessage
  | GoodbyeMessage
  | PoolMessage
  | AllocationMessage
  | EventMessage
  | OfferMessage
  | ChannelMessage
  | OfferNotice
  | JoinMessage
  | ForgetMessage
  | EventFreeMessage
  | FrameMessage
  | ReleasedMessage
  | TakenMessage
  | ReleaseSlotMessage;

/** The code of the error that a peer's GOODBYE is. */
export function codeOfGoodbye(reason: Exclude<GoodbyeReason, "done">): SharingErrorCode {
  return reason === "full" ? "not-permitted" : reason === "failed" ? "peer-gone" : reason;
}

/** The error for a message of a peer that breaks a rule of the protocol. */
export function badMessage(what: string): SharingError {
  return new SharingError("bad-message", `Cannot go on with the connection: ${what}`);
}
