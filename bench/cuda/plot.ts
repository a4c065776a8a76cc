/**
 * Draws the results of the benchmark.
 *
 *     deno task bench plot FILE.json
 *
 * Writes `FILE_ratios.svg`, `FILE_allocation.svg` and `FILE_bandwidth.svg`. Only this program downloads the drawing
 * library: it imports the library dynamically, with its own lock file, so that no other program has it in its module
 * graph.
 *
 * @module
 */
import { type MeasuredRow, quartiles, ratiosOf, type Report } from "./report.ts";
import { type ContenderName, contenderNames as names, formatBytes } from "./rows.ts";
import { answerHelp } from "../../tests/support/program_help.ts";

answerHelp(import.meta.url);

/** The part of the API of Apache ECharts that is used here. */
interface Charts {
  init(element: null, theme: null, options: Record<string, unknown>): {
    setOption(option: Record<string, unknown>): void;
    renderToSVGString(): string;
    dispose(): void;
  };
}

interface Picture {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly option: Record<string, unknown>;
}

const library = "npm:echarts@6.1.0";

const styles: Readonly<Record<ContenderName, { color: string; symbol: string }>> = {
  "C++": { color: "#444444", symbol: "rect" },
  "poolpass": { color: "#d55e00", symbol: "circle" },
  "cuda.core": { color: "#009e73", symbol: "triangle" },
  "CuPy": { color: "#56b4e9", symbol: "diamond" },
  "PyTorch": { color: "#aa4499", symbol: "roundRect" },
};
const goalName = "goal: poolpass on or left of this line";
const goalColor = "#e8b000";
/** The height of a row in pixels: four marks, one above the other. */
const ratioRowHeight = 32;
const textStyle = { fontFamily: "sans-serif", color: "#222222" };

function head({ device, date }: Report, title: string, note = ""): Record<string, unknown> {
  return {
    animation: false,
    backgroundColor: "#ffffff",
    textStyle,
    title: {
      text: title,
      subtext: [device.name, device.uuid, date.slice(0, 10), ...note === "" ? [] : [note]].join(", "),
      left: 12,
      top: 8,
      textStyle: { ...textStyle, fontSize: 16 },
    },
  };
}

function present(rows: readonly MeasuredRow[]): ContenderName[] {
  return names.filter((name) => rows.some(({ contenders }) => contenders[name] !== undefined));
}

/** Converts a ratio of bandwidths to a ratio of times: the larger bandwidth is the faster one. */
function asTime(ratio: number, { unit }: MeasuredRow): number {
  return unit === "nanoseconds" ? ratio : 1 / ratio;
}

/** Formats a ratio, from "1/8" to "16", by its binary logarithm, which is the unit of the axis. */
function formatPower(power: number): string {
  return power < 0 ? `1/${2 ** -power}` : String(2 ** power);
}

/**
 * Draws one row of the picture for each row of the table, with a track for each contender, so that no mark hides
 * another. The labels use a category axis, and the marks use a numeric axis, on which a row is 1 high.
 */
