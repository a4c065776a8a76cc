import { checkMaximum, checkMilliseconds, checkOptions, whatIs } from "../../support/validation.ts";
import { defaultMaximumMetadata } from "../protocol/messages.ts";
import type { ExporterOptions } from "./exporter.ts";

/** Options that have no default value. */
type WithoutDefault = "onConnect" | "onDisconnect" | "onError" | "maximumImportersPerUser";

/** The options of an exporter with their default values. */
export type CompleteOptions =
  & Readonly<Required<Omit<ExporterOptions, WithoutDefault>>>
  & Readonly<Pick<ExporterOptions, WithoutDefault>>;

/**
 * Checks the options of an exporter, except `users`, and adds the default values.
 *
 * @throws {TypeError} if an option has the wrong type
 * @throws {RangeError} if an option is out of range
 */
export function completeOptions(options: ExporterOptions): CompleteOptions {
  checkOptions(options, "Exporter.listen");
  const { users = [], maximumImporters = 1024, maximumImportersPerUser, maximumHandshakes = 128 } = options;
  const { onConnect, onDisconnect, onError } = options;
  if (maximumImportersPerUser !== undefined) checkMaximum(maximumImportersPerUser, "maximumImportersPerUser");
  checkCallback(onConnect, "onConnect");
  checkCallback(onDisconnect, "onDisconnect");
  checkCallback(onError, "onError");
  return {
    users,
    maximumImporters: checkMaximum(maximumImporters, "maximumImporters"),
    maximumImportersPerUser: maximumImportersPerUser!,
    maximumHandshakes: checkMaximum(maximumHandshakes, "maximumHandshakes"),
    maximumMetadata: checkMaximum(options.maximumMetadata ?? defaultMaximumMetadata, "maximumMetadata"),
    handshakeTimeout: checkMilliseconds(options.handshakeTimeout ?? 5000, "handshakeTimeout"),
    messageTimeout: checkMilliseconds(options.messageTimeout ?? 5000, "messageTimeout"),
    closeTimeout: checkMilliseconds(options.closeTimeout ?? 5000, "closeTimeout"),
    onConnect: onConnect!,
    onDisconnect: onDisconnect!,
    onError: onError!,
  };
}

function checkCallback(callback: unknown, what: string): void {
  if (callback === undefined || typeof callback === "function") return;
  throw new TypeError(`Cannot use ${whatIs(callback)} as ${what}: it is not a function`);
}
