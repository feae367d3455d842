// The controls, the legend and the charts of one setting. The state outlives a refresh of the page.

const WINDOWS = [1, 3, 5, 11, 21, 41, 81];
const MANY = 12; // with more methods than this, only the best are in colour at first
const BEST = 8;
const states = new Map();

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

// A colour that can be seen on the page's background: dark colours are lightened on a dark page.
function themed(colour) {
  if (!isDark()) return colour;
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const light = (0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2]) / 255;
  const mix = light < 0.1 ? 0.9 : Math.max(0, 0.62 - light) * 0.9;
  return `#${parts.map((p) => Math.round(p + (255 - p) * mix).toString(16).padStart(2, "0")).join("")}`;
}

function smoothed(values, size) {
  if (size === 1) return values;
  const half = (size - 1) / 2, sums = [0];
  for (const value of values) sums.push(sums[sums.length - 1] + value);
  return values.map((_, i) => {
    const from = Math.max(0, i - half), to = Math.min(values.length, i + half + 1);
    return (sums[to] - sums[from]) / (to - from);
  });
}

function interpolated(wanted, known, values) {
  let k = 0;
  return wanted.map((round) => {
    while (k < known.length - 2 && known[k + 1] < round) k += 1;
    if (known.length < 2) return values[0];
    const share = (round - known[k]) / (known[k + 1] - known[k]);
    return values[k] + share * (values[k + 1] - values[k]);
  });
}

// A series of the data as a chart draws it; null if it lacks the metric or the cost.
function curveOf(given, state) {
  const column = given.columns[state.metric];
  if (!column) return null;
  if (state.x !== "rounds" && !given.spent[state.x]) return null;
  const x = state.x === "rounds" ? column.rounds
    : interpolated(column.rounds, given.spent.rounds, given.spent[state.x]);
  const size = WINDOWS[state.smooth];
  return {
    label: given.label, state: given.state, colour: themed(given.colour), dash: given.dash, marker: given.marker,
    x, y: smoothed(column.mean, size), raw: size > 1 ? column.mean : null,
    spread: column.std ? smoothed(column.std, size) : null,
  };
}

function startState(setting) {
  const labels = setting.series.map((s) => s.label);
  const chosen = new Set(labels.length <= MANY ? labels : bestOf(setting));
  return { metric: setting.columns[0].key, x: "rounds", logX: false, logY: setting.columns[0].log, smooth: 0,
           bands: true, view: "one", filter: "", chosen, known: new Set(labels), off: new Set() };
}

// The data lists the series from the best to the worst, unfinished runs last.
function bestOf(setting) {
  const finished = setting.series.filter((s) => s.state === "finished").slice(0, BEST).map((s) => s.label);
  const always = setting.series.filter((s) => s.state === "unfinished" || s.label === setting.baseline);
  return [...finished, ...always.map((s) => s.label)];
}

function matches(label, filter) {
  const words = filter.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
  return !words.length || words.some((word) => label.toLowerCase().includes(word));
}

function isActive(label, state) {
  return state.filter.trim() ? matches(label, state.filter) && !state.off.has(label) : state.chosen.has(label);
}

function option(text, value, chosen) {
  return html("option", { value, selected: value === chosen }, text);
}

class Explorer {
  constructor(place, setting) {
    this.setting = setting;
    this.state = states.get(setting.label) || startState(setting);
    states.set(setting.label, this.state);
    if (!setting.columns.some((c) => c.key === this.state.metric)) this.state.metric = setting.columns[0].key;
    if (!setting.x[this.state.x]) this.state.x = "rounds";
    for (const s of setting.series) { // a method that is new since the last refresh
      if (!this.state.known.has(s.label) && setting.series.length <= 2 * MANY) this.state.chosen.add(s.label);
      this.state.known.add(s.label);
    }
    this.legend = html("ul", { class: "legend" });
    this.count = html("p", { class: "count", "aria-live": "polite" });
    this.charts = html("div", { class: "charts" });
    const main = html("div", { class: "drawing" }, this.charts);
    place.replaceChildren(this.controls(), html("div", { class: "stage" }, main,
      html("div", { class: "side" }, this.filterBox(), this.count, this.legend)));
    place.hidden = false;
    this.place = place;
    new ResizeObserver(() => {
      if (Math.abs(this.charts.clientWidth - this.drawnWidth) > 2) this.draw();
    }).observe(this.charts);
    this.draw();
  }

  set(changes) { Object.assign(this.state, changes); this.draw(); }

  controls() {
    const { setting, state } = this;
    const check = (name, text) => html("label", {}, html("input", {
      type: "checkbox", name, checked: state[name],
      onchange: (event) => this.set({ [name]: event.target.checked }) }), ` ${text}`);
    const metric = html("select", { name: "metric", onchange: (event) => {
      const column = setting.columns.find((c) => c.key === event.target.value);
      state.logY = column.log;
      this.place.querySelector("[name=logY]").checked = column.log;
      this.set({ metric: column.key });
    } }, ...setting.columns.map((c) => option(c.label, c.key, state.metric)));
    const against = html("select", { name: "x", onchange: (event) => this.set({ x: event.target.value }) },
      ...Object.entries(setting.x).map(([what, label]) => option(label, what, state.x)));
    const size = html("output", {}, this.windowText());
    const smooth = html("input", { type: "range", name: "smooth", min: 0, max: WINDOWS.length - 1,
      value: state.smooth, oninput: (event) => {
        this.set({ smooth: Number(event.target.value) });
        size.textContent = this.windowText();
      } });
    const view = html("select", { name: "view", onchange: (event) => this.set({ view: event.target.value }) },
      option("one chart", "one", state.view), option("small multiples", "multiples", state.view));
    return html("form", { class: "controls", onsubmit: (event) => event.preventDefault() },
      html("label", {}, "Metric ", metric), html("label", {}, "against ", against),
      html("label", {}, "View ", view), check("logX", "log x"), check("logY", "log y"),
      setting.series.some((s) => Object.values(s.columns).some((c) => c.std)) ? check("bands", "± std") : null,
      html("label", {}, "Smoothing ", smooth, " ", size));
  }

