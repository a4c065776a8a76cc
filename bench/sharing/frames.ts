/**
 * Adapts a program of `bench/channel` to the protocol in `contract.ts`.
 *
 *     frames.ts NAME COMMAND [ARGUMENT...]
 *
 * A request's `repetitions` is the number of counted frames. The answer is a single sample: the nanoseconds per frame.
 * The parameter `slots` is 4 by default. As in a channel, a slot is read before the host enqueues its next write.
 *
 * @module
 */
import { open } from "../../mod.ts";
import { formatJob, type Greeting, type RoundTimes } from "../channel/job.ts";
import { resultOf } from "../channel/statistics.ts";
import { Contender } from "../harness/contender.ts";
import { answerRequests, numberOf, type Request } from "./contract.ts";

/** The smallest number of uncounted frames that come first. */
const leastUncounted = 50;

const [name, command, ...args] = Deno.args as [string, string, ...string[]];
const streamer = new Contender({ name, command, args });
const { device, isSoftware, versions } = await streamer.greeting<Greeting>();
let firstFrame = 0;

async function streamFrames(request: Request): Promise<number[]> {
  const slotByteLength = numberOf(request, "slotByteLength", (isSoftware ? 1 : 64) * 2 ** 20);
  const slots = numberOf(request, "slots", 4);
  const uncounted = Math.max(leastUncounted, request.warmUp ?? 0);
  const frames = uncounted + request.repetitions;
  const job = { frames, slots, slotByteLength, interval: 0, isHostWaiting: true, firstFrame };
  firstFrame += frames;
  const times = await streamer.ask<RoundTimes>(formatJob(job));
  return [1e9 / resultOf(times, { uncounted }).framesPerSecond];
}

await answerRequests({ name, device, uuid: uuidOfFirstDevice(), isSoftware, versions }, { "frames": streamFrames });
await streamer.end();

/** Returns the UUID of the device that all programs of `bench/channel` use. */
function uuidOfFirstDevice(): string {
  using cuda = open();
  return cuda.device(0).uuid;
}
