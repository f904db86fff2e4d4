// What the stack tracer draws, from stored numbers to SVG.

const LEVELS = 10;
// A feature of the MLP counts as on from here.
const ON = 0.1;

const shown = (word) => (word === "\n" ? "↵" : word);
const quoted = (word) => `“${shown(word)}”`;
const short = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
const hundredths = (value) => value.toFixed(2).replace("-", "−").replace(/^−(0\.00)$/, "$1");
const percent = (p) => `${(100 * p).toFixed(1)} %`;

/** Turn a stored tensor into numbers: 16-bit integers, low bytes first, times one scale. */
function unpack({ data, scale }) {
  const bytes = atob(data);
  const count = bytes.length / 2;
  return Float32Array.from({ length: count }, (_, i) => {
    const n = bytes.charCodeAt(i) + 256 * bytes.charCodeAt(count + i);
    return (n < 32768 ? n : n - 65536) * scale;
  });
}

/** Root mean square. */
const sizeOf = (values) => Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length);

/** Positions of the largest values, the largest first. */
function largest(values, count) {
  return Array.from(values.keys())
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);
}

/** How strongly a value is drawn, from 0 (not at all) to LEVELS. */
const levelOf = (value, limit) => Math.ceil(LEVELS * (Math.abs(value) / limit) ** 0.7 - 1e-6);

/**
 * Squares of a matrix as SVG paths, one per sign and strength, so that the theme's colours reach
 * them. Neighbours of one strength are joined. `at(i, j)` is null where nothing is drawn.
 */
function squares(rows, columns, at, limit, left, top, width, height) {
  const paths = new Map();
  for (let i = 0; i < rows; i++) {
    let from = 0;
    let held = "";
    for (let j = 0; j <= columns; j++) {
      const value = j < columns ? at(i, j) : null;
      const level = value === null ? 0 : Math.min(LEVELS, levelOf(value, limit));
      const key = level ? `${value < 0 ? "n" : "p"} ${level}` : "";
      if (key === held) continue;
      if (held) {
        const x = (left + from * width).toFixed(2);
        const w = ((j - from) * width).toFixed(2);
        const d = `M${x} ${top + i * height}h${w}v${height}h-${w}z`;
        paths.set(held, (paths.get(held) ?? "") + d);
      }
      [held, from] = [key, j];
    }
  }
  return [...paths]
    .map(([key, d]) => {
      const [sign, level] = key.split(" ");
      return `<path class="tft-${sign}" fill-opacity="${level / LEVELS}" d="${d}"/>`;
    })
    .join("");
}

/** A strip that says which colour is which value. */
function legend(limit, signed, width) {
  const left = 74;
  const wide = Math.min(180, width - left - 60);
  const steps = 36;
  const low = signed ? -limit : 0;
  const value = (j) => low + ((j + 0.5) / steps) * (limit - low);
  const strip = squares(1, steps, (_, j) => value(j), limit, left, 4, wide / steps, 10);
  const mark = (v, x, anchor) =>
    `<text class="tfc-tick" x="${x}" y="26" text-anchor="${anchor}">${v === 0 ? "0" : significant(v).replace("-", "−")}</text>`;
  return (
    `<svg aria-hidden="true" width="${width}" height="30" viewBox="0 0 ${width} 30">` +
    `<text class="tfc-tick" x="${left - 6}" y="13" text-anchor="end">value</text>${strip}` +
    `<rect class="tfc-frame" x="${left}" y="4" width="${wide}" height="10"/>` +
    mark(low, left, "start") +
    (signed ? mark(0, left + wide / 2, "middle") : "") +
    mark(limit, left + wide, "end") +
    `</svg>`
  );
}

