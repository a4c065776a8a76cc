/**
 * A rank in a process of its own. Arguments: the driver's name, the rank, the size, the id in hexadecimal, and the
 * counts of elements with commas. Runs all collectives, and prints how many were right.
 *
 * @module
 */
import process from "node:process";
import { Communicator, open } from "../../../mod.ts";
import { checkCollectives, elementTypes } from "../../support/collective_cases.ts";

const [driver, rankText, sizeText, id, counts, types = ""] = process.argv.slice(2) as [
  "software" | "cuda",
  string,
  string,
  string,
  string,
  string?,
];
const rank = Number(rankText);
const size = Number(sizeText);
using cuda = open({ driver });
const device = cuda.device(driver === "cuda" ? rank % cuda.devices.length : 0);
using stream = device.createStream({ nonBlocking: true });
await using communicator = await Communicator.create(device, {
  id: Uint8Array.fromHex(id),
  rank,
  size,
  timeout: 60_000,
});
const checked = await checkCollectives([{ communicator, device, stream }], {
  counts: counts.split(",").map(Number),
  types: types === "" ? elementTypes : elementTypes.filter(({ name }) => types.split(",").includes(name)),
});
console.log(`${checked} right`);
