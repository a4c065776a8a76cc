/**
 * Opens the software device, launches one block, and ends.
 *
 *     start.ts CHECKOUT
 *
 * @module
 */
import process from "node:process";
import { importCheckout } from "./checkout.ts";
import { prepareLaunches } from "./short_launches.ts";

const { open } = await importCheckout(process.argv[2]!);
using cuda = open({ threads: Number(process.argv[3]), gangs: true });
using launches = prepareLaunches(cuda.device(0), { name: "start", blocks: 1, steps: 10, count: 1 });
launches.run();