/** The way through the stack as a line with stations; returns its SVG and where each station is. */
function route(stages, width) {
  const [low, high, edge] = [74, 30, 8];
  const gap = (width - 2 * edge) / (stages.length - 1);
  const aside = ["norm", "qkv", "weights", "attention update", "hidden", "MLP update"];
  const places = stages.map((s, i) => [edge + i * gap, aside.includes(s.kind) ? high : low]);
  const small = gap < 18;
  let body = "";
  // Blocks: a frame and a number.
  for (const name of new Set(stages.map((s) => s.where).filter((w) => w.startsWith("block")))) {
    const inside = places.filter((_, i) => stages[i].where === name).map(([x]) => x);
    const [x0, x1] = [Math.min(...inside) - gap / 2, Math.max(...inside) + gap / 2 - 1];
    body +=
      `<rect class="tft-block" x="${x0.toFixed(1)}" y="6" width="${(x1 - x0).toFixed(1)}" height="96" rx="6"/>` +
      `<text class="tfc-tick" x="${((x0 + x1) / 2).toFixed(1)}" y="97" text-anchor="middle">${name}</text>`;
  }
  // The stream, straight through, from the first vector to the last.
  const first = stages.findIndex((s) => s.kind === "embedding");
  const last = stages.findLastIndex((s) => s.kind === "stream");
  const end = places.at(-1)[0];
  body +=
    `<path class="tft-thin" d="M${edge} ${low}H${end}"/>` +
    `<path class="tft-stream" d="M${places[first][0]} ${low}H${places[last][0]}"/>`;
  // Branches: up from the stream, along, and down into the sum.
  stages.forEach((s, i) => {
    if (s.kind !== "norm") return;
    const sum = stages.findIndex((t, j) => j > i && t.kind === "stream");
    const part = stages.slice(i, sum).some((t) => t.kind === "weights") ? "attention" : "mlp";
    const [x0, x1] = [places[i][0], places[sum][0]];
    const bend = Math.min(gap * 0.8, 14);
    body +=
      `<path class="tft-branch tft-${part}" d="M${x0 - bend} ${low}C${x0 - bend / 3} ${low} ${x0 - bend} ${high} ${x0} ${high}` +
      `H${x1 - gap}C${x1 - gap / 4} ${high} ${x1} ${high + 14} ${x1} ${low}"/>` +
      `<text class="tft-part${small ? " tft-small" : ""}" x="${((x0 + x1 - gap) / 2).toFixed(1)}" y="${high - 10}" text-anchor="middle">` +
      `${part === "mlp" ? "MLP" : "attention"}</text>`;
  });
  stages.forEach((s, i) => {
    const [x, y] = places[i];
    const part = PARTS[s.kind] ?? "stream";
    body += `<circle class="tft-stop tft-${part}" cx="${x.toFixed(1)}" cy="${y}" r="${small ? 3 : 4.5}"/>`;
    if (s.kind === "stream" && !small) {
      body += `<path class="tft-plus" d="M${x - 2.5} ${y}h5M${x} ${y - 2.5}v5"/>`;
    }
  });
  body +=
    `<text class="tfc-tick" x="0" y="${low + 20}">ids</text>` +
    `<text class="tfc-tick" x="${width}" y="${low + 20}" text-anchor="end">${small ? "word" : "next word"}</text>`;
  return { body, places };
}
const PARTS = {
  ids: "plain", embedding: "embedding", positions: "embedding", norm: "norm", "final norm": "norm",
  qkv: "attention", weights: "attention", "attention update": "attention", hidden: "mlp",
  "MLP update": "mlp", logits: "plain", probabilities: "plain",
};

/** How the chance of the final word rises along the stages, under the stations of the map. */
function rise(chances, places, stage, word, width) {
  const [top, base] = [18, 46];
  const y = (p) => (base - (base - top) * p).toFixed(1);
  const from = chances.findIndex((p) => p !== null);
  let line = "";
  let marks = "";
  places.forEach(([x], i) => {
    if (i < from) return;
    if (chances[i] !== null) {
      marks += `<circle class="tft-stop tft-stream" cx="${x.toFixed(1)}" cy="${y(chances[i])}" r="2.5"/>`;
      line += `${line ? `H${x.toFixed(1)}V` : `M${x.toFixed(1)} `}${y(chances[i])}`;
    }
  });
  line += `H${places.at(-1)[0]}`;
  const said = chances.filter((p) => p !== null).map(percent).join(", ");
  const now = chances.slice(0, stage + 1).findLast((p) => p !== null) ?? null;
  return (
    `<svg role="img" aria-label="${escapeText(`Chance of ${quoted(word)} if the stack ended at each state of the stream: ${said}`)}" width="${width}" height="50" viewBox="0 0 ${width} 50">` +
    `<text class="tfc-tick" x="0" y="11">${escapeText(`chance of ${quoted(word)}, if it ended here${now === null ? "" : `: ${percent(now)}`}`)}</text>` +
    `<path class="tfc-grid" d="M${places[0][0]} ${y(0)}H${places.at(-1)[0]}M${places[0][0]} ${y(1)}H${places.at(-1)[0]}"/>` +
    `<path class="tft-fill" d="${line}V${y(0)}H${places[from][0]}z"/><path class="tft-rise" d="${line}"/>${marks}` +
    `<path class="tfc-marker" d="M${places[stage][0]} ${top - 4}V${base + 2}"/></svg>`
  );
}

/** Bars for the likeliest next words: [[word, p], …]. */
function bars(pairs, width, title) {
  const [left, step] = [92, 20];
  const full = Math.min(width - left - 64, 320);
  const height = 22 + step * pairs.length;
  const alt = pairs.map(([w, p]) => `${shown(w)} ${percent(p)}`).join(", ");
  return (
    `<svg role="img" aria-label="${escapeText(`${title}: ${alt}`)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="0" y="13">${escapeText(title)}</text>` +
    pairs
      .map(([w, p], i) => {
        const y = 22 + i * step;
        return (
          `<text class="tft-word" x="${left - 6}" y="${y + 12}" text-anchor="end">${escapeText(short(shown(w), 12))}</text>` +
          `<rect class="tfc-frame" x="${left}" y="${y + 1}" width="${full}" height="14"/>` +
          `<rect class="tfc-a" x="${left}" y="${y + 1}" width="${(full * p).toFixed(1)}" height="14"/>` +
          `<text class="tfc-tick" x="${left + full + 6}" y="${y + 12}">${percent(p)}</text>`
        );
      })
      .join("") +
    `</svg>`
  );
}

