/**
 * Measures calls of poolpass in Deno. Answers requests like the programs in other languages.
 *
 * @module
 */
import { answerRequests, type Workload } from "../sharing/contract.ts";
import { awaitWorkloads } from "./await_workloads.ts";
import { callWorkloads } from "./call_workloads.ts";
import { copyWorkloads } from "./copy_workloads.ts";
import { pointerWorkloads } from "./pointer_workloads.ts";
import { openFixture } from "./fixture.ts";
import { graphWorkloads } from "./graph_workloads.ts";

const fixture = openFixture();
const { cuda, device } = fixture;
const workloads = {
  ...callWorkloads(fixture),
  ...awaitWorkloads(fixture),
  ...copyWorkloads(fixture),
  ...pointerWorkloads(fixture),
  ...graphWorkloads(fixture),
};
await answerRequests(
  {
    name: "poolpass",
    device: device.name,
    uuid: device.uuid,
    isSoftware: cuda.driver === "software",
    versions: `Deno ${Deno.version.deno}`,
  },
  Object.fromEntries(
    Object.entries(workloads).map((
      [name, work],
    ): [string, Workload] => [name, (request) => Promise.resolve(work(request))]),
  ),
);
