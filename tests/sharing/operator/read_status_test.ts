import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { SharingError } from "../../../src/support/errors.ts";
import { Operator } from "../../../src/sharing/operator/operator.ts";
import { prometheusText } from "../../../src/sharing/operator/prometheus_text.ts";
import { readStatus } from "../../../src/sharing/operator/read_status.ts";
import { encodeMessage } from "../../../src/sharing/protocol/encode_message.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { exporterStatus, storeStatus } from "../../cli/statuses.ts";
import { test } from "../../support/test.ts";
import { assertFailsSoon, sharingTest } from "../sharing_peers.ts";

/** The members that have a count for each of some reasons, all of which may be missing. */
const countsByReason = ["refused", "ended", "imports", "exports", "events"];

/** JSON that may be changed. */
// deno-lint-ignore no-explicit-any
type Json = any;

const statuses: readonly Json[] = [exporterStatus(), storeStatus];

/** The places of all values in JSON, but for those in metadata. */
function placesIn(value: Json, place: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== "object" || value === null || place.at(-1) === "metadata") return [place];
  return [place, ...Object.keys(value).flatMap((key) => placesIn(value[key], [...place, key]))];
}

/** A copy of a status with another value at a place, or none. */
function changed(status: Json, place: readonly string[], value: Json): Json {
  const copy = structuredClone(status);
  if (place.length === 0) return value;
  const parent = place.slice(0, -1).reduce((at: Json, key) => at[key], copy);
  if (value === undefined) delete parent[place.at(-1)!];
  else parent[place.at(-1)!] = value;
  return copy;
}

test("a status is read as it was, without members that are not known", () => {
  for (const status of statuses) {
    assertEquals(readStatus(status as JsonValue), status);
    assertEquals(readStatus({ ...status, more: { deep: [1] } }) as Json, status);
    const json = JSON.stringify(status).replace("{", '{"__proto__": {"kind": 5}, ');
    assertEquals(readStatus(JSON.parse(json)) as Json, status);
  }
});

test("a status with a value of another type anywhere is refused, and the error says where", () => {
  let refused = 0;
  for (const status of statuses) {
    for (const place of placesIn(status).filter((place) => place.at(-1) !== "metadata")) {
      const given = place.reduce((at: Json, key) => at[key], status);
      const values = [undefined, "\x1b[2J", -1, 1.5, NaN, [], {}, true, "x".repeat(5000), 2 ** 53];
      for (const value of values.filter((value) => isOtherKind(value, given, place))) {
        const error = assertThrows(() => readStatus(changed(status, place, value)), SharingError, "status");
        assertEquals(error.code, "bad-message");
        assert(error.message.length < 200);
        refused++;
      }
    }
  }
  assert(refused > 1000, `${refused}`);
});

/** Whether a value cannot stand where another one is. */
function isOtherKind(value: Json, given: Json, place: readonly string[]): boolean {
  const isOptional = ["writer", "refusals", "pool"].includes(place.at(-1)!) || isElement(place) || isCount(place);
  if (value === undefined) return !isOptional;
  if (typeof value === "string") return typeof given !== "string" || value.length > 4096;
  if (typeof given === "object" && given !== null && typeof value === "object") {
    return Array.isArray(value) !== Array.isArray(given) ||
      (!Array.isArray(value) && !countsByReason.includes(place.at(-1)!));
  }
  return typeof value !== typeof given || typeof value === "number";
}

/** Whether it is an element of a list, or a count that need not be there. */
function isElement(place: readonly string[]): boolean {
  return /^\d+$/.test(place.at(-1)!) || place.length === 0;
}

function isCount(place: readonly string[]): boolean {
  return countsByReason.includes(place.at(-2) ?? "");
}

test("a status of a listener that does not count refusals, or counts more of them, is read", () => {
  const status = exporterStatus();
  const { refusals: _refusals, ...statistics } = status.statistics;
  const offers = status.offers.map(({ pool: _pool, ...offer }) => offer);
  const old = { ...status, statistics, offers };
  assertEquals(readStatus(old as never), old);
  assert(!prometheusText(old.statistics).includes("imports_refused"));
  const refusals = { imports: { "too-large": 1, "too-small": 2 }, exports: {}, events: {}, kernels: { forged: 3 } };
  const { kernels: _kernels, ...known } = refusals;
  const newer = readStatus(changed(status, ["statistics", "refusals"], refusals) as JsonValue) as typeof status;
  assertEquals(newer.statistics.refusals as Json, known);
  assertMatch(prometheusText(newer.statistics), /^poolpass_imports_refused_total\{path="[^"]*",code="too-small"\} 2$/m);
});

test("metadata may be any JSON, but not nested so deeply that it cannot be printed", () => {
  const nested = (depth: number): JsonValue => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as JsonValue;
  for (const metadata of [null, "text", 5, { a: [1, null] }, nested(200)]) {
    assertEquals(readStatus(changed(statuses[0], ["offers", "0", "metadata"], metadata)).kind, "exporter");
  }
  assertThrows(() => readStatus(changed(statuses[0], ["offers", "0", "metadata"], nested(5000))), SharingError, "200");
});

const encode = (json: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(json);
const answer = (json: string, more: Partial<Message> = {}): Message => {
  const part = encode(json);
  return { type: "answer", request: 1, remaining: 0, part, ...more } as Message;
};

/** What a listener answers, and the code and text of the error that the operator gets. */
const answers: readonly (readonly [message: Message, code: string, text: string])[] = [
  [answer("{}"), "internal-error", "it gives no reason"],
  [answer('{"ok": false, "code": "limit-exceeded", "message": "Too many"}'), "limit-exceeded", "Too many"],
  [answer('{"ok": false, "code": "no such code", "message": 5}'), "internal-error", "it gives no reason"],
  [answer('{"ok": true}'), "bad-message", "status is not an object"],
  [answer('{"ok": true, "status": {"kind": "lamp"}}'), "bad-message", "status.kind is none of exporter, store"],
  [answer("[1]"), "bad-message", "not a JSON object"],
  [answer('{"ok": true, "status": '), "bad-message", "not JSON"],
  [answer("{}", { request: 7 }), "bad-message", "an answer comes to request 7, which was not made"],
  [answer("{", { remaining: 65 * 2 ** 20 }), "limit-exceeded", "bytes of documents at a time"],
  [{ type: "withdraw", offer: 1 }, "bad-message", 'a message "withdraw" comes for an operator'],
];

sharingTest("an operator refuses what a listener may not answer", async ({ path }) => {
  await using listener = UnixListener.listen(path);
  for (const [message, code, text] of answers) {
    const connecting = Operator.connect(path);
    await using socket = await listener.accept();
    await socket.send(encodeMessage({ type: "welcome", version: 1 }));
    await using operator = await connecting;
    const status = assertFailsSoon(operator.status(), code as never, text);
    await socket.send(encodeMessage(message));
    await status;
  }
}, { softwareOnly: true });
