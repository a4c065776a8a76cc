/**
 * Workloads of graphs whose kernels do nothing: what instantiating, launching and updating cost the host.
 *
 * @module
 */
import { numberOf, type Request } from "../sharing/contract.ts";
import type { Fixture, Workloads } from "./fixture.ts";
import { timeBatches } from "./timing.ts";

/** Returns the workloads. Each is asked for with the number of kernels. */
export function graphWorkloads({ device, pool, stream, synchronize }: Fixture): Workloads {
  const x = pool.allocate(1024, stream);
  const module = device.loadModule(Deno.readTextFileSync(new URL("./kernels.ptx", import.meta.url)));
  const kernel = module.kernel("empty_3");
  const shape = { grid: 1, block: 1, stream };

  function captured(request: Request) {
    const kernels = numberOf(request, "kernels", 1);
    return stream.capture(({ arguments: { a } }) => {
      for (let i = 0; i < kernels; i++) kernel.launch(shape, x, a, 1024);
    }, { arguments: { a: 2.5 } });
  }

  function timeCalls(request: Request, call: () => void): number[] {
    const run = (operations: number) => {
      for (let i = 0; i < operations; i++) call();
    };
    return timeBatches(request, { run, settle: synchronize });
  }

  return {
    "graph-instantiate": (request) => {
      using graph = captured(request);
      return timeCalls(request, () => graph.instantiate()[Symbol.dispose]());
    },
    "graph-launch": (request) => {
      using graph = captured(request);
      using exec = graph.instantiate({ upload: stream });
      return timeCalls(request, () => exec.launch(stream));
    },
    "kernels-launch": (request) => {
      const kernels = numberOf(request, "kernels", 1);
      return timeCalls(request, () => {
        for (let i = 0; i < kernels; i++) kernel.launch(shape, x, 2.5, 1024);
      });
    },
    "graph-update": (request) => {
      using graph = captured(request);
      using other = captured(request);
      using exec = graph.instantiate();
      return timeCalls(request, () => exec.update(other));
    },
    "graph-argument": (request) => {
      using graph = captured(request);
      using exec = graph.instantiate();
      let a = 0;
      return timeCalls(request, () => exec.update({ a: a++ }));
    },
  };
}
