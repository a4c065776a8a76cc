import { assertEquals } from "@std/assert";
import { test } from "node:test";
import type { CudaEvent } from "../../../src/objects/streams/cuda_event.ts";
import { OpenedEvents } from "../../../src/sharing/events/remote_events.ts";

/** The number of events that a process has open at most. */
const maximum = 4096;
let openCount = 0;

function openEvent(): CudaEvent {
  openCount++;
  return { [Symbol.dispose]: () => void openCount-- } as unknown as CudaEvent;
}

test("a peer can always open an event, however many peers share the maximum", () => {
  for (const hoarders of [4, 100, 1000, maximum]) {
    const peers = Array.from({ length: hoarders }, () => new OpenedEvents());
    for (let event = 0; event < maximum; event++) peers[event % hoarders]!.tryOpen(event, openEvent);
    const honest = new OpenedEvents();
    let opened = 0;
    for (let event = 0; event < 100; event++) if (honest.tryOpen(event, openEvent) !== undefined) opened++;
    assertEquals([hoarders, opened, openCount], [hoarders, 100, maximum]);
    for (const each of [...peers, honest]) each.closeAll();
    assertEquals(openCount, 0);
  }
});
