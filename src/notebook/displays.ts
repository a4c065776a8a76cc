/**
 * Displays the library's objects in notebooks. A Jupyter kernel for JavaScript, such as Deno's, calls an object's
 * `Symbol.for("Jupyter.display")` method, which returns representations of the object, keyed by MIME type.
 *
 * The methods never throw or create a context, and make no call that could block or invalidate the capture of a graph.
 *
 * @module
 */
import { CachingAllocator } from "../memory/caching/caching_allocator.ts";
import { DeviceArray } from "../memory/device_array.ts";
import { DeviceBuffer } from "../memory/device_buffer.ts";
import { ImportedMemoryPool } from "../memory/handles/imported_memory_pool.ts";
import { MemoryPool } from "../memory/pools/memory_pool.ts";
import { Cuda } from "../objects/cuda.ts";
import { CudaDevice } from "../objects/cuda_device.ts";
import { CudaKernel, deviceOfKernel } from "../objects/kernels/cuda_kernel.ts";
import { CudaModule } from "../objects/modules/cuda_module.ts";
import type { SanitizerReport } from "../sanitizer/reporting/sanitizer_report.ts";
import { noteUnseen } from "../support/lost_devices.ts";
import { countOf, escapeControlsInLines } from "../support/printing.ts";
import { bar, heatMap, type Html, line, preformatted, sequence, table, type TableRow } from "./html.ts";
import { checkUndisturbed, type Preview, readPreview } from "./preview.ts";

/** The representations of an object, keyed by MIME type. */
type MediaBundle = Readonly<Record<"text/plain" | "text/html", string>>;

/** The name of the method that displays an object. */
const method = Symbol.for("Jupyter.display");
/** The number of bytes to show of a buffer without an element type. */
const shownBytes = 256;

/** Adds the method to the classes. Called by `open`, so that merely importing the library has no such side effect. */
export function addDisplays(): void {
  if (Object.hasOwn(DeviceBuffer.prototype, method)) return;
  const classes = [Cuda, CachingAllocator, CudaModule, ImportedMemoryPool, MemoryPool];
  for (const { prototype } of classes) addTo(prototype, (object: object) => bundleOf(object));
  addTo(CudaDevice.prototype, (device) => bundleOf(device, fieldsOfDevice(device)));
  addTo(CudaKernel.prototype, (kernel) => bundleOf(kernel, fieldsOfKernel(kernel)));
  addTo(DeviceBuffer.prototype, displayBuffer);
}

/** Adds the method to a sanitizer report, which is a plain object and not an instance of a class. */
export function addDisplayToReport(report: SanitizerReport): void {
  addTo(report, ({ message, ...fields }) => {
    const html = sequence(preformatted(message), table(fieldsOf(fields), "SanitizerReport"));
    return { "text/plain": escapeControlsInLines(message), "text/html": html.html };
  });
}

function addTo<T extends object>(object: T, display: (object: T) => MediaBundle | Promise<MediaBundle>): void {
  function displayThis(this: T) {
    return display(this);
  }
  Object.defineProperty(object, method, { value: displayThis, configurable: true, writable: true });
}

/** Returns an object's text form, and a table of fields: by default, those of the object's JSON. */
function bundleOf(object: object, fields = fieldsOf(jsonOf(object)), parts: readonly Html[] = []): MediaBundle {
  const text = String(object);
  return { "text/plain": text, "text/html": sequence(table(fields, text.split(" {", 1)[0]), ...parts).html };
}

/** Returns an object's JSON, without members that cannot be read, such as the properties of a disposed object. */
function jsonOf(object: object): Record<string, unknown> {
  return (object as { toJSON(): Record<string, unknown> }).toJSON();
}

function fieldsOf(json: object): TableRow[] {
  return Object.entries(json).map(([name, value]) => [name, cellOf(name, value)]);
}

function cellOf(name: string, value: unknown): TableRow[1] {
  if (typeof value === "number") {
    return /bytes|byteLength|^(?:used|reserved|total)/i.test(name) ? countOf(value, "byte") : value;
  }
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) {
    const isList = value.every((each) => typeof each !== "object");
    return isList ? value.join(", ") : sequence(...value.map((each) => table(fieldsOf(each))));
  }
  const { used, reserved, total = reserved } = value as Readonly<Record<string, number | undefined>>;
  const fields = table(fieldsOf(value));
  return used === undefined || total === undefined ? fields : sequence(bar(used, total), fields);
}

/**
 * Returns fields whose values come from the driver. If the driver must not be called now, or fails, returns a single
 * field with the reason.
 */
function asked(name: string, ask: () => TableRow[]): TableRow[] {
  try {
    return ask();
  } catch (error) {
    return [[name, reasonOf(error)]];
  }
}

function reasonOf(error: unknown): string {
  noteUnseen(error);
  return `not read: ${(error as Error).message}`;
}

