// Helpers of all widgets. Pictures are written as SVG text, controls are real HTML elements.

const escapeText = (text) =>
  String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** Create an element; properties that begin with "aria" or "data", and `role`, as attributes. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (/^(aria-|data-|role$)/.test(name)) element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Build the frame: question, one thing to try, controls, pictures, live sentence, table. */
function makeFrame(el, question, attempt) {
  const frame = {
    controls: make("div", { className: "tfc-controls" }),
    sentence: make("p", { className: "tfc-sentence", "aria-live": "polite" }),
    pictures: make("div", { className: "tfc-pictures" }),
    table: make("div", {
      className: "tfc-scroll", tabIndex: 0, role: "group", "aria-label": "Values as a table",
    }),
  };
  frame.root = make(
    "div",
    // JupyterLab would take the arrow keys for itself without the attribute.
    {
      className: "tfcourse-widget", role: "group", "aria-label": question,
      "data-lm-suppress-shortcuts": "true",
    },
    make("p", { className: "tfc-question" }, question),
    make("p", { className: "tfc-try" }, make("strong", {}, "Try: "), attempt),
    frame.controls,
    frame.sentence,
    frame.pictures,
    make("details", {}, make("summary", {}, "The values as a table"), frame.table),
  );
  el.append(frame.root);
  return frame;
}

/** A range over positions 0..count-1; `text(i)` says what position i means. */
function makeSlider(label, text, onInput) {
  const input = make("input", { type: "range", min: 0, step: 1 });
  const value = make("span", { className: "tfc-value" });
  const set = (position, count) => {
    input.max = count - 1;
    input.value = position;
    value.textContent = text(position);
    input.setAttribute("aria-valuetext", text(position));
  };
  input.addEventListener("input", () => onInput(Number(input.value)));
  return { element: make("label", {}, label, " ", input, value), set };
}

function makeCheckbox(label, onInput) {
  const input = make("input", { type: "checkbox" });
  input.addEventListener("change", () => onInput(input.checked));
  return { element: make("label", {}, input, " ", label), input };
}

/** A menu of texts; reports the position that was chosen. */
function makeMenu(label, texts, onInput) {
  const input = make("select", {}, ...texts.map((t) => make("option", {}, t)));
  input.addEventListener("change", () => onInput(input.selectedIndex));
  return { element: make("label", {}, label, " ", input), input };
}

function fillTable(host, caption, head, rows, current = -1) {
  const cells = (tag, texts) => texts.map((t) => `<${tag}>${escapeText(t)}</${tag}>`).join("");
  host.innerHTML =
    `<table><caption>${escapeText(caption)}</caption><thead><tr>${cells("th", head)}</tr></thead>` +
    `<tbody>${rows
      .map((r, i) => `<tr${i === current ? ' class="tfc-current"' : ""}>${cells("td", r)}</tr>`)
      .join("")}</tbody></table>`;
}

/** Call `draw` now, on each of the model's `events`, and when the width changes. */
function keepDrawn(model, frame, events, draw) {
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (frame.pictures.clientWidth === width) return;
    width = frame.pictures.clientWidth;
    draw();
  });
  observer.observe(frame.pictures);
  model.on(events, draw);
  draw();
  return () => {
    observer.disconnect();
    model.off(events, draw);
  };
}

/** Set one trait; with a kernel it is told, without one the page alone changes. */
function change(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

const superscript = (n) =>
  String(n).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));

const withMinus = (text) => text.replace("-", "−");

/** Three decimals, for probabilities, cosines and nats. */
const decimals = (value) => withMinus(value.toFixed(3)).replace(/^−(0\.000)$/, "$1");

/** Three significant digits, for sizes that range over powers of ten. */
function significant(value) {
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(2).split("e")[1]);
  if (exponent >= -3 && exponent < 3) return value.toPrecision(3);
  const mantissa = value.toExponential(2).split("e")[0];
  return `${mantissa}·10${superscript(exponent)}`;
}

const powerOfTen = (exponent) =>
  exponent >= -2 && exponent <= 3 ? String(Number(`1e${exponent}`)) : `10${superscript(exponent)}`;

/** Values and labels of at most about five marks from low to high. */
function ticks(low, high, log) {
  if (log) {
    const [first, last] = [Math.ceil(low), Math.floor(high)];
    const step = Math.max(1, Math.ceil((last - first) / 3));
    const marks = [];
    for (let e = first; e <= last; e += step) marks.push([e, powerOfTen(e)]);
    return marks;
  }
  const rough = (high - low) / 4;
  const scale = 10 ** Math.floor(Math.log10(rough));
  const step = scale * [1, 2, 5, 10].find((m) => m * scale >= rough);
  const marks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9; i++) {
    marks.push([i * step, withMinus(String(Number((i * step).toPrecision(6))))]);
  }
  return marks;
}

