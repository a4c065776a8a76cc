/**
 * The script of the page that `poolpass top --web` serves, as a class that refers to nothing outside of it: the server
 * sends its text. It shows the states that the server sends, and draws those that it has received so far as SVG. Text
 * from other processes is only ever assigned to `textContent` and to attributes that browsers do not interpret.
 */
export class Page {
  /** The number of states that charts show at most. */
  static maximumPoints = 600;
  /** The time between two readings of the trace, in milliseconds. */
  static tracePause = 10_000;

  /** What charts show of the states received so far: the oldest first. */
  points = [];
  /** The memory that the chart shows: that of `rows`, `sources` or `processes`. */
  memoryBy = "rows";
  /** The time at which charts show values; undefined for the last one. */
  cursor = undefined;
  isPaused = false;

  constructor(body, { interval, hasTrace }) {
    this.interval = interval;
    this.find = (id) => body.querySelector(`#${id}`);
    const charts = [
      ["memory", { title: "Memory", unit: "bytes", isStacked: true, read: (series) => series[this.memoryBy] }],
      ["frames", { title: "Sent frames", unit: "frames/s", read: ({ frames }) => frames }],
      ["dropped", { title: "Dropped frames", unit: "frames/s", read: ({ dropped }) => dropped }],
      ["lag", { title: "Largest lag of a consumer", unit: "frames", read: ({ lag }) => lag }],
    ];
    this.charts = charts.map(([id, options]) => new Page.Chart(this, this.find(id), options));
    this.find("pause").addEventListener("click", () => this.pause(!this.isPaused));
    this.find("by").addEventListener("change", ({ target }) => {
      this.memoryBy = target.value;
      this.draw();
    });
    this.find("trace").hidden = !hasTrace;
    this.hasTrace = hasTrace;
    document.addEventListener("visibilitychange", () => this.poll());
    new ResizeObserver(() => this.draw()).observe(this.find("memory"));
    this.poll();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    this.find("pause").setAttribute("aria-pressed", isPaused);
    if (isPaused) this.say("Paused", "paused");
    this.poll();
  }

  /** Requests a state now, and again after each interval, unless nobody looks. */
  async poll() {
    clearTimeout(this.timer);
    if (this.isPaused || document.hidden || this.isPolling) return;
    this.isPolling = true;
    try {
      const response = await fetch("state", { signal: AbortSignal.timeout(10_000) });
      if (!response.ok) throw new Error(`HTTP status ${response.status}`);
      this.take(await response.json());
    } catch (error) {
      this.say(`poolpass top does not answer: ${error.message}`, "problem");
    }
    this.isPolling = false;
    this.timer = setTimeout(() => this.poll(), this.interval);
  }

  say(text, kind = "") {
    if (this.isPaused && kind !== "paused") return;
    Page.write(this.find("status"), text);
    this.find("status").className = kind;
  }

  take({ problem, time, summary, columns, lines, omitted, series, log }) {
    this.showLog(log);
    if (problem !== undefined) return this.say(`Trying again: ${problem}`, "problem");
    this.say(`Live, every ${this.interval / 1000} s`);
    const [title, ...more] = summary;
    Page.write(this.find("title"), title);
    Page.write(this.find("totals"), more.join(". "));
    this.showTable(columns, lines);
    Page.write(this.find("omitted"), omitted === 0 ? "" : `${omitted} more are not listed.`);
    // Another browser may have asked for this state, too.
    if (time === this.points.at(-1)?.time) return;
    const maps = Object.entries(series).map(([name, values]) => [name, new Map(values)]);
    this.points.push({ time, series: Object.fromEntries(maps) });
    if (this.points.length > Page.maximumPoints) this.points.shift();
    this.draw();
    if (this.hasTrace && !(time - this.traceTime < Page.tracePause)) {
      this.traceTime = time;
      this.find("trace").querySelector("img").src = `trace.svg?${time}`;
    }
  }

  draw() {
    const { points } = this;
    if (points.length === 0) return;
    this.find("channels").hidden = points.every(({ series }) => series.lag.size === 0);
    for (const chart of this.charts) chart.draw(points, Math.max(3000, 3 * this.interval));
  }

