import { assert, assertEquals, assertMatch } from "@std/assert";
import { prometheusText } from "../../../src/sharing/operator/prometheus_text.ts";
import { channelOf, exporterStatus, storeStatus } from "../../cli/statuses.ts";
import { test } from "../../support/test.ts";

/** The samples of a text, by their names with labels. Fails if a line breaks a rule of the format. */
function samplesIn(text: string): Map<string, number> {
  assert(text.endsWith("\n") && !text.includes("\n\n"));
  const samples = new Map<string, number>();
  const seen = new Set<string>();
  let current = "";
  for (const line of text.trimEnd().split("\n")) {
    const help = /^# HELP ([a-z_]+) \S.*$/.exec(line);
    const type = /^# TYPE ([a-z_]+) (counter|gauge)$/.exec(line);
    if (help !== null) {
      current = help[1]!;
      assert(!seen.has(current), `${current} is described once`);
      seen.add(current);
    } else if (type !== null) {
      assertEquals(type[1], current, "HELP and TYPE come in pairs");
      assertEquals(current.endsWith("_total"), type[2] === "counter", current);
    } else {
      const [, name, labels = "", value] = /^([a-z_]+)(\{.*\})? (\S+)$/.exec(line) ?? [];
      assertEquals(name, current, line);
      if (labels !== "") assertMatch(labels, /^\{[a-z]+="([^"\\\n]|\\[\\"n])*"(,[a-z]+="([^"\\\n]|\\[\\"n])*")*\}$/);
      assert(Number.isFinite(Number(value)), line);
      assert(!samples.has(name + labels), `${line} is there once`);
      samples.set(name + labels, Number(value));
    }
  }
  return samples;
}

test("an exporter's numbers are counters and gauges", () => {
  const { statistics } = exporterStatus();
  const samples = samplesIn(prometheusText(statistics));
  const path = 'path="/run/frames.sock"';
  const expected = {
    [`poolpass_start_time_seconds{${path}}`]: statistics.since / 1000,
    [`poolpass_importers_connected{${path}}`]: 2,
    [`poolpass_importers_accepted_total{${path}}`]: 12,
    [`poolpass_connections_refused_total{${path},code="not-permitted"}`]: 3,
    [`poolpass_importers_ended_total{${path},code="peer-gone"}`]: 2,
    [`poolpass_leases{${path},state="quarantined"}`]: 1,
    [`poolpass_leases_bytes{${path},state="held"}`]: 4 * 2 ** 20 + 1024,
    [`poolpass_messages_total{${path},direction="received"}`]: 2,
    [`poolpass_message_bytes_total{${path},direction="sent"}`]: 3,
    [`poolpass_imports_refused_total{${path},code="too-large"}`]: 5,
    [`poolpass_exports_refused_total{${path},code="too-large"}`]: 0,
    [`poolpass_events_not_opened_total{${path},reason="forged"}`]: 6,
    [`poolpass_channel_frames_sent_total{${path},channel="frames"}`]: 1000,
    [`poolpass_channel_frames_dropped_total{${path},channel="frames"}`]: 7,
    [`poolpass_consumer_lag_frames{${path},channel="frames",pid="102"}`]: 3,
  };
  for (const [name, value] of Object.entries(expected)) assertEquals(samples.get(name), value, name);
});

test("what a process without an exporter has refused has no path", () => {
  const samples = samplesIn(prometheusText(exporterStatus().statistics.refusals!));
  assertEquals([...samples], [
    ['poolpass_imports_refused_total{code="too-large"}', 5],
    ['poolpass_exports_refused_total{code="too-large"}', 0],
    ['poolpass_events_not_opened_total{reason="forged"}', 6],
    ['poolpass_events_not_opened_total{reason="other-user"}', 7],
  ]);
});

test("a process that consumes a channel several times is one sample", () => {
  const [consumer] = channelOf("frames").consumers;
  const channel = channelOf("frames", { consumers: [consumer!, { ...consumer!, lag: 9, held: 1 }] });
  const samples = samplesIn(prometheusText(exporterStatus(channel).statistics));
  const labels = '{path="/run/frames.sock",channel="frames",pid="102"}';
  assertEquals(samples.get(`poolpass_consumer_frames_sent_total${labels}`), 1980);
  assertEquals(samples.get(`poolpass_consumer_frames_held${labels}`), 3);
  assertEquals(samples.get(`poolpass_consumer_lag_frames${labels}`), 9);
});

test("names are escaped as labels are", () => {
  const samples = samplesIn(prometheusText(exporterStatus(channelOf('a "b"\\c\n漢 {x="1"} 5')).statistics));
  const name = 'poolpass_channel_slots{path="/run/frames.sock",channel="a \\"b\\"\\\\c\\n漢 {x=\\"1\\"} 5"}';
  assertEquals(samples.get(name), 4);
});

test("a store's numbers are counters and gauges, and a limit that there is not is left out", () => {
  const text = prometheusText(storeStatus);
  const samples = samplesIn(text);
  const path = 'path="/run/store.sock"';
  assertEquals(samples.get(`poolpass_store_bytes{${path}}`), 3 * 2 ** 30);
  assertEquals(samples.get(`poolpass_store_published_total{${path}}`), 17);
  assertEquals(samples.get(`poolpass_store_limit_bytes{${path}}`), 64 * 2 ** 30);
  assert(!text.includes("limit_of_user"));
  const old = `{${path},name="llama/漢字",generation="1",state="replaced"}`;
  assertEquals(samples.get(`poolpass_store_entry_readers${old}`), 2);
  assertEquals(samples.get(`poolpass_store_entry_bytes${old}`), 2 ** 30);
});

test("memory that several writers have for a name is one sample", () => {
  const [entry] = storeStatus.entries;
  const unpublished = { ...entry!, name: "x", generation: 0, state: "unpublished" as const, byteLength: 100 };
  const removed = { ...entry!, name: "x", generation: 1, state: "removed" as const, byteLength: 16, readers: [] };
  const reader = { pid: 7, uid: 0, since: 0 };
  const entries = [unpublished, { ...removed, readers: [reader] }, unpublished, { ...removed, readers: [reader] }];
  const samples = samplesIn(prometheusText({ ...storeStatus, entries }));
  const labels = '{path="/run/store.sock",name="x",generation=';
  assertEquals(samples.get(`poolpass_store_entry_bytes${labels}"0",state="unpublished"}`), 200);
  assertEquals(samples.get(`poolpass_store_entry_bytes${labels}"1",state="removed"}`), 32);
  assertEquals(samples.get(`poolpass_store_entry_readers${labels}"1",state="removed"}`), 2);
});
