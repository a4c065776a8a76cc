/** The page of `poolpass top --web` in Chromium. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { connect } from "node:net";
import { serveLoopback } from "../../cli/loopback_server.ts";
import type { Sample } from "../../cli/top/sampler.ts";
import { servePage } from "../../cli/top/web/serve_page.ts";
import { SharingError } from "../../mod.ts";
import { noChromium, withBrowser } from "../support/chromium.ts";
import { startPoolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";
import { ask } from "./loopback.ts";
import { sharedFramesTest, until } from "./shared_frames.ts";
import { channelOf, exporterStatus, now, storeStatus } from "./statuses.ts";

const options = { skip: noChromium, long: true };

/** Names as another process may choose them: the page must show them as text, within its width. */
const hostileNames = [
  `<img src=x onerror="document.title='hacked'">`,
  `"><script>document.title='hacked'</script>`,
  "\u202egnp.exe\u2066\u200f",
  "x".repeat(10_240),
];

/** Samples that change: a channel that sends, and one that drops frames. */
class ChangingSamples {
  taken = 0;
  readonly #closed = Promise.withResolvers<void>();
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void> = this.#closed.promise;
  problem: string | undefined;

  next(): Promise<Sample> {
    const count = ++this.taken;
    if (this.problem !== undefined) return Promise.reject(new SharingError("peer-gone", this.problem));
    const status = exporterStatus();
    const [weights, frames] = status.offers;
    const names = ["frames", ...hostileNames];
    const channels = names.map((name) => channelOf(name));
    const small = Array.from({ length: 5 }, (_, index) => ({ ...weights!, name: `small ${index}`, holders: [] }));
    const offers = [
      weights!,
      ...small,
      ...names.map((name, index) => ({ ...frames!, name, byteLength: (index + 1) * 2 ** 20 })),
    ];
    return Promise.resolve({
      status: {
        ...status,
        offers: count % 4 < 2 ? offers : offers.slice(1),
        statistics: { ...status.statistics, channels },
      },
      time: now + count * 1000,
      channels: new Map(names.map((name, index) => [name, {
        framesPerSecond: 60 + index * 20 + count % 7,
        bytesPerSecond: 60 * 2 ** 20,
        droppedPerSecond: index === 1 ? count % 3 : 0,
      }])),
      consumers: new Map(),
      listenerPid: 0,
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closed.resolve();
    return Promise.resolve();
  }
}

test(
  "the page is legible at each width, light and dark, whatever names say",
  options,
  () =>
    withBrowser(async (browser) => {
      const sampler = new ChangingSamples();
      await using server = await servePage(0, {
        sampler,
        path: hostileNames[0]!,
        interval: 100,
        traces: ["/none/<b>"],
      });
      const backgrounds = new Set<unknown>();
      for (const width of [400, 1600]) {
        for (const isDark of [false, true]) {
          const tab = await browser.open(server.url, { width, isDark });
          await tab.until("document.querySelectorAll('#log li').length >= 4 && document.querySelector('#frames path')");
          await tab.until("document.querySelector('#trace img').naturalWidth > 0");
          assertEquals(await tab.evaluate("document.title"), "poolpass top");
          assertEquals(await tab.evaluate("document.querySelectorAll('img').length"), 1, "that of the trace");
          const [scrolled, shown] = await tab.evaluate(
            "[document.scrollingElement.scrollWidth, document.scrollingElement.clientWidth]",
          ) as number[];
          assert(scrolled! <= shown! && shown! > width - 20, `${scrolled} of ${shown} pixels`);
          const names = await tab.evaluate(
            "[...document.querySelectorAll('tr.first td:first-child')].map((td) => td.textContent)",
          );
          const texts = names as string[];
          assertEquals(texts.filter((text) => hostileNames.includes(text)).length, 2, "markup, as it is");
          assert(texts.includes("\\u202egnp.exe\\u2066\u200f"), "bidirectional controls are escaped");
          assert(texts.some((text) => text.endsWith("… (10240 characters)")), "long ones are cut");
          // What is drawn lies within its chart, and each mark has a label with its unit.
          const labels = await tab.evaluate(
            "[...document.querySelectorAll('#memory text')].map((text) => text.textContent)",
          );
          assertMatch((labels as string[]).join(" "), /0 B .*MiB .*\d\d:\d\d:\d\d.* bytes local time/);
          const outside = "[...document.querySelectorAll('figure text')].filter((text) => {" +
            "const [inner, outer] = [text, text.ownerSVGElement].map((each) => each.getBoundingClientRect());" +
            "return inner.left < outer.left - 1 || inner.right > outer.right + 1; }).map((text) => text.textContent)";
          assertEquals(await tab.evaluate(outside), []);
          backgrounds.add(await tab.evaluate("getComputedStyle(document.body).backgroundColor"));
          assert((await tab.screenshot()).length > 10_000);
          assertEquals(tab.complaints, []);
          await tab.close();
        }
      }
      assertEquals(backgrounds.size, 2, "one for light, one for dark");
      const picture = await browser.open(`${server.url}trace.svg`);
      await picture.until("document.querySelector('text').textContent.includes('/none/<b>')");
      assertEquals(
        await picture.evaluate("getComputedStyle(document.querySelector('text')).fontSize"),
        "14px",
        "its style",
      );
      assertEquals(picture.complaints, []);
    }),
);

test(
  "the page shows stores, is used by the keyboard, and says what is wrong",
  options,
  () =>
    withBrowser(async (browser) => {
      const sampler = new ChangingSamples();
      await using server = await servePage(0, { sampler, path: "/run/frames.sock", interval: 100 });
      const tab = await browser.open(server.url);
      const status = "document.querySelector('#status').textContent";
      await tab.until(`${status} === 'Live, every 0.1 s' && document.querySelector('#memory path')`);
      assertEquals(await tab.evaluate("document.querySelector('#trace').hidden"), true);
      const press = async (key: string) => {
        for (const type of ["keyDown", "keyUp"]) await tab.call("Input.dispatchKeyEvent", { type, key, code: key });
      };
      const focused = "document.activeElement.id || document.activeElement.value || document.activeElement.ariaLabel";
      const order: unknown[] = [];
      for (let count = 0; count < 4; count++) {
        await tab.call("Input.dispatchKeyEvent", {
          type: "keyDown",
          key: "Tab",
          code: "Tab",
          windowsVirtualKeyCode: 9,
        });
        order.push(await tab.evaluate(focused));
        assertMatch(String(await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")), /solid/);
      }
      assertEquals(order, ["pause", "rows", "Memory in bytes, by time", "Sent frames in frames/s, by time"]);
      const value = "document.activeElement.getAttribute('aria-valuetext')";
      assertMatch(String(await tab.evaluate(value)), /^\d\d:\d\d:\d\d: .*frames: 6\d/);
      await tab.until("document.querySelectorAll('#log li').length > 6");
      await press("Home");
      const first = await tab.evaluate(value);
      await press("ArrowRight");
      assert(await tab.evaluate(value) !== first);
      await press("ArrowLeft");
      assertEquals(await tab.evaluate(value), first);
      assertEquals(await tab.evaluate("document.querySelectorAll('.cursor').length"), 4, "in all charts");
      await press("Escape");
      await tab.until("document.querySelector('.cursor') === null");
      // Channels of 1 to 5 MiB, and small buffers, the smallest of which are one series.
      const total = await tab.evaluate("document.querySelector('#memory span').textContent");
      assertMatch(String(total), /^15 MiB in total/);
      assertMatch(
        String(await tab.evaluate("document.querySelector('#memory .legend').textContent")),
        /[34] others[34] KiB$/,
      );
      await tab.evaluate("document.querySelector('[value=processes]').click()");
      await tab.until("document.querySelector('#memory .legend').textContent.includes('process 102')");
      await tab.evaluate("document.querySelector('#pause').click()");
      assertEquals(await tab.evaluate(status), "Paused");
      // Nobody watches.
      await sampler.closed;
      sampler.problem = "Cannot ask: <b>it is gone</b>";
      await tab.evaluate("document.querySelector('#pause').click()");
      await tab.until(`${status} === 'Trying again: Cannot ask: <b>it is gone</b>'`);
      sampler.problem = undefined;
      const { next } = sampler;
      sampler.next = () => Promise.resolve({ ...emptySample, status: storeStatus, time: now + 10 ** 6 });
      await tab.until("document.querySelector('#heading').textContent.includes('generation')");
      await tab.until("document.querySelector('#log').textContent.includes('It answers again')");
      assertEquals(await tab.evaluate("document.querySelector('#title').textContent.slice(0, 8)"), "Store at");
      sampler.next = next;
      assertEquals(tab.complaints, []);
    }),
);

const emptySample = { channels: new Map(), consumers: new Map(), listenerPid: 0 };

test(
  "a hundred clients share the samples; slow ones and other sites get nothing from them",
  options,
  () =>
    withBrowser(async (browser) => {
      const sampler = new ChangingSamples();
      const interval = 500;
      const began = performance.now();
      await using server = await servePage(0, { sampler, path: "/run/frames.sock", interval });
      const { pathname, port } = new URL(server.url);
      const slow = connect(Number(port), "127.0.0.1");
      slow.on("error", () => {}).pause().write(`GET ${pathname}state HTTP/1.1\r\n\r\n`);
      // Another site on this machine, which even knows the token.
      const hostile = `const results = [];
      const settle = (name, promise) => promise.then(() => results.push(name + " worked"), () => results.push(name));
      const load = (name, attributes) => new Promise((resolve, reject) => {
        const element = Object.assign(document.createElement(name), attributes, { onload: resolve, onerror: reject });
        document.head.append(element);
      });
      settle("fetch", fetch("${server.url}state"));
      settle("opaque", fetch("${server.url}state", { mode: "no-cors" }));
      settle("post", fetch("${server.url}state", { mode: "no-cors", method: "POST" }));
      settle("script", load("script", { src: "${server.url}page.js" }));
      settle("image", load("img", { src: "${server.url}icon.svg" }));
      const frame = Object.assign(document.createElement("iframe"), { src: "${server.url}" });
      settle("frame", new Promise((resolve, reject) => {
        frame.onload = () => { try { frame.contentDocument.body.id; resolve(); } catch (error) { reject(error); } };
      }));
      document.documentElement.append(frame);
      globalThis.results = results;`;
      await using attacker = await serveLoopback(0, (path) => {
        if (path === "/") return () => ({ body: `<!doctype html><script src="/a.js"></script>`, type: "text/html" });
        return path === "/a.js" ? () => ({ body: hostile, type: "text/javascript" }) : undefined;
      });
      const attack = await browser.open(attacker.origin);
      const tabs = [await browser.open(server.url), await browser.open(server.url, { width: 400 })];
      const answers: number[] = [];
      const client = async (): Promise<void> => {
        for (let count = 0; count < 5; count++) {
          answers.push((await ask(`${server.url}state`)).status);
          await new Promise((resolve) => setTimeout(resolve, interval));
        }
      };
      await Promise.all(Array.from({ length: 100 }, client));
      assertEquals([answers.length, new Set(answers)], [500, new Set([200])]);
      for (const tab of tabs) {
        await tab.until("document.querySelector('#frames path') && document.querySelector('#status').className === ''");
        assertEquals(tab.complaints, []);
      }
      const most = (performance.now() - began) / interval + 1;
      assert(sampler.taken <= most, `${sampler.taken} samples, and at most ${most} intervals`);
      await attack.until("results.length === 6");
      assertEquals(await attack.evaluate("results.sort()"), ["fetch", "frame", "image", "opaque", "post", "script"]);
      slow.destroy();
      for (const tab of [...tabs, attack]) await tab.close();
      await sampler.closed;
    }),
);

sharedFramesTest("the page shows an exporter, says that it has died, and goes on with the next", async (frames) => {
  const { path, exporter, start } = frames;
  const consumer = await start("consume");
  const top = startPoolpass("top", path, "--web", "0", "--interval", "0.2");
  await until(() => top.output !== "", () => top.errors);
  await withBrowser(async (browser) => {
    const tab = await browser.open(/ at (\S+)\n$/.exec(top.output)![1]!);
    await tab.until("document.querySelectorAll('#frames .legend li').length === 2");
    await tab.until(`document.querySelector('#lines').textContent.includes('${consumer.pid}')`);
    const holder = await start("hold");
    const log = "document.querySelector('#log').textContent";
    await tab.until(`${log}.includes('buffer weights: held by process ${holder.pid}')`);
    holder.kill("SIGKILL");
    await tab.until(`${log}.includes('buffer weights: no longer held by process ${holder.pid}')`);
    exporter.kill("SIGKILL");
    await tab.until("document.querySelector('#status').textContent.startsWith('Trying again: Cannot ')");
    await start("export");
    await tab.until(`${log}.includes('Another process listens')`);
    await tab.until("document.querySelector('#status').textContent === 'Live, every 0.2 s'");
    await tab.evaluate("document.querySelector('[value=sources]').click()");
    await tab.until("document.querySelector('#memory .legend').textContent === 'pool 18.5 MiB'");
    assertEquals(tab.complaints, []);
  });
  top.interrupt();
  assertEquals((await top.ended).code, 0);
}, options);