  /** Sets the time at which all charts show values; undefined for the last one. */
  moveCursor(time) {
    this.cursor = time;
    this.draw();
  }

  /** Shows the lines of the table. */
  showTable(columns, lines) {
    const [heading, body] = [this.find("heading"), this.find("lines")];
    const cellsOf = (element) =>
      columns.map(({ name, align = "" }) => {
        const cell = Page.html(element, { class: align });
        if (element === "th") cell.scope = "col";
        cell.dataset.label = name;
        return cell;
      });
    const names = columns.map(({ name }) => name);
    if ([...heading.children].map(({ dataset: { label } }) => label).join() !== names.join()) {
      heading.replaceChildren(...cellsOf("th"));
      names.forEach((name, index) => Page.write(heading.children[index], name));
      body.replaceChildren();
    }
    Page.fill(body, lines, () => Page.html("tr", {}, ...cellsOf("td")), (row, line) => {
      row.className = line[0] === "" ? "" : "first";
      line.forEach((text, index) => Page.write(row.children[index], text));
    });
  }

  showLog(log) {
    Page.fill(this.find("log"), log, () => Page.html("li", {}, Page.html("time", {}), Page.html("span", {})), (
      { children: [when, what] },
      { time, text },
    ) => {
      Page.write(when, Page.formatTime(time));
      Page.write(what, text);
    });
  }

  /** Sets the text of an element, unless it is that already: a selection in it stays. */
  static write(element, text) {
    if (element.textContent !== Page.short(text)) element.textContent = Page.short(text);
  }

  /** Cuts a string that is too long to be read. */
  static short(text) {
    return text.length > 400 ? `${text.slice(0, 400)}… (${text.length} characters)` : text;
  }

  /** Makes `parent` have one child for each item, and updates each. */
  static fill(parent, items, create, update) {
    while (parent.children.length > items.length) parent.lastChild.remove();
    while (parent.children.length < items.length) parent.append(create());
    items.forEach((item, index) => update(parent.children[index], item));
  }

  static html(name, attributes, ...children) {
    return Page.attach(document.createElement(name), attributes, children);
  }