  windowText() {
    const size = WINDOWS[this.state.smooth];
    return size === 1 ? "off" : `mean of ${size}`;
  }

  filterBox() {
    const { setting, state } = this;
    const choose = (labels) => {
      if (state.filter.trim()) {
        const kept = new Set(labels);
        state.off = new Set(setting.series.map((s) => s.label).filter((label) => !kept.has(label)));
      } else state.chosen = new Set(labels);
      this.draw();
    };
    const button = (text, labels) => html("button", { type: "button", onclick: () => choose(labels()) }, text);
    return html("div", { class: "filter" },
      html("input", { type: "search", name: "filter", placeholder: "Filter methods: mime, ghbm", value: state.filter,
                      "aria-label": "Filter methods",
                      oninput: (event) => { state.off.clear(); this.set({ filter: event.target.value }); } }),
      html("div", { class: "buttons" },
        button("All", () => setting.series.map((s) => s.label)),
        button("None", () => []),
        setting.series.length > BEST ? button(`Best ${BEST}`, () => bestOf(setting)) : null));
  }

  toggle(label, only) {
    const { state, setting } = this;
    const set = state.filter.trim() ? state.off : state.chosen;
    if (only) {
      const others = setting.series.map((s) => s.label).filter((other) => other !== label);
      if (set === state.off) state.off = new Set(others); else state.chosen = new Set([label]);
    } else if (set.has(label)) set.delete(label); else set.add(label);
    this.draw();
  }

  draw() {
    const { setting, state } = this;
    const column = setting.columns.find((c) => c.key === state.metric);
    const curves = new Map();
    for (const s of setting.series) {
      const made = curveOf(s, state);
      if (made && made.x.length) curves.set(s.label, made);
    }
    const shown = [], context = [];
    for (const [label, made] of curves) {
      if (isActive(label, state)) shown.push(made);
      else if (made.state === "finished") context.push(made);
    }
    this.drawLegend(curves);
    const total = setting.series.length;
    this.count.textContent = shown.length === total ? `${total} curves`
      : `${shown.length} of ${total} curves in colour`;
    this.drawnWidth = this.charts.clientWidth;
    const spec = {
      logX: state.logX, logY: state.logY, what: state.x, xLabel: setting.x[state.x], yLabel: column.label,
      rising: column.rising, bands: state.bands, level: column.key === setting.metric ? setting.level : NaN,
      title: `${column.label} against ${setting.x[state.x].toLowerCase()}: ${shown.map((s) => s.label).join(", ")}`,
    };
    this.charts.replaceChildren();
    hideTip();
    if (state.view === "multiples") this.drawMultiples(shown, [...curves.values()], spec);
    else {
      const width = Math.max(320, this.drawnWidth);
      drawChart(this.charts, { ...spec, series: shown, context, width, height: width > 700 ? 440 : 320 });
    }
    if (!shown.length) this.charts.append(html("p", { class: "empty" }, curves.size
      ? "No curve is chosen: press All, or change the filter." : "No run has measured this yet."));
  }

  // One small chart for each chosen curve, with all curves in grey behind it and the same axes everywhere.
  drawMultiples(shown, all, spec) {
    const columns = Math.max(1, Math.floor(this.drawnWidth / 250));
    const width = Math.floor((this.drawnWidth - 10 * (columns - 1)) / columns);
    const context = all.filter((s) => s.state === "finished");
    const calm = [...shown, ...context];
    const shared = { domainX: xDomain(calm, spec.logX), domainY: yDomain(calm, spec.logY, spec.rising) };
    const grid = html("div", { class: "multiples" });
    let behind = null;
    for (const s of shown) {
      const cell = html("div", { class: "multiple" }, html("h4", {}, s.label));
      const one = { ...spec, ...shared, series: [s], context, behind, width, height: Math.round(width * 0.62),
                    small: true, title: `${spec.yLabel}: ${s.label}` };
      drawChart(cell, one);
      behind = one.behind; // the grey curves are the same everywhere
      grid.append(cell);
    }
    this.charts.append(grid);
  }

  drawLegend(curves) {
    const { setting, state } = this;
    const rows = setting.series.filter((s) => matches(s.label, state.filter)).map((s) => {
      const active = isActive(s.label, state);
      const look = curves.get(s.label) || { ...s, colour: themed(s.colour) };
      const light = (on) => {
        this.charts.classList.toggle("dim", on && active);
        for (const group of this.charts.querySelectorAll(".series")) {
          group.classList.toggle("lit", on && group.dataset.label === s.label);
        }
      };
      return html("li", { class: `${s.state}${active ? "" : " off"}`, title: `${s.note}; double-click: this one only`,
                          onpointerenter: () => light(true), onpointerleave: () => light(false) },
        html("label", { ondblclick: (event) => { event.preventDefault(); this.toggle(s.label, true); } },
          html("input", { type: "checkbox", checked: active, onchange: () => this.toggle(s.label, false) }),
          swatch(look), html("span", { class: "name" }, s.label),
          html("span", { class: "value" }, s.final)));
    });
    this.legend.replaceChildren(...rows);
  }
}
