const LEVELS = 10;
// How long a stage stays while the trace plays by itself, in milliseconds.
const PAUSE = 2600;
// A feature of the MLP counts as on from here.
const ON = 0.1;

const shown = (word) => (word === "\n" ? "↵" : word);
const quoted = (word) => `“${shown(word)}”`;
const short = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
const hundredths = (value) => value.toFixed(2).replace("-", "−").replace(/^−(0\.00)$/, "$1");
const percent = (p) => (p >= 0.001 ? `${(100 * p).toFixed(1)} %` : "under 0.1 %");

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
    `<text class="tfc-tick" x="0" y="11">${escapeText(`chance of ${quoted(word)}, if the stack ended here${now === null ? "" : `: ${percent(now)}`}`)}</text>` +
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

function render({ model, el }) {
  const stages = model.get("stages");
  const texts = model.get("texts");
  const words = model.get("words");
  const kept = new Map();

  const frame = makeFrame(
    el,
    "What happens to a text on its way to the next word?",
    "press Step until the end and watch where the right word first appears. Then choose another text, and see in the attention weights which words it is read from.",
  );
  frame.root.classList.add("tft-tracer");

  const record = () => texts[model.get("text")];
  const place = () => Math.min(model.get("row"), record().ids.length - 1);
  const names = () => record().ids.map((id) => shown(words[id]));
  /** The tensor of a stage of the current text. */
  const tensorOf = (stage) => {
    const key = `${model.get("text")} ${stage}`;
    if (!kept.has(key)) {
      const packed = record().tensors[stage];
      const values = unpack(packed);
      const limit = values.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
      kept.set(key, { values, shape: packed.shape, limit });
    }
    return kept.get(key);
  };
  const rowOf = (stage, i) => {
    const { values, shape } = tensorOf(stage);
    return values.slice(i * shape[1], (i + 1) * shape[1]);
  };
  /** The guesses of the last stage up to this one that has some. */
  const guessesAt = (stage) => {
    for (let s = stage; s >= 0; s--) if (record().guesses[s]) return record().guesses[s];
    return null;
  };

  // Controls.
  let timer = null;
  const goTo = (stage) => change(model, { stage: Math.min(Math.max(stage, 0), stages.length - 1) });
  const stop = () => {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    draw();
  };
  const menu = makeMenu("Text", texts.map((t) => t.title), (text) =>
    change(model, { text, row: texts[text].ids.length - 1 }),
  );
  const wordMenu = makeMenu("Look at", [], (row) => change(model, { row }));
  const button = (label, act) => {
    const made = make("button", { type: "button" }, label);
    made.addEventListener("click", act);
    return made;
  };
  const back = button("Back", () => (stop(), goTo(model.get("stage") - 1)));
  const play = button("Play", () => {
    if (timer !== null) return stop();
    timer = setInterval(() => {
      if (model.get("stage") >= stages.length - 1) stop();
      else goTo(model.get("stage") + 1);
    }, PAUSE);
    if (model.get("stage") === stages.length - 1) goTo(0);
    else draw();
  });
  const step = button("Step", () => (stop(), goTo(model.get("stage") + 1)));
  const again = button("Start again", () => (stop(), goTo(0)));
  play.classList.add("tft-play");
  step.classList.add("tft-step");
  const buttons = make("div", { className: "tft-buttons" }, back, play, step, again);
  if (texts.length > 1) frame.controls.append(menu.element);
  frame.controls.append(wordMenu.element, buttons);

  // The map with its slider, between the controls and the words.
  const map = make("div", { className: "tft-route" });
  const scrub = make("input", {
    type: "range", min: 0, max: stages.length - 1, step: 1, className: "tft-scrub",
    "aria-label": "Stage",
  });
  scrub.addEventListener("input", () => (stop(), goTo(Number(scrub.value))));
  const climb = make("div");
  const head = make("p", { className: "tft-title" });
  frame.controls.after(map, scrub, climb, head);
  const chips = make("ol", { className: "tfc-tokens tft-chips", role: "list", "aria-label": "The text" });
  const picture = make("div", { className: "tft-picture" });
  const readout = make("p", { className: "tft-readout", "aria-hidden": "true" });
  const guess = make("div", { className: "tft-guess" });
  frame.pictures.append(chips, picture, readout, guess);

  let drawn = { width: 0, text: -1, places: [] };

  map.addEventListener("click", (event) => {
    const x = event.clientX - map.getBoundingClientRect().left;
    const y = event.clientY - map.getBoundingClientRect().top;
    const away = drawn.places.map(([a, b]) => Math.hypot(a - x, (b - y) / 4));
    stop();
    goTo(away.indexOf(Math.min(...away)));
  });
  const cellAt = (event) => {
    const svg = event.target.closest?.(".tft-map");
    if (!svg) return null;
    const box = svg.getBoundingClientRect();
    const { left, top, cell, height } = svg.dataset;
    const { shape } = tensorOf(model.get("stage"));
    const i = Math.floor((event.clientY - box.top - top) / height);
    const j = Math.floor((event.clientX - box.left - left) / cell);
    return i >= 0 && i < shape[0] && j < shape[1] ? [i, j] : null;
  };
  picture.addEventListener("pointermove", (event) => {
    const found = cellAt(event);
    if (!found || found[1] < 0) return void (readout.textContent = "");
    const [i, j] = found;
    const { values, shape } = tensorOf(model.get("stage"));
    const column = shape[1] === words.length ? quoted(words[j]) : `feature ${j}`;
    readout.textContent = `“${names()[i]}”, ${column}: ${significant(values[i * shape[1] + j])}`;
  });
  picture.addEventListener("pointerleave", () => (readout.textContent = ""));
  picture.addEventListener("click", (event) => {
    const found = cellAt(event);
    if (found) change(model, { row: found[0] });
  });

  /** The numbers that a stage left at one word, in a sentence. */
  const fact = (stage, i) => {
    const { kind } = stages[stage];
    const name = `“${names()[i]}”`;
    if (kind === "ids") return `${name} is number ${record().ids[i]} of 0 to ${words.length - 1}.`;
    if (kind === "weights") {
      const { values, shape } = tensorOf(stage);
      const said = Array.from({ length: shape[0] }, (_, h) => {
        const row = values.slice((h * shape[1] + i) * shape[1], (h * shape[1] + i + 1) * shape[1]);
        const [j] = largest(row, 1);
        return `head ${h + 1} “${names()[j]}” (${decimals(row[j])})`;
      });
      return `${name} reads most from: ${said.join(", ")}.`;
    }
    const row = rowOf(stage, i);
    const size = significant(sizeOf(row));
    if (kind === "logits") {
      const best = largest(row, 3).map((v) => `${quoted(words[v])} ${hundredths(row[v])}`);
      return `At ${name} the highest scores are ${best.join(", ")}.`;
    }
    if (kind === "probabilities") {
      const best = largest(row, 3).map((v) => `${quoted(words[v])} ${percent(row[v])}`);
      return `After ${name} it expects ${best.join(", ")}.`;
    }
    if (kind === "qkv") return `${name} now has ${row.length} numbers, a third for each.`;
    if (kind === "hidden") {
      return `At ${name}, ${row.filter((v) => v > ON).length} of ${row.length} features are above ${ON}.`;
    }
    if (kind.endsWith("update")) {
      let stream = stage;
      while (!["stream", "positions", "embedding"].includes(stages[stream].kind)) stream--;
      return `At ${name} the update has size ${size}, the stream ${significant(sizeOf(rowOf(stream, i)))}.`;
    }
    return `The vector of ${name} has size ${size}.`;
  };

  const draw = () => {
    const stage = model.get("stage");
    const i = place();
    const { name, where, kind, axes, did } = stages[stage];
    const tensor = tensorOf(stage);
    const width = Math.max(200, frame.pictures.clientWidth || 320);
    const all = names();
    const letters = axes.split(" ");

    menu.input.selectedIndex = model.get("text");
    if (drawn.text !== model.get("text")) {
      wordMenu.input.replaceChildren(
        ...all.map((w, k) => make("option", {}, `${k + 1}. ${w}`)),
      );
      drawn.text = model.get("text");
    }
    wordMenu.input.selectedIndex = i;
    scrub.value = stage;
    scrub.setAttribute("aria-valuetext", `${stage + 1} of ${stages.length}: ${where}, ${name}`);
    play.textContent = timer === null ? "Play" : "Pause";
    back.setAttribute("aria-disabled", stage === 0);
    step.setAttribute("aria-disabled", stage === stages.length - 1);

    if (drawn.width !== width) {
      const { body, places } = route(stages, width);
      map.innerHTML =
        `<svg aria-hidden="true" width="${width}" height="108" viewBox="0 0 ${width} 108">${body}` +
        `<g class="tft-marker"><circle class="tft-glow" r="11"/><circle class="tft-dot" r="6"/></g></svg>`;
      drawn = { ...drawn, width, places };
    }
    const [x, y] = drawn.places[stage];
    map.querySelector(".tft-marker").style.transform = `translate(${x}px, ${y}px)`;

    const last = stages.length - 1;
    const [best] = largest(rowOf(last, i), 1);
    const chances = record().chances.map((look) => (look ? look[i] : null));
    climb.innerHTML = rise(chances, drawn.places, stage, words[best], width);

    head.replaceChildren(
      make("strong", {}, `${where} · ${name}`), " ",
      make("span", { className: "tft-shape" }, `${letters.join(" × ")} = ${tensor.shape.join(" × ")}`),
    );
    const guesses = guessesAt(stage);
    const isLast = kind === "probabilities";
    const [likely, chance] = guesses ? guesses[i][0] : [0, 0];
    frame.sentence.textContent =
      `${timer === null ? "" : "Playing. "}Step ${stage + 1} of ${stages.length}. ${did} ${fact(stage, i)}` +
      (guesses && !["logits", "probabilities"].includes(kind)
        ? ` If the stack ended here, the model would expect ${quoted(words[likely])} next (${percent(chance)}).`
        : "");

    // The words; at the first stage with their ids.
    chips.replaceChildren(
      ...all.map((w, k) => {
        const chip = make(
          "li", { className: `tfc-token${k === i ? " tft-chosen" : ""}` }, w,
          ...(kind === "ids" ? [make("small", {}, String(record().ids[k]))] : []),
        );
        chip.addEventListener("click", () => change(model, { row: k }));
        return chip;
      }),
    );

    const alt = `${where}, ${name}: ${tensor.shape.join(" by ")} numbers as coloured squares. Blue is positive, orange negative, strong colour is far from 0.`;
    readout.textContent = "";
    if (kind === "ids") picture.replaceChildren();
    else if (kind === "weights") {
      picture.innerHTML =
        heads(tensor, i, width, `Attention weights, a triangle for each head: rows read, columns are read. ${fact(stage, i)}`) +
        legend(1, false, width);
      picture.append(readings(tensor, i, all));
    } else {
      const groups = kind === "qkv" ? ["queries", "keys", "values"] : [];
      const signed = kind !== "probabilities";
      picture.innerHTML = heatMap(tensor, all, i, width, alt, groups) + legend(tensor.limit, signed, width);
    }
    const after = `after “${all[i]}”`;
    if (isLast) {
      const row = rowOf(stage, i);
      guess.innerHTML = bars(largest(row, 8).map((v) => [words[v], row[v]]), width, `The next word ${after}`);
    } else if (guesses && kind !== "logits") {
      guess.innerHTML = bars(
        guesses[i].map(([id, p]) => [words[id], p]), width, `If the stack ended here, ${after}`,
      );
    } else guess.replaceChildren();

    // Every number of the chosen word.
    const title = `${where}, ${name}`;
    if (kind === "ids") {
      fillTable(frame.table, title, ["word", "id"], all.map((w, k) => [w, record().ids[k]]), i);
    } else if (kind === "weights") {
      const { values, shape } = tensor;
      fillTable(
        frame.table, `${title}: what “${all[i]}” reads`,
        ["word", ...Array.from({ length: shape[0] }, (_, h) => `head ${h + 1}`)],
        all.map((w, j) => [w, ...Array.from({ length: shape[0] }, (_, h) =>
          decimals(values[(h * shape[1] + i) * shape[1] + j]))]),
      );
    } else if (kind === "logits" || isLast) {
      const row = rowOf(stage, i);
      fillTable(
        frame.table, `${title} ${after}, the 20 highest`, ["next word", isLast ? "probability" : "logit"],
        largest(row, 20).map((v) => [shown(words[v]), (isLast ? decimals : hundredths)(row[v])]),
      );
    } else {
      const row = rowOf(stage, i);
      const eights = Array.from({ length: Math.ceil(row.length / 8) }, (_, k) => k * 8);
      fillTable(
        frame.table, `${title}: the ${row.length} numbers of “${all[i]}”`,
        ["feature", ...Array.from({ length: 8 }, (_, k) => `+${k}`)],
        eights.map((k) => [k, ...Array.from(row.slice(k, k + 8), hundredths)]),
      );
    }
  };
  const leave = keepDrawn(model, frame, "change:stage change:text change:row", draw);
  return () => {
    clearInterval(timer);
    leave();
  };
}

export default { render };
