/**
 * Asks a program of `bench/channel` for frames, in the words of all that is measured: a line of JSON each way.
 *
 *     frames.ts NAME COMMAND [ARGUMENT...]
 *
 * A request's `repetitions` are the frames that count, one sample for all of them: nanoseconds for each. `slots`, 4 unless
 * given, are read before the host gives them to be written again, which is what a channel does.
 *
 * @module
 */
import { open } from "../../mod.ts";
import { formatJob, type Greeting, type RoundTimes } from "../channel/job.ts";
import { resultOf } from "../channel/statistics.ts";
import { Contender } from "../contender.ts";
import { answerRequests, numberOf, type Request } from "./contract.ts";

/** Frames that come first and are not counted. */
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

/** The device that all programs of `bench/channel` use. */
function uuidOfFirstDevice(): string {
  using cuda = open();
  return cuda.device(0).uuid;
}
