/**
 * The calls of the benchmark with poolpass, in Deno: answers requests as the programs in other languages do.
 *
 * @module
 */
import { answerRequests, type Work } from "../sharing/contract.ts";
import { callWorks } from "./call_works.ts";
import { copyWorks } from "./copy_works.ts";
import { pointerWorks } from "./pointer_works.ts";
import { openSubject } from "./subject.ts";

const subject = openSubject();
const { cuda, device } = subject;
const works = { ...callWorks(subject), ...copyWorks(subject), ...pointerWorks(subject) };
await answerRequests(
  {
    name: "poolpass",
    device: device.name,
    uuid: device.uuid,
    isSoftware: cuda.driver === "software",
    versions: `Deno ${Deno.version.deno}`,
  },
  Object.fromEntries(
    Object.entries(works).map(([name, work]): [string, Work] => [name, (request) => Promise.resolve(work(request))]),
  ),
);