function fieldsOfDevice(device: CudaDevice): TableRow[] {
  const attributes = () => {
    const computeCapability = device.computeCapability.join(".");
    return fieldsOf({ computeCapability, multiProcessorCount: device.attribute("multiProcessorCount") });
  };
  const memory = () => {
    checkUndisturbed(device);
    const { free, total } = device.memoryInfo();
    return fieldsOf({ memory: { used: total - free, total } });
  };
  return [...fieldsOf(jsonOf(device)), ...asked("attributes", attributes), ...asked("memory", memory)];
}

function fieldsOfKernel(kernel: CudaKernel): TableRow[] {
  const { parameters: _, name: __, ...json } = jsonOf(kernel);
  const signature = String(kernel).replace(/^CudaKernel \{ device \d+, | \}$/g, "");
  const attributes = () => {
    // The driver may have to load the kernel to determine its attributes.
    checkUndisturbed(deviceOfKernel(kernel), { mayLoad: true });
    return fieldsOf(kernel.attributes);
  };
  return [["kernel", signature], ...fieldsOf(json), ...asked("attributes", attributes)];
}

/** Displays a buffer or an array: its fields, and a sample of its elements as text and as a picture. */
async function displayBuffer(buffer: DeviceBuffer): Promise<MediaBundle> {
  const { length: _, ...json } = jsonOf(buffer);
  const array = buffer instanceof DeviceArray ? buffer : undefined;
  const layout = () =>
    array === undefined ? [] : fieldsOf({ dtype: array.dtype, shape: `[${array.shape.join(", ")}]` });
  let text: string, pictures: Html[] = [];
  try {
    // If an element's size differs from the typed array's, as for complex numbers, show the typed array's elements
    // instead.
    const hasOwnSize = array?.shape.reduce((product, size) => product * size, 1) === array?.length;
    const shape = hasOwnSize && array?.shape || [array?.length ?? Math.min(buffer.byteLength, shownBytes)];
    // If the array has more than two dimensions, show its first matrix.
    const [columns = 1, rows = 1] = shape.toReversed();
    const { elements, ...read } = await readPreview(buffer, { type: array?.type ?? Uint8Array, rows, columns });
    // The bits of a bfloat16 are the upper half of the bits of a float32.
    const floats = () => new Float32Array(Uint32Array.from(elements as Uint16Array, (bits) => bits << 16).buffer);
    const hex = () => (elements as Uint8Array).toHex().replace(/../g, "$& ").replace(/.{48}/g, "$&\n").trimEnd();
    const preview = { ...read, elements: array?.dtype === "bfloat16" ? floats() : elements };
    text = array === undefined ? hex() : valuesOf(preview, shape.length > 1);
    if (array !== undefined) pictures = picturesOf(preview, array.length);
  } catch (error) {
    text = reasonOf(error);
  }
  const bundle = bundleOf(buffer, [...asked("shape", layout), ...fieldsOf(json)], [...pictures, preformatted(text)]);
  return { ...bundle, "text/plain": `${bundle["text/plain"]}\n${escapeControlsInLines(text)}` };
}

/** Formats the first and last elements: a vector as a list, a matrix as a list of rows. */
function valuesOf(preview: Preview, isMatrix: boolean): string {
  const abbreviated = (all: string[], ends = preview.ends) =>
    all.length <= 2 * ends + 1 ? all : [...all.slice(0, ends), "...", ...all.slice(-ends)];
  const cells = Array.from(preview.elements, formatElement);
  const lists = rowsOf(preview, cells).map((row) => `[${abbreviated(row).join(", ")}]`);
  return isMatrix ? `[${abbreviated(lists).join(",\n ")}]` : lists.join();
}

/** Splits a list with one item for each element into the matrix's rows. */
function rowsOf<T>({ rows, columns }: Preview, elements: readonly T[]): T[][] {
  return rows.map((_, row) => elements.slice(row * columns.length, (row + 1) * columns.length));
}

function formatElement(value: number | bigint): string {
  return typeof value === "bigint" || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

/**
 * Returns a picture of the sampled elements, followed by a line of statistics. A vector is drawn as a line chart, a
 * matrix as a heat map.
 */
function picturesOf(preview: Preview, length: number): Html[] {
  const { rows, columns, elements } = preview;
  const values = Array.from(elements, Number);
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [];
  const mean = finite.reduce((sum, value) => sum + value / finite.length, 0);
  const [least, average, greatest] = [Math.min(...finite), mean, Math.max(...finite)].map(formatElement);
  const label = `${values.length} of ${length} elements read, ${finite.length} finite: ` +
    `minimum ${least}, mean ${average}, maximum ${greatest}`;
  const shape = [columns, rows].map((indexes) => indexes.at(-1)! + 1);
  const points = values.map((value, index) => [(rows.length === 1 ? columns : rows)[index]!, value] as const);
  const picture = shape.includes(1) ? line(points, label) : heatMap(rowsOf(preview, values), label, shape);
  return [picture, preformatted(label)];
}