function ratios(report: Report): Picture | undefined {
  const rows = report.rows.filter(({ contenders }) => contenders["C++"] !== undefined);
  const contenders: readonly ContenderName[] = present(rows).filter((name) => name !== "C++");
  if (contenders.length === 0) return undefined;
  const top = (row: MeasuredRow) => rows.indexOf(row);
  const trackOf = (row: MeasuredRow, name: ContenderName) => {
    const ofRow = contenders.filter((each) => row.contenders[each] !== undefined);
    return top(row) + (ofRow.indexOf(name) + 1) / (ofRow.length + 1);
  };
  const at = (row: MeasuredRow, ratio: number) => Math.log2(asTime(ratio, row));
  const medians = (name: ContenderName) =>
    rows.flatMap((row) => {
      const ratio = row.contenders[name]?.ofNative;
      return ratio === undefined ? [] : [[at(row, ratio), trackOf(row, name)]];
    });
  /** The ends of separate lines: a null point separates two lines. */
  const spreads = (name: ContenderName) =>
    rows.flatMap((row) => {
      const found = ratiosOf(row.contenders[name]?.rounds ?? [], row.contenders["C++"]!.rounds);
      return found.length === 0
        ? []
        : [...quartiles(found).map((end) => [at(row, end), trackOf(row, name)]), [null, null]];
    });
  const goals = rows.flatMap((row) => {
    if (row.goal === undefined) return [];
    const position = at(row, row.goal.ofNative);
    return [[position, top(row) + 0.08], [position, top(row) + 0.92], [null, null]];
  });
  const positions = [...contenders.flatMap((name) => [...medians(name), ...spreads(name)]), ...goals]
    .flatMap(([position]) => position ?? []);
  const axis = {
    type: "value",
    min: Math.floor(Math.min(-1, ...positions)),
    max: Math.ceil(Math.max(1, ...positions)),
    interval: 1,
    axisLabel: { formatter: formatPower },
    splitLine: { lineStyle: { color: "#dcdcdc" } },
  };
  const series = contenders.flatMap((name) => [
    {
      name,
      type: "line",
      yAxisIndex: 1,
      symbol: "none",
      silent: true,
      lineStyle: { color: styles[name].color, width: 1.5, opacity: 0.6 },
      // The color of the legend's symbol.
      itemStyle: { color: styles[name].color },
      data: spreads(name),
    },
    {
      name,
      type: "scatter",
      yAxisIndex: 1,
      symbol: styles[name].symbol,
      symbolSize: name === "poolpass" ? 9 : 7,
      z: 4,
      itemStyle: { color: styles[name].color, opacity: 1 },
      data: medians(name),
    },
  ]);
  const native = {
    name: "C++",
    type: "line",
    yAxisIndex: 1,
    symbol: "none",
    lineStyle: { color: styles["C++"].color, width: 1.5 },
    itemStyle: { color: styles["C++"].color },
    data: [[0, 0], [0, rows.length]],
  };
  const goal = {
    name: goalName,
    type: "line",
    yAxisIndex: 1,
    symbol: "none",
    z: 3,
    lineStyle: { color: goalColor, width: 3 },
    itemStyle: { color: goalColor },
    data: goals,
  };
  const icon = (name: ContenderName) => ({ name, icon: styles[name].symbol });
  const bar = (name: string) => ({ name, icon: "path://M0,0h3v14h-3z" });
  return {
    name: "ratios",
    width: 1140,
    height: 150 + ratioRowHeight * rows.length,
    option: {
      ...head(
        report,
        "Time divided by C++'s: left of C++ is faster, right of it is slower",
        "marks: medians of the ratios within a round, lines: from quartile to quartile",
      ),
      legend: {
        top: 54,
        left: 12,
        itemWidth: 16,
        itemHeight: 10,
        itemGap: 22,
        data: [bar("C++"), ...contenders.map(icon), bar(goalName)],
      },
      grid: { left: 330, right: 30, top: 110, bottom: 40 },
      xAxis: [{ ...axis, position: "bottom" }, { ...axis, position: "top", splitLine: { show: false } }],
      yAxis: [
        {
          type: "category",
          inverse: true,
          data: rows.map(({ name }) => name),
          axisLabel: { interval: 0, fontSize: 12, color: "#222222" },
          axisTick: { show: false },
          splitArea: { show: true, interval: 0, areaStyle: { color: ["#f3f3f3", "#ffffff"] } },
        },
        { type: "value", inverse: true, min: 0, max: rows.length, show: false },
      ],
      series: [native, goal, ...series],
    },
  };
}

function allocation(report: Report): Picture | undefined {
  const kinds = [
    { work: "allocate-free", names: {}, type: "solid" },
    {
      work: "allocate-free-cached",
      names: { "poolpass": "poolpass, sub-allocator", "CuPy": "CuPy, MemoryPool", "PyTorch": "PyTorch, own cache" },
      type: "dashed",
    },
  ] as const;
  const ofStreams = (streams: number) =>
    report.rows.filter(({ work, parameters }) =>
      kinds.some((kind) => kind.work === work) && parameters.streams === streams
    );
  const panels = [1, 8].map(ofStreams);
  const sizes = [...new Set(panels.flat().map(({ parameters }) => Number(parameters.byteLength)))].sort((a, b) =>
    a - b
  );
  if (sizes.length === 0) return undefined;
  const series = panels.flatMap((rows, panel) =>
    kinds.flatMap(({ work, names, type }) => {
      const ofKind = rows.filter((row) => row.work === work);
      return present(ofKind).filter((name) => name !== "C++" || work === "allocate-free").map((name) => ({
        name: (names as Partial<Record<ContenderName, string>>)[name] ?? name,
        type: "line",
        xAxisIndex: panel,
        yAxisIndex: panel,
        symbol: styles[name].symbol,
        symbolSize: 7,
        lineStyle: { type, width: name === "poolpass" ? 2.5 : 1.5 },
        itemStyle: { color: styles[name].color },
        data: sizes.map((size) =>
          ofKind.find(({ parameters }) => parameters.byteLength === size)?.contenders[name]?.median ?? null
        ),
      }));
    })
  );
  const medians = series.flatMap(({ data }) => data).filter((each) => each !== null);
  const grid = (left: number) => ({ left, top: 150, width: 380, height: 300 });
  const xAxis = (gridIndex: number, name: string) => ({
    type: "category",
    gridIndex,
    name,
    nameLocation: "middle",
    nameGap: 32,
    data: sizes.map(formatBytes),
    axisLabel: { interval: 0 },
  });
  const yAxis = (gridIndex: number) => ({
    type: "log",
    gridIndex,
    name: gridIndex === 0 ? "nanoseconds" : "",
    min: 10 ** Math.floor(Math.log10(Math.min(...medians))),
    max: 10 ** Math.ceil(Math.log10(Math.max(...medians))),
    splitLine: { lineStyle: { color: "#e4e4e4" } },
  });
  return {
    name: "allocation",
    width: 960,
    height: 510,
    option: {
      ...head(report, "Allocate and free: from a pool, and (dashed) from a cache in the process"),
      legend: { top: 56, left: 12, width: 920, itemWidth: 36, itemGap: 24 },
      grid: [grid(70), grid(550)],
      xAxis: [xAxis(0, "one stream"), xAxis(1, "eight streams, in turn")],
      yAxis: [yAxis(0), yAxis(1)],
      series,
    },
  };
}