  static svg(name, attributes, ...children) {
    return Page.attach(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
  }

  static attach(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  static formatBytes(bytes) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
    return `${(bytes / 1024 ** power).toFixed(1).replace(".0", "")} ${units[power]}`;
  }

  static formatNumber(value) {
    return value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 1 : 0 });
  }

  static formatTime(time) {
    return new Date(time).toLocaleTimeString("en-GB");
  }

  /** A chart of values over time, as stacked areas or as lines, which shows the values at the page's cursor. */
  static Chart = class {
    static maximumSeries = 7;
    static size = { height: 210, left: 72, right: 14, top: 24, bottom: 40 };
    /** The names of the series by color. A series keeps its color while it is shown. */
    colors = [];

    constructor(page, figure, { title, unit, read, isStacked = false }) {
      Object.assign(this, { page, figure, title, unit, read, isStacked });
      this.svg = Page.svg("svg", { role: "slider", tabindex: 0, "aria-label": `${title} in ${unit}, by time` });
      this.legend = Page.html("ul", { class: "legend" });
      this.when = Page.html("span", {});
      figure.append(Page.html("figcaption", {}, `${title} `, this.when), this.svg, this.legend);
      this.svg.addEventListener("pointermove", ({ offsetX }) => page.moveCursor(this.timeAt(offsetX)));
      this.svg.addEventListener("pointerleave", () => page.moveCursor());
      this.svg.addEventListener("blur", () => page.moveCursor());
      this.svg.addEventListener("keydown", (event) => this.press(event));
    }

    /** Moves the cursor by the keyboard. */
    press(event) {
      const { points, cursor } = this.page;
      const index = cursor === undefined ? points.length - 1 : this.indexAt(points, cursor);
      const steps = {
        ArrowLeft: -1,
        ArrowRight: 1,
        PageUp: -10,
        PageDown: 10,
        Home: -points.length,
        End: points.length,
      };
      if (event.key === "Escape") return this.page.moveCursor();
      if (steps[event.key] === undefined || points.length === 0) return;
      event.preventDefault();
      this.page.moveCursor(points[Math.max(0, Math.min(points.length - 1, index + steps[event.key]))].time);
    }

    timeAt(x) {
      const { left, right } = this.constructor.size;
      const part = (x - left) / (this.width - left - right);
      return this.first + Math.max(0, Math.min(1, part)) * (this.last - this.first);
    }

    /** Returns the index of the last point that is not after a time. */
    indexAt(points, time) {
      return Math.max(0, points.findLastIndex((point) => point.time <= time));
    }

    /** Draws points. A value holds until the next point, unless that is more than `gap` milliseconds later. */
    draw(points, gap) {
      const { height, left, right, top, bottom } = this.constructor.size;
      this.width = this.figure.clientWidth;
      if (this.width === 0) return;
      this.last = points.at(-1).time;
      this.first = Math.min(points[0].time, this.last - 30_000);
      const round = (value) => Math.round(value * 10) / 10;
      const x = (time) => round(left + (time - this.first) / (this.last - this.first) * (this.width - left - right));
      const { series, values } = this.seriesOf(points.map((point) => this.read(point.series)));
      const ticks = this.ticksFor(Math.max(...values.map((each) => this.heightOf(each))));
      const y = (value) => round(height - bottom - value / ticks.at(-1) * (height - top - bottom));
      const next = points.map(({ time }, index) => Math.min(points[index + 1]?.time ?? this.last, time + gap));
      const below = points.map(() => 0);
      const paths = series.map(({ name, color }) => {
        const tops = values.map((each, index) => below[index] + (each.get(name) ?? 0));
        const path = this.pathOf({ values, name, tops, below, next, points, x, y });
        if (this.isStacked) tops.forEach((value, index) => below[index] = value);
        return Page.svg("path", { class: `${this.isStacked ? "area" : "line"} c${color}`, d: path });
      });
      const index = this.page.cursor === undefined ? points.length - 1 : this.indexAt(points, this.page.cursor);
      const at = x(points[index].time);
      const cursor = Page.svg("line", { class: "cursor", x1: at, x2: at, y1: top, y2: height - bottom });
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
      this.svg.setAttribute("height", height);
      this.svg.replaceChildren(...this.axes(ticks, x, y), ...paths, ...this.page.cursor === undefined ? [] : [cursor]);
      const range = { min: 0, max: points.length - 1, now: index };
      for (const [name, value] of Object.entries(range)) this.svg.setAttribute(`aria-value${name}`, value);
      this.showLegend(series, values[index], points[index].time);
    }

    /** Returns the path of a series: a line, or the area between `below` and `tops`. */
    pathOf({ values, name, tops, below, next, points, x, y }) {
      let [path, back, isOpen] = ["", "", false];
      for (const [index, { time }] of points.entries()) {
        if (!values[index].has(name) && !this.isStacked) isOpen = false;
        else {
          path += isOpen ? `V${y(tops[index])}` : `${back}M${x(time)} ${y(tops[index])}`;
          if (!isOpen) back = this.isStacked ? "Z" : "";
          path += `H${x(next[index])}`;
          if (this.isStacked) back = `V${y(below[index])}H${x(time)}${back}`;
          isOpen = points[index + 1]?.time === next[index];
        }
      }
      return path + back;
    }

    /** Returns the series with the largest values, their colors, and the values with all other series as one. */
    seriesOf(all) {
      const sums = new Map();
      for (const values of all) for (const [name, value] of values) sums.set(name, (sums.get(name) ?? 0) + value);
      const sorted = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
      const names = sorted.slice(0, this.constructor.maximumSeries);
      this.colors = this.colors.map((name) => names.includes(name) ? name : undefined);
      for (const name of names.filter((name) => !this.colors.includes(name))) {
        const slots = Array.from({ length: this.constructor.maximumSeries }, (_, color) => color);
        const free = slots.filter((color) => this.colors[color] === undefined);
        // If possible, the color that the name has in another chart.
        const other = this.page.charts.map(({ colors }) => colors.indexOf(name)).find((color) => free.includes(color));
        this.colors[other ?? free[0]] = name;
      }
      const series = names.map((name) => ({ name, color: this.colors.indexOf(name) }));
      const rest = sorted.slice(names.length);
      if (rest.length === 0 || !this.isStacked) return { series, values: all };
      const other = `${rest.length} others`;
      const sumOf = (values) => rest.reduce((sum, name) => sum + (values.get(name) ?? 0), 0);
      series.push({ name: other, color: this.constructor.maximumSeries });
      const shown = (values) => [...values].filter(([name]) => names.includes(name));
      return { series, values: all.map((values) => new Map([...shown(values), [other, sumOf(values)]])) };
    }

    heightOf(values) {
      const all = [...values.values()];
      return this.isStacked ? all.reduce((sum, value) => sum + value, 0) : Math.max(0, ...all);
    }

    format(value) {
      return this.unit === "bytes" ? Page.formatBytes(value) : Page.formatNumber(value);
    }

    /** Returns up to five round values from 0 to at least `most`. */
    ticksFor(most) {
      const power = this.unit === "bytes"
        ? 2 ** Math.floor(Math.log2(Math.max(most, 4) / 4))
        : 10 ** Math.floor(Math.log10(Math.max(most, 4) / 4));
      const step = [1, 2, 5, 10].find((factor) => factor * power * 4 >= most) * power;
      return Array.from({ length: Math.max(1, Math.ceil(most / step)) + 1 }, (_, index) => index * step);
    }

    /** Draws the axes with their labels. */
    axes(ticks, x, y) {
      const { height, left, right, bottom } = this.constructor.size;
      const label = (x, y, anchor, text) => Page.svg("text", { x, y, "text-anchor": anchor }, text);
      const seconds = [5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
      const span = this.last - this.first;
      const step = (seconds.find((each) => span / each / 1000 <= (this.width - left) / 95) ?? 7200) * 1000;
      const count = Math.floor(this.last / step) - Math.ceil(this.first / step) + 1;
      const times = Array.from({ length: count }, (_, index) => (Math.ceil(this.first / step) + index) * step)
        .filter((time) => x(time) < this.width - 30);
      return [
        ...ticks.flatMap((tick) => [
          Page.svg("line", { class: "rule", x1: left, x2: this.width - right, y1: y(tick), y2: y(tick) }),
          label(left - 8, y(tick) + 4, "end", this.format(tick)),
        ]),
        ...times.map((time) => label(x(time), height - bottom + 17, "middle", Page.formatTime(time))),
        label(left - 8, 12, "end", this.unit),
        label((left + this.width - right) / 2, height - 4, "middle", "local time"),
      ];
    }

    /** Shows the values at a time, for the eye and for screen readers. */
    showLegend(series, values, time) {
      const text = (name) => values.has(name) ? this.format(values.get(name)) : "–";
      const shown = series.map(({ name }) => `${Page.short(name)}: ${text(name)}`).join(", ");
      this.svg.setAttribute("aria-valuetext", `${Page.formatTime(time)}: ${shown || "nothing"}`);
      const total = this.isStacked ? `${this.format(this.heightOf(values))} in total` : "";
      Page.write(this.when, `${total}${this.page.cursor === undefined ? "" : ` at ${Page.formatTime(time)}`}`);
      const create = () => {
        const swatch = Page.svg(
          "svg",
          { "aria-hidden": true },
          Page.svg("path", { d: this.isStacked ? "M0 0H22V10H0Z" : "M0 5H22" }),
        );
        return Page.html("li", {}, swatch, Page.html("span", { class: "name" }), Page.html("span", {}));
      };
      Page.fill(this.legend, series, create, ({ children: [swatch, label, value] }, { name, color }) => {
        swatch.firstChild.setAttribute("class", `${this.isStacked ? "area" : "line"} c${color}`);
        Page.write(label, name);
        label.title = Page.short(name);
        Page.write(value, text(name));
      });
    }
  };
}
