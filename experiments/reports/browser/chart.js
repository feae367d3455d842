// Line charts as SVG: axes, grid, bands over seeds, markers and values under the pointer.
// Texts are set as text nodes, never as markup: names come from files.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 62, right: 14, top: 10, bottom: 42 };
const MOST_IN_TIP = 12;

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

// Numbers as text.

function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

// With its trailing zeros: the values of a column then have the same number of digits.
function aligned(value, digits) {
  const size = Math.abs(value);
  return size >= 1e-4 && size < 10 ** (digits - 1) ? value.toPrecision(digits) : number(value);
}

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${Number(value.toPrecision(3))} ${units[place]}`;
}

const FORMATS = {
  rounds: (value) => Math.round(value).toLocaleString("en-US"),
  bytes,
  seconds: (value) => `${number(value)} s`,
  virtual: (value) => `${number(value)} s`,
};

// Axes.

function ticks(low, high, count, whole) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const nice = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) || 10;
  const step = whole ? Math.max(1, Math.round(nice * power)) : nice * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) found.push(k * step || 0);
  return found;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const factors = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const skip = Math.max(1, Math.ceil(decades / 7));
  const found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    if (factors.length === 1 && e % skip) continue;
    for (const factor of factors) {
      const value = factor * 10 ** e;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}

function scale([low, high], [from, to], log) {
  if (log) {
    const span = Math.log(high / low) || 1;
    return (value) => from + (to - from) * Math.log(value / low) / span;
  }
  return (value) => from + (to - from) * (value - low) / (high - low || 1);
}

// The domain of y: that of the calm part of the shown curves. Diverged curves, and the steep start of a metric
// that rises, are cut off; they would flatten everything else.
function yDomain(series, log, rising) {
  const calm = series.filter((s) => s.state !== "diverged");
  const finished = calm.some((s) => s.state === "finished");
  let low = Infinity, high = -Infinity;
  for (const s of calm.length ? calm : series) {
    let start = rising && s.y.length > 20 ? Math.floor(s.y.length / 10) : 0;
    if (finished && s.state === "unfinished") start = s.y.length - 1; // only its present value must be seen
    for (let i = 0; i < s.y.length; i += 1) {
      if (log && !(s.y[i] > 0)) continue;
      if (i >= start) low = Math.min(low, s.y[i]);
      high = Math.max(high, s.y[i]);
    }
  }
  if (!(high > -Infinity)) return log ? [0.1, 1] : [0, 1];
  if (log) return low === high ? [low / 2, high * 2] : [low / 1.15, high * 1.15];
  const room = 0.05 * (high - low) || 0.05 * Math.abs(high) || 0.5;
  return [low - room, high + room];
}

function xDomain(series, log) {
  let low = Infinity, high = -Infinity;
  for (const s of series) for (const value of s.x) {
    if (log && !(value > 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(high > -Infinity)) return log ? [1, 10] : [0, 1];
  return log ? [low, high > low ? high : 2 * low] : [0, high];
}

// Curves.

function path(xs, ys, toX, toY, step = 1) {
  let text = "", pen = false;
  for (let i = 0; i < xs.length; i += (i + step < xs.length || i === xs.length - 1) ? step : xs.length - 1 - i) {
    const x = toX(xs[i]), y = toY(ys[i]);
    if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
    text += `${pen ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
    pen = true;
  }
  return text;
}

function band(s, toX, toY, floor) {
  const upper = [], lower = [];
  s.x.forEach((value, i) => {
    const x = toX(value), top = toY(s.y[i] + s.spread[i]);
    let bottom = toY(s.y[i] - s.spread[i]);
    if (!Number.isFinite(x) || !Number.isFinite(top)) return;
    if (!Number.isFinite(bottom)) bottom = floor; // a logarithm of zero or less
    upper.push(`${x.toFixed(1)},${top.toFixed(1)}`);
    lower.unshift(`${x.toFixed(1)},${bottom.toFixed(1)}`);
  });
  return upper.length ? `M${upper.join("L")}L${lower.join("L")}Z` : "";
}

const MARKERS = {
  o: "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0Z", s: "M-3,-3H3V3H-3Z", "^": "M0,-3.6L3.6,3H-3.6Z",
  v: "M0,3.6L3.6,-3H-3.6Z", D: "M0,-4L4,0L0,4L-4,0Z", P: "M-1,-4H1V-1H4V1H1V4H-1V1H-4V-1H-1Z",
  X: "M-4,-3L-3,-4L0,-1L3,-4L4,-3L1,0L4,3L3,4L0,1L-3,4L-4,3L-1,0Z",
  x: "M-6,-6L6,6M6,-6L-6,6",
};