function bandwidth(report: Report): Picture | undefined {
  const rows = report.rows.filter(({ unit }) => unit === "bytesPerSecond");
  const panels = [rows.filter(({ isOfMemory }) => !isOfMemory), rows.filter(({ isOfMemory }) => isOfMemory)];
  const shown = panels.filter((panel) => panel.length > 0);
  if (shown.length === 0) return undefined;
  const { memoryPeak } = report.device;
  const series = shown.flatMap((panel, index) =>
    present(panel).map((name, position) => ({
      name,
      type: "bar",
      xAxisIndex: index,
      yAxisIndex: index,
      itemStyle: { color: styles[name].color },
      label: {
        show: true,
        position: "right",
        // Hides the line of the peak behind the label.
        backgroundColor: "#ffffff",
        fontSize: 10,
        formatter: ({ value }: { value: number | null }) => value === null ? "" : String(Number(value.toPrecision(3))),
      },
      data: panel.map(({ contenders }) => {
        const found = contenders[name];
        return found === undefined ? null : found.median / 1e9;
      }),
      ...memoryPeak !== undefined && panel[0]!.isOfMemory && position === 0 && {
        markLine: {
          silent: true,
          symbol: "none",
          z: 1,
          lineStyle: { color: "#000000", type: "dashed" },
          label: { position: "start", formatter: "the memory's peak" },
          data: [{ xAxis: memoryPeak / 1e9 }],
        },
      },
    }))
  );
  const rowHeight = 70;
  let top = 100;
  const grids = shown.map((panel) => {
    const grid = { left: 260, right: 60, top, height: rowHeight * panel.length };
    top += grid.height + 60;
    return grid;
  });
  return {
    name: "bandwidth",
    width: 960,
    height: top,
    option: {
      ...head(report, "Bandwidth, GB/s"),
      legend: { top: 56, left: 12, itemGap: 20 },
      grid: grids,
      xAxis: shown.map((panel, gridIndex) => ({
        type: "value",
        gridIndex,
        ...panel[0]!.isOfMemory && memoryPeak !== undefined && { max: Math.ceil(memoryPeak / 1e9 / 500) * 500 },
        splitLine: { lineStyle: { color: "#e4e4e4" } },
      })),
      yAxis: shown.map((panel, gridIndex) => ({
        type: "category",
        gridIndex,
        inverse: true,
        data: panel.map(({ name }) => name),
        axisLabel: { interval: 0, fontSize: 12 },
        axisTick: { show: false },
      })),
      series,
    },
  };
}

const [file] = Deno.args;
if (file === undefined || !file.endsWith(".json")) {
  throw new TypeError("Cannot draw: usage: deno task bench plot FILE.json");
}
const report: Report = JSON.parse(Deno.readTextFileSync(file));
const charts: Charts = await import(library);
for (const picture of [ratios(report), allocation(report), bandwidth(report)]) {
  if (picture === undefined) continue;
  const { name, width, height, option } = picture;
  const chart = charts.init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption(option);
  const output = `${file.slice(0, -".json".length)}_${name}.svg`;
  Deno.writeTextFileSync(output, `<!-- deno-fmt-ignore-file -->\n${chart.renderToSVGString()}\n`);
  console.log(`drawn: ${output}`);
  // An open chart would keep the program running.
  chart.dispose();
}
