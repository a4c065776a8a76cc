/**
 * HTML and SVG for notebooks, on light and on dark pages: text and frames have the page's own color.
 *
 * @module
 */
import { escapeControlsInLines } from "../support/printing.ts";

/** Markup, as opposed to text that must be escaped. */
export type Html = { readonly html: string };

/** A row of a table: a name, and markup or a value that is written as text. */
export type TableRow = readonly [name: string, cell: Html | string | number];

/** The number of colors of a heat map. */
const colorCount = 16;
/** The sizes of pictures in pixels: the least and the greatest side of a heat map, and those of a line. */
const sizes = { least: 40, most: 240, line: [360, 60] } as const;
const margin = "margin:0 0 .5em";

/** Escapes text for elements and for attributes in quotation marks. */
function escapeHtml(text: string): string {
  return escapeControlsInLines(text).replace(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Returns elements one below the other. */
export function sequence(...parts: readonly Html[]): Html {
  return { html: `<div>${parts.map(({ html }) => html).join("")}</div>` };
}

/** Returns text of several lines, in which all characters have the same width. */
export function preformatted(lines: string): Html {
  return { html: `<pre style="white-space:pre-wrap;word-break:normal;${margin}">${escapeHtml(lines)}</pre>` };
}

/** Returns a table with a title and a row for each field. */
export function table(fields: readonly TableRow[], title?: string): Html {
  const style = 'style="text-align:left"';
  const rows = fields.map(([name, cell]) => {
    const content = typeof cell === "object" ? cell.html : escapeHtml(String(cell));
    return `<tr><th ${style}>${escapeHtml(name)}</th><td ${style}>${content}</td></tr>`;
  });
  const first = title === undefined ? "" : `<tr><th ${style} colspan="2">${escapeHtml(title)}</th></tr>`;
  return { html: `<table style="color:inherit;${margin}"><tbody>${first}${rows.join("")}</tbody></table>` };
}

/** Returns a bar that is filled for the share of a total that is in use. */
export function bar(part: number, total: number): Html {
  return { html: `<meter min="0" max="${total}" value="${part}" style="width:100%">${part} of ${total}</meter>` };
}

/** Returns an image with a label for readers who do not see it, a size, and an extent in the content's coordinates. */
function image(content: string, label: string, [size, extent]: readonly (readonly number[])[]): Html {
  const box = `width="${size![0]}" height="${size![1]}" viewBox="0 0 ${extent!.join(" ")}" preserveAspectRatio="none"`;
  const attributes = `${box} style="display:block;${margin}" role="img" aria-label="${escapeHtml(label)}"`;
  return { html: `<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>${content}</svg>` };
}

/** Returns the color of a value from 0, dark violet, to 1, light yellow. All are visible on white and on black. */
function colorAt(value: number): string {
  return `hsl(${(270 - 215 * value).toFixed(0)} 65% ${(25 + 50 * value).toFixed(0)}%)`;
}

/** Returns a function of where a number lies in the range of the finite numbers, from 0 to 1; NaN for other numbers. */
function positionsIn(values: readonly number[]): (value: number) => number {
  const finite = values.filter(Number.isFinite);
  const least = Math.min(...finite), greatest = Math.max(...finite);
  // Halves, because the difference of two finite numbers may be infinite.
  const extent = greatest / 2 - least / 2;
  return (value) => !Number.isFinite(value) ? NaN : extent === 0 ? 0.5 : (value / 2 - least / 2) / extent;
}

/** Returns a picture of a matrix, with the proportions of `shape`, and a rectangle for each element that is finite. */
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

/** Returns a line through values at ascending positions, which is interrupted at values that are not finite. */
export function line(points: readonly (readonly [position: number, value: number])[], label: string): Html {
  const [width, height] = sizes.line;
  const positionOf = positionsIn(points.map(([, value]) => value));
  const last = points.at(-1)![0] || 1;
  let path = "", isDrawing = false;
  for (const [position, value] of points) {
    const y = 1 + (1 - positionOf(value)) * (height - 2);
    const at = `${(position / last * width).toFixed(1)} ${y.toFixed(1)}`;
    // A line begins with a dot, in case that the next value is not finite.
    path += Number.isNaN(y) ? "" : isDrawing ? `L${at}` : `M${at}h.1`;
    isDrawing = !Number.isNaN(y);
  }
  const stroke = `fill="none" stroke="${colorAt(0.35)}" stroke-width="1.5"`;
  return image(`<path ${stroke} d="${path}"/>`, label, [sizes.line, sizes.line]);
}
