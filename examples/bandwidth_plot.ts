/**
 * Draws how the bandwidth of collectives depends on their size, as an SVG.
 *
 * @module
 */
import { formatSize } from "./command_line.ts";

/** A line of the plot. */
export interface PlotLine {
  readonly name: string;
  readonly color: string;
  /** Sizes in bytes, and GB/s. */
  readonly points: readonly { readonly byteLength: number; readonly bandwidth: number }[];
}

const [width, height] = [720, 420];
const frame = { left: 70, right: 700, top: 50, bottom: 350 };
const steps = [1, 2, 5];

/** Returns the text of an SVG. The sizes have a logarithmic scale, the bandwidths a linear one. */
export function plotBandwidth(title: string, lines: readonly PlotLine[]): string {
  const points = lines.flatMap((line) => line.points);
  const logarithms = points.map(({ byteLength }) => Math.log2(byteLength));
  const [first, last] = [Math.floor(Math.min(...logarithms)), Math.ceil(Math.max(...logarithms))];
  const step = stepFor(Math.max(...points.map(({ bandwidth }) => bandwidth)) / 5);
  const most = step * Math.ceil(Math.max(...points.map(({ bandwidth }) => bandwidth)) / step || 1);
  const x = (logarithm: number) =>
    frame.left + (logarithm - first) / Math.max(1, last - first) * (frame.right - frame.left);
  const y = (bandwidth: number) => frame.bottom - bandwidth / most * (frame.bottom - frame.top);
  const parts = [`<rect width="${width}" height="${height}" fill="#ffffff"/>`];
  parts.push(text(frame.left, 24, title, "start", 16));
  for (let value = 0; value <= most * 1.001; value += step) {
    parts.push(rule(frame.left, y(value), frame.right, y(value)));
    parts.push(text(frame.left - 8, y(value) + 4, String(Number(value.toPrecision(6))), "end"));
  }
  const every = Math.ceil((last - first + 1) / 9);
  for (let logarithm = first; logarithm <= last; logarithm += every) {
    parts.push(rule(x(logarithm), frame.top, x(logarithm), frame.bottom));
    parts.push(text(x(logarithm), frame.bottom + 20, formatSize(2 ** logarithm), "middle"));
  }
  parts.push(text(frame.left - 50, frame.top - 12, "GB/s", "start"));
  for (const [index, { name, color, points }] of lines.entries()) {
    const path = points.map(({ byteLength, bandwidth }) => `${round(x(Math.log2(byteLength)))},${round(y(bandwidth))}`);
    parts.push(`<polyline points="${path.join(" ")}" fill="none" stroke="${color}" stroke-width="2"/>`);
    for (const point of path) {
      const [column, row] = point.split(",");
      parts.push(`<circle cx="${column}" cy="${row}" r="3" fill="${color}"/>`);
    }
    const left = frame.left + 170 * index;
    parts.push(`<rect x="${left}" y="${frame.bottom + 40}" width="14" height="14" fill="${color}"/>`);
    parts.push(text(left + 20, frame.bottom + 52, name, "start"));
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif">\n${
    parts.join("\n")
  }\n</svg>\n`;
}

/** The next of 1, 2, 5, 10, 20, 50 and so on, or 0.1 and so on. */
function stepFor(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (steps.find((step) => step * power >= least) ?? 10);
}

function text(x: number, y: number, content: string, anchor: string, size: number = 12): string {
  const escaped = content.replaceAll(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
  return `<text x="${round(x)}" y="${
    round(y)
  }" text-anchor="${anchor}" font-size="${size}" fill="#222222">${escaped}</text>`;
}

function rule(x1: number, y1: number, x2: number, y2: number): string {
  const [left, top, right, bottom] = [x1, y1, x2, y2].map(round);
  return `<line x1="${left}" y1="${top}" x2="${right}" y2="${bottom}" stroke="#dddddd"/>`;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
