/**
 * Draws what the benchmark has written.
 *
 *     deno task bench:plot FILE.json
 *
 * Writes `FILE_ratios.svg`, `FILE_allocation.svg` and `FILE_bandwidth.svg`. The library that draws is downloaded for this
 * program alone: it is imported by a name that is not known before, and has a lock file of its own.
 *
 * @module
 */
import type { MeasuredRow, Report } from "./report.ts";
import { type ContenderName, contenderNames as names, formatBytes } from "./rows.ts";

/** What is used of Apache ECharts. */
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

const looks: Readonly<Record<ContenderName, { color: string; symbol: string }>> = {
  "C++": { color: "#444444", symbol: "rect" },
  "poolpass": { color: "#d55e00", symbol: "circle" },
  "cuda.core": { color: "#009e73", symbol: "triangle" },
  "CuPy": { color: "#56b4e9", symbol: "diamond" },
  "PyTorch": { color: "#aa4499", symbol: "roundRect" },
};
const textStyle = { fontFamily: "sans-serif", color: "#222222" };

function head({ device, date }: Report, title: string): Record<string, unknown> {
  return {
    animation: false,
    backgroundColor: "#ffffff",
    textStyle,
    title: {
      text: title,
      subtext: `${device.name}, ${device.uuid}, ${date.slice(0, 10)}`,
      left: 12,
      top: 8,
      textStyle: { ...textStyle, fontSize: 16 },
    },
  };
}

function present(rows: readonly MeasuredRow[]): ContenderName[] {
  return names.filter((name) => rows.some(({ contenders }) => contenders[name] !== undefined));
}

/** As times are divided: of a bandwidth, the larger is the faster one. */
function asTime(ratio: number, { unit }: MeasuredRow): number {
  return unit === "nanoseconds" ? ratio : 1 / ratio;
}

function ratios(report: Report): Picture | undefined {
  const rows = report.rows.filter(({ contenders }) => contenders["C++"] !== undefined);
  if (rows.length === 0) return undefined;
  const points = (of: (row: MeasuredRow) => number | undefined) =>
    rows.flatMap((row) => {
      const ratio = of(row);
      return ratio === undefined ? [] : [[asTime(ratio, row), row.name]];
    });
  const series = present(rows).filter((name) => name !== "C++").map((name) => ({
    name,
    type: "scatter",
    symbol: looks[name].symbol,
    symbolSize: name === "poolpass" ? 11 : 8,
    z: name === "poolpass" ? 4 : 3,
    itemStyle: { color: looks[name].color },
    data: points(({ contenders }) => contenders[name]?.ofNative),
  }));
  const goals = {
    name: "goal of poolpass",
    type: "scatter",
    symbol: "rect",
    symbolSize: [3, 16],
    itemStyle: { color: "#000000" },
    data: points(({ goal }) => goal?.ofNative),
  };
  const line = {
    silent: true,
    symbol: "none",
    label: { show: false },
    lineStyle: { color: looks["C++"].color, type: "solid", width: 1.5 },
    data: [{ xAxis: 1 }],
  };
  return {
    name: "ratios",
    width: 960,
    height: 130 + 22 * rows.length,
    option: {
      ...head(report, "Time divided by C++'s (left of the line: faster than C++)"),
      legend: { top: 56, left: 12, itemWidth: 14, itemGap: 20 },
      grid: { left: 300, right: 40, top: 90, bottom: 40 },
      xAxis: {
        type: "log",
        logBase: 2,
        min: (extent: { min: number }) => 2 ** Math.floor(Math.log2(Math.min(0.9, extent.min / 1.05))),
        max: (extent: { max: number }) => 2 ** Math.ceil(Math.log2(Math.max(1.1, extent.max * 1.05))),
        axisLabel: { formatter: (value: number) => String(Number(value.toPrecision(2))) },
        splitLine: { lineStyle: { color: "#e4e4e4" } },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: rows.map(({ name }) => name),
        axisLabel: { interval: 0, fontSize: 12 },
        axisTick: { show: false },
        splitLine: { show: true, lineStyle: { color: "#f0f0f0" } },
      },
      series: [...series.map((each, index) => index === 0 ? { ...each, markLine: line } : each), goals],
    },
  };
}

function allocation(report: Report): Picture | undefined {
  const kinds = [
    { work: "allocate-free", suffix: "", type: "solid" },
    { work: "allocate-free-cached", suffix: ", cached", type: "dashed" },
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
    kinds.flatMap(({ work, suffix, type }) => {
      const ofKind = rows.filter((row) => row.work === work);
      return present(ofKind).filter((name) => name !== "C++" || work === "allocate-free").map((name) => ({
        name: name + suffix,
        type: "line",
        xAxisIndex: panel,
        yAxisIndex: panel,
        symbol: looks[name].symbol,
        symbolSize: 7,
        lineStyle: { type, width: name === "poolpass" ? 2.5 : 1.5 },
        itemStyle: { color: looks[name].color },
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
      ...head(report, "Allocate and free"),
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
      itemStyle: { color: looks[name].color },
      data: panel.map(({ contenders }) => {
        const found = contenders[name];
        return found === undefined ? null : found.median / 1e9;
      }),
      ...memoryPeak !== undefined && panel[0]!.isOfMemory && position === 0 && {
        markLine: {
          silent: true,
          symbol: "none",
          lineStyle: { color: "#000000", type: "dashed" },
          label: { position: "insideStartTop", formatter: "the memory's peak" },
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
  throw new TypeError("Cannot draw: usage: deno task bench:plot FILE.json");
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
  // It would keep the program running.
  chart.dispose();
}