function markers(s, toX, toY) {
  const made = [];
  const put = (i, shape, attributes) => {
    const x = toX(s.x[i]), y = toY(s.y[i]);
    if (Number.isFinite(x) && Number.isFinite(y)) {
      made.push(svg("path", { d: MARKERS[shape], transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
                              ...attributes }));
    }
  };
  const last = s.x.length - 1;
  if (s.marker) for (let k = 0; k <= 8; k += 1) put(Math.round(last * k / 8), s.marker, { fill: s.colour });
  if (s.state === "diverged") put(last, "x", { stroke: s.colour, "stroke-width": 2.5 });
  if (s.state === "unfinished") put(last, "o", { stroke: s.colour, "stroke-width": 2, class: "open" });
  return made;
}

// Draws a chart into `place` and returns its SVG element.
//
// spec: {series, context, x, y: {label}, what, logX, logY, rising, level, bands, width, height, small, domain}
// `series` are drawn in colour, `context` thin and grey behind them.
function drawChart(place, spec) {
  const { width, height } = spec;
  const margin = spec.small ? { left: 44, right: 8, top: 6, bottom: 24 } : MARGIN;
  const all = [...spec.series, ...spec.context];
  const domainX = spec.domainX || xDomain(all, spec.logX);
  const domainY = spec.domainY || yDomain(spec.series.length ? spec.series : all, spec.logY, spec.rising);
  const toX = scale(domainX, [margin.left, width - margin.right], spec.logX);
  const toY = scale(domainY, [height - margin.bottom, margin.top], spec.logY);
  const clip = `clip-${drawChart.count = (drawChart.count || 0) + 1}`;
  const axes = svg("g", { class: "axes" });
  const xTicks = spec.logX ? logTicks(...domainX)
    : ticks(...domainX, spec.small ? 3 : 6, spec.what === "rounds");
  const yTicks = spec.logY ? logTicks(...domainY) : ticks(...domainY, spec.small ? 3 : 6, false);
  for (const value of xTicks) {
    axes.append(svg("line", { x1: toX(value), x2: toX(value), y1: margin.top, y2: height - margin.bottom }),
                svg("text", { x: toX(value), y: height - margin.bottom + 16, "text-anchor": "middle" },
                    FORMATS[spec.what](value)));
  }
  for (const value of yTicks) {
    axes.append(svg("line", { x1: margin.left, x2: width - margin.right, y1: toY(value), y2: toY(value) }),
                svg("text", { x: margin.left - 7, y: toY(value) + 4, "text-anchor": "end" }, number(value)));
  }
  if (!spec.small) {
    const middle = (margin.top + height - margin.bottom) / 2;
    axes.append(
      svg("text", { x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle",
                    class: "title" }, spec.xLabel),
      svg("text", { x: 0, y: 0, transform: `translate(14,${middle}) rotate(-90)`, "text-anchor": "middle",
                    class: "title" }, spec.yLabel));
  }
  const lines = svg("g", { "clip-path": `url(#${clip})` });
  if (spec.context.length) {
    const behind = spec.behind || spec.context.map((s) =>
      path(s.x, s.y, toX, toY, Math.max(1, Math.floor(s.x.length / 80)))).join("");
    lines.append(svg("path", { d: behind, class: "context" }));
    spec.behind = behind;
  }
  if (Number.isFinite(spec.level) && Number.isFinite(toY(spec.level))) {
    lines.append(svg("line", { x1: margin.left, x2: width - margin.right, y1: toY(spec.level),
                               y2: toY(spec.level), class: "level" }));
  }
  const floor = height - margin.bottom;
  for (const s of spec.series) {
    const group = svg("g", { class: "series", "data-label": s.label });
    if (spec.bands && s.spread) {
      group.append(svg("path", { d: band(s, toX, toY, floor), fill: s.colour, class: "band" }));
    }
    if (s.raw && spec.series.length <= MOST_IN_TIP) {
      group.append(svg("path", { d: path(s.x, s.raw, toX, toY), stroke: s.colour, class: "raw" }));
    }
    group.append(svg("path", { d: path(s.x, s.y, toX, toY), stroke: s.colour, class: "line",
                               "stroke-dasharray": s.dash }),
                 ...markers(s, toX, toY));
    lines.append(group);
  }
  const pointer = svg("g", { class: "pointer" });
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", tabindex: 0,
                            "aria-label": spec.title },
    svg("defs", {}, svg("clipPath", { id: clip }, svg("rect", {
      x: margin.left, y: margin.top, width: Math.max(0, width - margin.left - margin.right),
      height: Math.max(0, height - margin.top - margin.bottom) }))),
    axes, lines, pointer);
  place.append(made);
  if (spec.series.length) followPointer(made, pointer, spec, { toX, toY, margin, domainX });
  return made;
}