/** The range that holds all `values`; as exponents of ten, at least one apart, where `log`. */
function rangeOf(values, log) {
  const used = log ? values.filter((v) => v > 0).map(Math.log10) : values;
  if (!used.length) return [0, 1];
  const [low, high] = used.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [
    Infinity, -Infinity,
  ]);
  if (log) {
    const hasTwoMarks = Math.floor(high) - Math.ceil(low) >= 1;
    return hasTwoMarks ? [low, high] : [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];
  }
  return [Math.min(low, 0), Math.max(high, 0.1)];
}

const MARKS = {
  a: (x, y) => `<circle class="tfc-a" cx="${x}" cy="${y}" r="3.5"/>`,
  b: (x, y) => `<rect class="tfc-b" x="${x - 3.5}" y="${y - 3.5}" width="7" height="7"/>`,
  c: () => "",
};

/**
 * Draw lines that carry their own names at their right ends.
 * Series: {name, style: "a" (solid, circles) | "b" (dashed, squares) | "c" (dotted), values}.
 * Where `log`, a zero is drawn on the lower edge.
 * `first` is the x of each series' first value, `firstLabel` what it is called; `marker` an x to
 * point out.
 */
function lineChart({
  title, alt, xLabel, first, firstLabel = first, last, range, log, series, width, marker,
}) {
  const [left, right, top, bottom, height] = [46, 86, 26, 34, 150];
  const [low, high] = range;
  const x = (i) => left + ((i - first) / Math.max(1, last - first)) * (width - left - right);
  const y = (v) => {
    const raw = log ? (v > 0 ? Math.log10(v) : low) : v;
    return height - bottom - ((Math.max(raw, low) - low) / (high - low)) * (height - top - bottom);
  };
  const axisY = (mark) => y(log ? 10 ** mark : mark);
  let body = `<text class="tfc-title" x="2" y="14">${escapeText(title)}</text>`;
  for (const [mark, label] of ticks(low, high, log)) {
    const at = axisY(mark).toFixed(1);
    body +=
      `<line class="tfc-grid" x1="${left}" x2="${width - right}" y1="${at}" y2="${at}"/>` +
      `<text class="tfc-tick" x="${left - 6}" y="${at}" dy="4" text-anchor="end">${label}</text>`;
  }
  const base = height - bottom;
  body += `<line class="tfc-axis" x1="${left}" x2="${width - right}" y1="${base}" y2="${base}"/>`;
  const middle = Math.round((first + last) / 2);
  for (const i of new Set([first, middle, last])) {
    body += `<text class="tfc-tick" x="${x(i)}" y="${base + 15}" text-anchor="middle">${i === first ? firstLabel : i}</text>`;
  }
  body += `<text class="tfc-tick" x="${(left + width - right) / 2}" y="${height - 4}" text-anchor="middle">${escapeText(xLabel)}</text>`;
  if (marker !== undefined) {
    body += `<line class="tfc-marker" x1="${x(marker)}" x2="${x(marker)}" y1="${top}" y2="${base}"/>`;
  }
  const labels = [];
  for (const { name, style, values } of series) {
    if (!values.length) continue;
    const points = values.map((v, i) => [x(first + i), y(v)]);
    const line = points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
    const every = Math.max(1, Math.ceil((points.length - 1) / 8));
    body += `<polyline class="tfc-line tfc-${style}" points="${line}"/>`;
    body += points
      .filter((_, i) => i % every === 0 || i === points.length - 1)
      .map(([px, py]) => MARKS[style](px, py))
      .join("");
    labels.push({ name, style, x: points.at(-1)[0] + 9, y: points.at(-1)[1] + 4 });
  }
  // Names that would overlap are moved apart, kept inside the picture.
  labels.sort((p, q) => p.y - q.y);
  labels.forEach((l, i) => { if (i) l.y = Math.max(l.y, labels[i - 1].y + 15); });
  labels.reverse().forEach((l, i) => {
    l.y = Math.min(l.y, i ? labels[i - 1].y - 15 : height - bottom + 8);
    body += `<text class="tfc-name tfc-name-${l.style}" x="${l.x}" y="${l.y}">${escapeText(l.name)}</text>`;
  });
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}">${body}</svg>`
  );
}
