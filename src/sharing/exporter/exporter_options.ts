import {
  checkMaximum,
  checkMilliseconds,
  checkOptions,
  type KnownOptions,
  type OptionNames,
  whatIs,
} from "../../support/validation.ts";
import { defaultMaximumMetadata } from "../protocol/messages.ts";
import type { ExporterOptions } from "./exporter.ts";
import { TypeError } from "../../support/program_errors.ts";

/** The names of the options that have no default value. */
type WithoutDefault = "onConnect" | "onDisconnect" | "onError" | "maximumImportersPerUser";

/** The options of an exporter, with default values filled in. */
export type CompleteOptions =
  & Readonly<Required<Omit<ExporterOptions, WithoutDefault>>>
  & Readonly<Pick<ExporterOptions, WithoutDefault>>;

/** The names of all exporter options, for validation. */
export const exporterOptionNames: OptionNames<ExporterOptions> = {
  users: true,
  maximumImporters: true,
  maximumImportersPerUser: true,
  maximumHandshakes: true,
  maximumMetadata: true,
  handshakeTimeout: true,
  messageTimeout: true,
  closeTimeout: true,
  onConnect: true,
  onDisconnect: true,
  onError: true,
};

const exporterOptions: KnownOptions<ExporterOptions> = { action: "listen for importers", names: exporterOptionNames };

/**
 * Checks the options of an exporter, except `users`, and adds the default values.
 *
 * @throws {TypeError} If an option has the wrong type
 * @throws {RangeError} If an option is out of range
 */
export function completeOptions(options: ExporterOptions): CompleteOptions {
  checkOptions(options, exporterOptions);
  const { users = [], maximumImporters = 1024, maximumImportersPerUser, maximumHandshakes = 128 } = options;
  const { maximumMetadata = defaultMaximumMetadata, onConnect, onDisconnect, onError } = options;
  const { handshakeTimeout = 5000, messageTimeout = 5000, closeTimeout = 5000 } = options;
  if (maximumImportersPerUser !== undefined) checkMaximum(maximumImportersPerUser, "maximumImportersPerUser");
  checkCallback(onConnect, "onConnect");
  checkCallback(onDisconnect, "onDisconnect");
  checkCallback(onError, "onError");
  return {
    users,
    maximumImporters: checkMaximum(maximumImporters, "maximumImporters"),
    maximumImportersPerUser: maximumImportersPerUser!,
    maximumHandshakes: checkMaximum(maximumHandshakes, "maximumHandshakes"),
    maximumMetadata: checkMaximum(maximumMetadata, "maximumMetadata"),
    handshakeTimeout: checkMilliseconds(handshakeTimeout, "handshakeTimeout"),
    messageTimeout: checkMilliseconds(messageTimeout, "messageTimeout"),
    closeTimeout: checkMilliseconds(closeTimeout, "closeTimeout"),
    onConnect: onConnect!,
    onDisconnect: onDisconnect!,
    onError: onError!,
  };
}

/** Throws a `TypeError` unless `callback` is a function or undefined. */
export function checkCallback(callback: unknown, what: string): void {
  if (callback === undefined || typeof callback === "function") return;
  throw new TypeError(`Cannot use ${whatIs(callback)} as ${what}: it is not a function`);
}
