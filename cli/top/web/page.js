/**
 * The script of the page that `poolpass top --web` serves, as a class without references to anything outside of it: the
 * server sends its text. It shows the states that the server sends, and draws what it has received so far as SVG. Text
 * from other processes is only ever assigned to `textContent`.
 */
export class Page {
  static maximumPoints = 600;
  static maximumSeries = 7;
  /** The heights and margins of a chart in pixels. */
  static chart = { height: 220, left: 66, right: 12, top: 22, bottom: 24 };

  /** The states received so far, reduced to what charts show: the oldest first. */
  points = [];
  isPaused = false;

  constructor(body, interval) {
    this.interval = interval;
    this.find = (id) => body.querySelector(`#${id}`);
    this.memory = new Page.Chart(this.find("memory"), { title: "Memory", unit: "bytes", isStacked: true });
    this.find("pause").addEventListener("click", () => this.pause(!this.isPaused));
    body.querySelector("fieldset").addEventListener("change", ({ target }) => {
      this.by = target.value;
      this.draw();
    });
    this.by = "rows";
    addEventListener("visibilitychange", () => this.poll());
    new ResizeObserver(() => this.draw()).observe(this.find("memory"));
    this.poll();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    this.find("pause").setAttribute("aria-pressed", isPaused);
    this.poll();
  }

  /** Requests a state, and again after each interval, unless nobody looks. */
  async poll() {
    clearTimeout(this.timer);
    if (this.isPaused) this.say("Paused", "paused");
    if (this.isPaused || document.hidden || this.isPolling) return;
    this.isPolling = true;
    try {
      const response = await fetch("state", { signal: AbortSignal.timeout(10_000) });
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      this.take(await response.json());
    } catch (error) {
      this.say(`poolpass top does not answer: ${error.message}`, "problem");
    }
    this.isPolling = false;
    this.timer = setTimeout(() => this.poll(), this.interval);
  }

  say(text, kind = "") {
    Page.write(this.find("status"), text);
    this.find("status").className = kind;
  }

  take(state) {
    if (state.problem !== undefined) return this.say(`Trying again: ${state.problem}`, "problem");
    this.say(`Live, every ${this.interval / 1000} s`);
    const [title, totals, ...more] = state.summary;
    Page.write(this.find("title"), title);
    Page.write(this.find("totals"), [totals, ...more].join(". "));
    const rows = new Map();
    for (const { name, kind, generation, byteLength } of state.rows) {
      if (kind !== "pool") rows.set(generation === undefined ? name : `${name}, generation ${generation}`, byteLength);
    }
    if (state.others.byteLength > 0) rows.set(`${state.others.count} others`, state.others.byteLength);
    const processes = new Map(
      state.processes.map(({ pid, command, byteLength }) => [Page.nameOfProcess(pid, command), byteLength]),
    );
    this.points.push({ time: state.time, rows, processes });
    if (this.points.length > Page.maximumPoints) this.points.shift();
    this.draw();
  }

  draw() {
    this.memory.draw(this.points.map((point) => ({ time: point.time, values: point[this.by] })), this.interval);
  }

  static nameOfProcess(pid, command) {
    return pid === 0 ? "elsewhere" : `${pid} ${command}`.trim();
  }

  /** Sets the text of an element, unless it is that already: a selection in it stays. */
  static write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  static element(name, attributes = {}, ...children) {
    const isHtml = Page.htmlNames.has(name);
    const element = isHtml
      ? document.createElement(name)
      : document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  static htmlNames = new Set(["li", "ol", "ul", "span", "td", "th", "tr", "bdi", "time"]);

  static formatBytes(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
    return `${+(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
  }

  static formatTime(time) {
    return new Date(time).toLocaleTimeString("en-GB");
  }

  /** A chart of values over time: stacked areas, or lines. */
  static Chart = class {
    /** The slots of colors that series have. A series keeps its color while it is shown. */
    colors = [];

    constructor(figure, { title, unit, isStacked }) {
      Object.assign(this, { figure, title, unit, isStacked });
      this.svg = Page.element("svg", { role: "img", tabindex: 0, height: Page.chart.height });
      this.legend = Page.element("ul", { class: "legend" });
      figure.append(this.svg, this.legend);
    }

    /** Draws points: `values` has a number for each name. */
    draw(points, interval) {
      if (points.length === 0) return;
      const { height, left, right, top, bottom } = Page.chart;
      const width = this.figure.clientWidth;
      const last = points.at(-1).time;
      const first = Math.min(points[0].time, last - 60_000);
      const x = (time) => left + (time - first) / (last - first) * (width - left - right);
      const series = this.seriesOf(points);
      const most = Math.max(...points.map(({ values }) => {
        const all = [...values.values()];
        return this.isStacked ? all.reduce((sum, value) => sum + value, 0) : Math.max(0, ...all);
      }));
      const ticks = Page.ticksOf(most);
      const y = (value) => height - bottom - value / ticks.at(-1) * (height - top - bottom);
      const parts = [];
      for (const tick of ticks) {
        const label = Page.element(
          "text",
          { x: left - 8, y: y(tick) + 4, "text-anchor": "end" },
          Page.formatBytes(tick),
        );
        parts.push(
          Page.element("line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
          label,
        );
      }
      const step = [10, 15, 30, 60, 120, 300, 600].find((s) => (last - first) / 1000 / s <= (width - left) / 90) * 1000;
      for (let time = Math.ceil(first / step) * step; time <= last; time += step) {
        parts.push(
          Page.element("text", { x: x(time), y: height - 6, "text-anchor": "middle" }, Page.formatTime(time)),
        );
      }
      const below = points.map(() => 0);
      for (const { name, color } of series) {
        const tops = points.map(({ values }, index) => below[index] + (values.get(name) ?? 0));
        // A value holds until the next one, but not over a gap.
        const path = points.map(({ time }, index) => {
          const next = Math.min(points[index + 1]?.time ?? last, time + 3 * interval);
          return `M${x(time)} ${y(below[index])}V${y(tops[index])}H${x(next)}V${y(below[index])}Z`;
        }).join("");
        parts.push(Page.element("path", { class: `area c${color}`, d: path }));
        tops.forEach((top, index) => below[index] = top);
      }
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.replaceChildren(...parts);
    }

    /** Returns the series with the largest values, each with its color. */
    seriesOf(points) {
      const sums = new Map();
      for (const { values } of points) {
        for (const [name, value] of values) sums.set(name, (sums.get(name) ?? 0) + value);
      }
      const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)).slice(0, Page.maximumSeries);
      this.colors = this.colors.map((name) => names.includes(name) ? name : undefined);
      for (const name of names) {
        if (this.colors.includes(name)) continue;
        const free = this.colors.indexOf(undefined);
        this.colors[free < 0 ? this.colors.length : free] = name;
      }
      return names.map((name) => ({ name, color: this.colors.indexOf(name) }));
    }
  };

  /** Returns about four round numbers from 0 to at least `most`, of bytes. */
  static ticksOf(most) {
    let step = 1;
    while (step * 4 < most) step *= 2;
    return Array.from({ length: Math.max(2, Math.ceil(most / step) + 1) }, (_, index) => index * step);
  }
}
