/** The results of every collective, type and reduction, compared with the host's, in one process and among several. */
import { assert, assertEquals } from "@std/assert";
import { Communicator, type CudaDevice, open } from "../../mod.ts";
import { checkCollectives, elementTypes } from "../support/collective_cases.ts";
import { startScript } from "../support/child_process.ts";
import { driverNamed } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";
import { environmentOf, ranksOn } from "./rank_processes.ts";

const counts = isLong ? [1, 5, 1000] : [5];

/** The numbers of ranks to try: GPUs have one each, unless ranks of several processes share one. */
function sizesOf(driver: "software" | "cuda"): readonly { size: number; inOneProcess: boolean }[] {
  const sizes = driver === "software" ? isLong ? [1, 2, 3, 4, 8] : [2, 3] : [1, 2, 4, 8];
  if (driver === "software" || driverNamed(driver).skip) return sizes.map((size) => ({ size, inOneProcess: true }));
  using cuda = open({ driver });
  const { length } = cuda.devices;
  return sizes.filter((size) => size <= Math.max(length, ranksOn(driver, 2)))
    .map((size) => ({ size, inOneProcess: size <= length }));
}

for (const driver of ["software", "cuda"] as const) {
  const { skip } = driverNamed(driver);
  for (const { size, inOneProcess } of sizesOf(driver)) {
    const tooFew = skip || !inOneProcess && "one device only";
    const name = `${size} ranks of one process compute what the host does [${driver}]`;
    test(name, { skip: tooFew, long: driver === "software" && size !== 2 }, async () => {
      using cuda = open({ driver, softwareDevices: 2 });
      const devices: CudaDevice[] = Array.from(
        { length: size },
        (_, rank) => cuda.devices[rank % cuda.devices.length]!,
      );
      const id = Communicator.createId(cuda);
      await using stack = new AsyncDisposableStack();
      const communicators = await Promise.all(
        devices.map((device, rank) => Communicator.create(device, { id, rank, size, timeout: 60_000 })),
      );
      const ranks = communicators.map((communicator, rank) => {
        stack.use(communicator);
        const device = devices[rank]!;
        return { communicator, device, stream: stack.use(device.createStream({ nonBlocking: true })) };
      });
      assert(await checkCollectives(ranks, { counts }) > 100);
    });

    const types = isLong || driver === "cuda"
      ? elementTypes.map(({ name }) => name)
      : ["Int32Array", "Float32Array", "bf16"];
    const isLeftOut = driver === "software" && size !== 3;
    test(`${size} processes compute what the host does [${driver}]`, { skip, long: isLeftOut }, async () => {
      using cuda = open({ driver });
      const id = Communicator.createId(cuda).toHex();
      await using stack = new AsyncDisposableStack();
      const children = Array.from({ length: size }, (_, rank) => {
        const script = "children/collectives/run_rank.ts";
        const args = [driver, `${rank}`, `${size}`, id, counts.join(), types.join()];
        return stack.use(startScript(script, args, environmentOf(driver, rank)));
      });
      for (const child of children) {
        const line = await child.nextLine();
        assert(line !== undefined && /^\d+ right$/.test(line), line ?? await child.errors());
        assertEquals(await child.ended, 0);
      }
    });
  }
}
