import { area, mistake, printing } from "../mistake.ts";

area("Printing and sending to workers", import.meta.url);

printing("a device as JSON", ({ gpu }) => {
  console.log(JSON.stringify(gpu));
});

printing("a buffer as JSON", ({ buffer }) => {
  console.log(JSON.stringify({ buffer }));
});

printing("a pool as JSON", ({ pool }) => {
  console.log(JSON.stringify(pool));
});

printing("the Cuda object as JSON", ({ cuda }) => {
  console.log(JSON.stringify(cuda));
});

printing("an offer as JSON", ({ exporter, weights }) => {
  console.log(JSON.stringify(exporter.offer("weights", weights)));
});

printing("a kernel as JSON", ({ saxpy }) => {
  console.log(JSON.stringify(saxpy));
});

printing("a device in a template", ({ gpu }) => {
  console.log(`running on ${gpu}`);
});

printing("a buffer and a stream in a template", ({ buffer, stream }) => {
  console.log(`${buffer} on ${stream}`);
});

printing("an error as JSON", ({ pool, stream }) => {
  try {
    pool.allocate(2 ** 40, stream);
  } catch (error) {
    console.log(JSON.stringify(error));
  }
});

printing("an error in a template", ({ saxpy, x }) => {
  try {
    saxpy.launch({ grid: 1, block: 1 }, x);
  } catch (error) {
    console.log(`${error}`);
  }
});

mistake("a buffer plus an offset", ({ saxpy, x, y }) => {
  saxpy.launch({ grid: 1, block: 1 }, 1, 2.5, x + 16, y);
});
