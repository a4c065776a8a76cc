import { assertEquals } from "@std/assert";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { driverNamed } from "../../support/drivers.ts";
import { isLong, test } from "../../support/test.ts";
import { exchangeProgram } from "./exchange_program.ts";

const programs = isLong ? 1000 : 5;

const onGpu = driverNamed("cuda");

const software = (gangs: false | "always") => () => new SoftwareDriver({ devices: 1, peers: true, gangs });

/** Where the programs run. */
const places = [
  { name: ", thread by thread", skip: false, open: software(false), staysTogether: false },
  { name: ", in gangs", skip: false, open: software("always"), staysTogether: false },
  { ...onGpu, name: ", while their lanes stay together [cuda]", staysTogether: true },
] as const;

for (const { name, skip, open, staysTogether } of places) {
  test(`random programs exchange values as lanes in lockstep do${name}`, { skip }, async () => {
    using cuda = new Cuda(new Session(open()));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool({ releaseThreshold: Infinity });
    for (let seed = 0; seed < programs; seed++) {
      const { ptx, block, isAliased, bufferBytes, outputBytes, expected } = exchangeProgram(seed, { staysTogether });
      using module = gpu.loadModule(ptx);
      using output = pool.allocate(outputBytes, stream);
      using one = pool.allocate(bufferBytes, stream);
      using other = pool.allocate(bufferBytes, stream);
      for (const buffer of [output, one, other]) buffer.fill(0);
      const second = isAliased ? one : other;
      module.kernel("test").launch({ grid: 1, block: [...block], stream }, output, one, second);
      const { output: words, buffers } = expected();
      const name = `seed ${seed}, block ${block}`;
      assertEquals(await output.read(Uint32Array), words, name);
      assertEquals(await one.read(Uint32Array), buffers[0], name);
      assertEquals(await second.read(Uint32Array), buffers[1], name);
    }
  });
}