// Values under the pointer.

function nearest(values, wanted) {
  let low = 0, high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle; else high = middle;
  }
  return Math.abs(values[low] - wanted) <= Math.abs(values[high] - wanted) ? low : high;
}

function followPointer(made, pointer, spec, axes) {
  const { toX, toY, margin } = axes;
  const leave = () => { pointer.replaceChildren(); hideTip(); };
  const show = (x, y, clientX, clientY) => {
    const points = [];
    for (const s of spec.series) {
      const pixels = s.pixels || (s.pixels = s.x.map(toX));
      const i = nearest(pixels, x);
      // A curve that ended long before the pointer has no value there.
      if (!Number.isFinite(pixels[i]) || !Number.isFinite(toY(s.y[i]))) continue;
      if (Math.abs(pixels[i] - x) > 24 && s.x.length > 1) continue;
      points.push({ s, i, px: pixels[i], py: toY(s.y[i]) });
    }
    if (!points.length) { leave(); return; }
    points.sort((a, b) => Math.abs(a.py - y) - Math.abs(b.py - y));
    const closest = points[0];
    const shown = points.slice(0, MOST_IN_TIP).sort((a, b) => a.py - b.py);
    pointer.replaceChildren(
      svg("line", { x1: closest.px, x2: closest.px, y1: margin.top, y2: spec.height - margin.bottom }),
      ...shown.map((p) => svg("circle", { cx: p.px, cy: p.py, r: p === closest ? 5 : 3, fill: p.s.colour })));
    showTip(closest, shown, points.length, spec, clientX, clientY);
  };
  made.addEventListener("pointermove", (event) => {
    const box = made.getBoundingClientRect();
    const ratio = spec.width / box.width;
    show((event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio, event.clientX, event.clientY);
  });
  made.addEventListener("pointerleave", leave);
  made.addEventListener("blur", leave);
  let at = spec.width / 2;
  made.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
    if (event.key === "Escape") leave();
    if (!step) return;
    event.preventDefault();
    at = Math.min(spec.width - margin.right, Math.max(margin.left, at + step));
    const box = made.getBoundingClientRect();
    show(at, spec.height / 2, box.left + at * box.width / spec.width, box.top + box.height / 3);
  });
}

function showTip(closest, shown, count, spec, clientX, clientY) {
  const tip = document.getElementById("tip");
  const rows = shown.map(({ s, i }) => {
    const spread = s.spread && s.spread[i] > 0 ? ` ± ${aligned(s.spread[i], 2)}` : "";
    return html("tr", { class: s === closest.s ? "closest" : null },
      html("td", {}, swatch(s)), html("td", {}, s.label),
      html("td", {}, `${aligned(s.y[i], 4)}${spread}`));
  });
  tip.replaceChildren(
    html("strong", {}, `${spec.yLabel} at ${FORMATS[spec.what](closest.s.x[closest.i])}` +
         (spec.what === "rounds" ? " rounds" : "")),
    html("table", {}, html("tbody", {}, ...rows)),
    html("small", {}, [
      count > shown.length ? `the ${shown.length} nearest of ${count} curves` : "",
      closest.s.raw ? `not smoothed: ${number(closest.s.raw[closest.i])}` : "",
    ].filter(Boolean).join("; ")));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = clientX + 18 + width > window.innerWidth ? clientX - width - 18 : clientX + 18;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.min(Math.max(4, clientY - height / 2), window.innerHeight - height - 4)}px`;
}

function hideTip() { document.getElementById("tip").hidden = true; }

function swatch(s) {
  const shape = s.marker ? [svg("path", { d: MARKERS[s.marker], transform: "translate(15,6)", fill: s.colour })] : [];
  return svg("svg", { viewBox: "0 0 30 12", class: "swatch", "aria-hidden": "true" },
    svg("line", { x1: 1, x2: 29, y1: 6, y2: 6, stroke: s.colour, "stroke-dasharray": s.dash }), ...shape);
}
