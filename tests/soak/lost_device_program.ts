// One of five programs that run at once: lost_device_program.ts ROLE PATH FAULT ENDING IMPORTERS. ROLE "exporter" sends
// frames in a channel at PATH, "importer" reads them. After some frames the program loses its device by FAULT, "trap" or
// "address", unless that is "none".
// ENDING says how it ends then: "dispose" what it opened, "exit" at once, or "throw" the error. IMPORTERS is their number.
import { open } from "../../src/open.ts";
import { type Cuda, CudaError, Exporter, Importer, SharingError } from "../../mod.ts";

const ptx = `.version 7.0
.target sm_60
.address_size 64

.visible .entry trap() {
  trap;
}

.visible .entry address() {
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 64;
  st.global.u32 [%rd1], 1;
  ret;
}
`;

const [role, path, fault, ending, importers] = Deno.args as [string, string, string, string, string];
const slotByteLength = 2 ** 16;
/** The number of frames that are sent, and after which a device is lost. */
const [frames, framesBeforeFault] = [200, 20];
/** Milliseconds after which a program has failed to end. */
const timeout = 60_000;

/** The reason with which the exporter stops when all importers have gone. */
class NobodyLeft extends Error {}

setTimeout(() => end(3, `does not end within ${timeout} ms`), timeout);
let failure: unknown;
try {
  using cuda = open();
  using module = cuda.device(0).loadModule(ptx);
  using stream = cuda.device(0).createStream({ nonBlocking: true });
  const loseDevice = (frame: number): void => {
    if (fault !== "none" && frame === framesBeforeFault) module.kernel(fault).launch({ grid: 1, block: 1, stream });
  };
  const stopping = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      failure = error;
      if (ending === "exit" && fault !== "none") end(0, describe(error));
    }
  };
  if (role === "exporter") {
    await stopping(async () => {
      using pool = cuda.device(0).createPool({ handleType: "posix-fd" });
      // A channel would wait for other consumers once all of them have gone.
      const alone = new AbortController();
      let gone = 0;
      await using exporter = Exporter.listen(path, {
        closeTimeout: 2000,
        onDisconnect: () => void (++gone === Number(importers) && alone.abort(new NobodyLeft())),
      });
      await using channel = exporter.createChannel("frames", { pool, slots: 4, slotByteLength, stream });
      console.log("ready");
      const { signal } = alone;
      for (let frame = 1; frame <= frames; frame++) {
        using slot = await channel.reserve({ signal });
        loseDevice(frame);
        slot.buffer.fill(frame & 255);
        channel.send(slot);
      }
    });
  } else {
    await stopping(async () => {
      await using importer = await connect(cuda);
      await using consumer = await importer.channel("frames", { stream });
      console.log("ready");
      for await (const slot of consumer) {
        const first = slot.buffer.read(Uint8Array, { length: 1 });
        slot.release();
        const [byte] = await first;
        if (byte !== (slot.sequence & 255)) throw new Error(`Frame ${slot.sequence} holds ${byte}`);
        loseDevice(slot.sequence);
      }
    });
  }
} catch (error) {
  failure ??= error;
}
if (ending === "throw" && fault !== "none" && failure !== undefined) throw failure;
const types = [CudaError, SharingError, NobodyLeft];
const isTyped = failure === undefined || types.some((type) => failure instanceof type);
end(isTyped ? 0 : 4, describe(failure));

/** Connects as soon as the exporter listens. */
async function connect(cuda: Cuda): Promise<Importer> {
  for (;;) {
    try {
      return await Importer.connect(cuda, path, { closeTimeout: 2000 });
    } catch (error) {
      const { code } = error as SharingError;
      if (code !== "not-found" && code !== "not-listening") throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

function describe(error: unknown): string {
  if (error === undefined) return "done";
  return error instanceof CudaError || error instanceof SharingError
    ? `${error.name} ${error.code}`
    : error instanceof NobodyLeft
    ? "no importer is left"
    : String(error);
}

function end(code: number, what: string): never {
  console.log(what);
  Deno.exit(code);
}
