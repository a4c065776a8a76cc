import { assertEquals, assertThrows } from "@std/assert";
import { EventAnswers, type LocalEvent, type LocalEvents } from "../../../src/sharing/events/local_events.ts";
import type { Message } from "../../../src/sharing/protocol/messages.ts";
import { SharingError } from "../../../src/support/errors.ts";
import { test } from "../../support/test.ts";

test("a peer may have one WAIT for each announced event, and FIRED waits until the peer reads", () => {
  const sent: Message[] = [];
  let isBacklogged = false;
  let fire: () => void = () => {};
  const answers = new EventAnswers({
    events: {
      whenFired(_event: LocalEvent, callback: () => void) {
        fire = callback;
        return () => fire = () => {};
      },
    } as unknown as LocalEvents,
    find: (event) => event === 1 ? {} as LocalEvent : undefined,
    send: (message) => void sent.push(message),
    isBacklogged: () => isBacklogged,
  });
  assertThrows(() => answers.onWait(2), SharingError, "event 2 is waited for and was not announced");
  answers.onWait(1);
  assertThrows(() => answers.onWait(1), SharingError, "event 1 is waited for twice");
  isBacklogged = true;
  fire();
  assertEquals([sent, answers.hasUnsent], [[], true]);
  assertThrows(() => answers.onWait(1), SharingError, "event 1 is waited for twice");
  isBacklogged = false;
  answers.pump();
  fire();
  assertEquals([sent, answers.hasUnsent], [[{ type: "fired", event: 1 }], false]);
  // It was answered: the peer may ask again, until the end.
  answers.onWait(1);
  answers.close();
  fire();
  assertEquals(sent.length, 1);
});
