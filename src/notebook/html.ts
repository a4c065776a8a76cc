/**
 * HTML and SVG for notebooks. Suitable for light and dark pages, because text and borders use the page's own color.
 *
 * @module
 */
import { escapeMarkup } from "../support/printing.ts";

/** Markup, as opposed to text that must be escaped. */
export type Html = { readonly html: string };

/** A row of a table: a name, and a value. Strings and numbers are escaped; markup is inserted as is. */
export type TableRow = readonly [name: string, cell: Html | string | number];

/** The number of colors of a heat map. */
const colorCount = 16;
/**
 * The sizes of pictures in pixels: the minimum and maximum length of a heat map's sides, and the width and height of a
 * line chart.
 */
const sizes = { least: 40, most: 240, line: [360, 60] } as const;
const margin = "margin:0 0 .5em";

/** Returns the given elements, stacked vertically. */
export function sequence(...parts: readonly Html[]): Html {
  return { html: `<div>${parts.map(({ html }) => html).join("")}</div>` };
}

/** Returns preformatted text in a monospaced font. */
export function preformatted(lines: string): Html {
  return { html: `<pre style="white-space:pre-wrap;word-break:normal;${margin}">${escapeMarkup(lines)}</pre>` };
}

/** Returns a table with a title and a row for each field. */
export function table(fields: readonly TableRow[], title?: string): Html {
  const style = 'style="text-align:left"';
  const rows = fields.map(([name, cell]) => {
    const content = typeof cell === "object" ? cell.html : escapeMarkup(String(cell));
    return `<tr><th ${style}>${escapeMarkup(name)}</th><td ${style}>${content}</td></tr>`;
  });
  const first = title === undefined ? "" : `<tr><th ${style} colspan="2">${escapeMarkup(title)}</th></tr>`;
  return { html: `<table style="color:inherit;${margin}"><tbody>${first}${rows.join("")}</tbody></table>` };
}

/** Returns a bar that shows which part of a total is in use. */
export function bar(part: number, total: number): Html {
  return { html: `<meter min="0" max="${total}" value="${part}" style="width:100%">${part} of ${total}</meter>` };
}

/**
 * Returns an SVG image. `label` is the text for screen readers, `size` the displayed size, and `extent` the size of the
 * content's coordinate system.
 */
function image(content: string, label: string, [size, extent]: readonly (readonly number[])[]): Html {
  const box = `width="${size![0]}" height="${size![1]}" viewBox="0 0 ${extent!.join(" ")}" preserveAspectRatio="none"`;
  const attributes = `${box} style="display:block;${margin}" role="img" aria-label="${escapeMarkup(label)}"`;
  return { html: `<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>${content}</svg>` };
}

/**
 * Returns the color for a value from 0 (dark violet) to 1 (light yellow). All of the colors are visible on both white
 * and black backgrounds.
 */
function colorAt(value: number): string {
  return `hsl(${(270 - 215 * value).toFixed(0)} 65% ${(25 + 50 * value).toFixed(0)}%)`;
}

/**
 * Returns a function that maps a number to its position between the smallest and the largest finite value, from 0 to 1.
 * The function maps NaN and infinities to NaN.
 */
function positionsIn(values: readonly number[]): (value: number) => number {
  const finite = values.filter(Number.isFinite);
  const least = Math.min(...finite), greatest = Math.max(...finite);
  // Halve the values first, because the difference of two finite numbers may overflow to infinity.
  const extent = greatest / 2 - least / 2;
  return (value) => !Number.isFinite(value) ? NaN : extent === 0 ? 0.5 : (value / 2 - least / 2) / extent;
}

/** Returns a heat map of a matrix. It has the aspect ratio of `shape`, and a rectangle for each finite element. */
export function heatMap(rows: readonly (readonly number[])[], label: string, shape: readonly number[]): Html {
  const positionOf = positionsIn(rows.flat());
  const paths: string[] = [];
  rows.forEach((row, y) =>
    row.forEach((value, x) => {
      const color = Math.round(positionOf(value) * (colorCount - 1));
      if (!Number.isNaN(color)) paths[color] = `${paths[color] ?? ""}M${x} ${y}h1v1h-1z`;
    })
  );
  const fill = (path: string, color: number) => `<path fill="${colorAt(color / (colorCount - 1))}" d="${path}"/>`;
  const scale = sizes.most / Math.max(colorCount, ...shape);
  const size = shape.map((side) => Math.max(sizes.least, Math.round(side * scale)));
  const extent = [rows[0]!.length, rows.length];
  return image(`<g shape-rendering="crispEdges">${paths.map(fill).join("")}</g>`, label, [size, extent]);
}

/** Returns a line chart of values at ascending positions. The line has gaps at values that are not finite. */
export function line(points: readonly (readonly [position: number, value: number])[], label: string): Html {
  const [width, height] = sizes.line;
  const positionOf = positionsIn(points.map(([, value]) => value));
  const last = points.at(-1)![0] || 1;
  let path = "", isDrawing = false;
  for (const [position, value] of points) {
    const y = 1 + (1 - positionOf(value)) * (height - 2);
    const at = `${(position / last * width).toFixed(1)} ${y.toFixed(1)}`;
    // Begin each segment with a dot, which remains visible if the next value is not finite.
    path += Number.isNaN(y) ? "" : isDrawing ? `L${at}` : `M${at}h.1`;
    isDrawing = !Number.isNaN(y);
  }
  const stroke = `fill="none" stroke="${colorAt(0.35)}" stroke-width="1.5"`;
  return image(`<path ${stroke} d="${path}"/>`, label, [sizes.line, sizes.line]);
}