/** A matrix with one row per word; `groups` names parts of its columns. */
function heatMap(tensor, names, current, width, alt, groups = []) {
  const { values, shape, limit } = tensor;
  const [rows, columns] = shape;
  const [left, top] = [74, groups.length ? 18 : 4];
  const height = columns > 300 ? 8 : rows > 20 ? 12 : 14;
  const cell = (width - left - 2) / columns;
  const at = (i, j) => values[i * columns + j];
  const labels = names
    .map((name, i) =>
      i === current || height >= 11
        ? `<text class="tft-row${i === current ? " tft-current" : ""}" x="${left - 6}" y="${top + (i + 0.5) * height}" dy="4" text-anchor="end">${escapeText(short(name, 10))}</text>`
        : "",
    )
    .join("");
  const part = columns / Math.max(1, groups.length);
  const titles = groups
    .map((g, k) => {
      const x = left + k * part * cell;
      const line = k ? `<path class="tft-cut" d="M${x} ${top}V${top + rows * height}"/>` : "";
      return `${line}<text class="tfc-tick" x="${x + (part * cell) / 2}" y="12" text-anchor="middle">${g}</text>`;
    })
    .join("");
  return (
    `<svg class="tft-map" role="img" aria-label="${escapeText(alt)}" data-left="${left}" data-top="${top}" data-cell="${cell}" data-height="${height}" ` +
    `width="${width}" height="${top + rows * height + 2}" viewBox="0 0 ${width} ${top + rows * height + 2}">` +
    labels +
    `<rect class="tfc-frame" x="${left}" y="${top}" width="${columns * cell}" height="${rows * height}"/>` +
    squares(rows, columns, at, limit, left, top, cell, height) + titles +
    `<rect class="tfc-row" x="${left - 1}" y="${top + current * height - 1}" width="${columns * cell + 2}" height="${height + 2}"/></svg>`
  );
}

/** One triangle of weights for each head. */
function heads(tensor, current, width, alt) {
  const { values, shape } = tensor;
  const [count, length] = shape;
  const across = width > 460 ? count : Math.min(2, count);
  const cell = Math.max(2, Math.min(18, Math.floor(((width - 12 * (across - 1)) / across / length) * 2) / 2));
  const size = cell * length;
  const [stepX, stepY] = [(width - size) / Math.max(1, across - 1), size + 26];
  const down = Math.ceil(count / across);
  let body = "";
  for (let h = 0; h < count; h++) {
    const x = across > 1 ? Math.min((h % across) * stepX, (h % across) * (size + 40)) : 0;
    const y = Math.floor(h / across) * stepY + 18;
    const at = (i, j) => (j <= i ? values[(h * length + i) * length + j] : null);
    const steps = Array.from({ length: length - 1 }, (_, i) => `v${cell}h${cell}`).join("");
    body +=
      `<text class="tfc-tick" x="${x}" y="${y - 5}">head ${h + 1}</text>` +
      `<path class="tft-masked" d="M${x + cell} ${y}${steps}V${y}z"/>` +
      squares(length, length, at, 1, x, y, cell, cell) +
      `<rect class="tfc-frame" x="${x}" y="${y}" width="${size}" height="${size}"/>` +
      `<rect class="tfc-row" x="${x - 1}" y="${y + current * cell - 1}" width="${size + 2}" height="${cell + 2}"/>`;
  }
  const height = down * stepY;
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `${body}</svg>`
  );
}

/** What each head reads for one word: the words with the largest weights. */
function readings(tensor, current, names) {
  const { values, shape } = tensor;
  const [count, length] = shape;
  const items = Array.from({ length: count }, (_, h) => {
    const row = values.slice((h * length + current) * length, (h * length + current + 1) * length);
    const best = largest(row, Math.min(3, current + 1));
    return make(
      "li", {}, make("span", { className: "tft-head" }, `head ${h + 1}`),
      ...best.map((j) => {
        const chip = make("span", { className: "tft-read" }, `${names[j]} `, make("small", {}, decimals(row[j])));
        chip.style.setProperty("--tft-weight", row[j].toFixed(3));
        return chip;
      }),
    );
  });
  return make(
    "div", {},
    make("p", { className: "tft-caption" }, `What ${`“${names[current]}”`} reads, and with which weight:`),
    make("ul", { className: "tft-readings", role: "list" }, ...items),
  );
}
