const quote = (word) => `“${word}”`;
const LETTER = { query: "Q", key: "K", value: "V" };

/** Name things in a row: a, b and c. */
function listed(words) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** The parts as boxes, bottom to top, a column per stack; the way of what is followed stands out. */
function diagram(model, layer, follow, width) {
  const [boxHeight, gap, top] = [22, 16, 24];
  const columns = Math.max(...model.parts.map((p) => p.column)) + 1;
  const rows = Math.max(...model.parts.map((p) => p.row)) + 1;
  const boxWidth = Math.min(128, (width - 48) / 2);
  const height = top + rows * (boxHeight + gap);
  const left = (p) => 2 + p.column * (boxWidth + 44);
  const bottom = (p) => height - 4 - p.row * (boxHeight + gap);
  const part = (name) => model.parts.find((p) => p.name === name);
  const here = part(layer.part);
  const origin = part(follow === "query" ? layer.query_from : layer.key_from);
  const middle = (p) => left(p) + boxWidth / 2;
  let body = `<text class="tfc-title" x="2" y="14">Where does ${LETTER[follow]} come from?</text>`;
  const line = (points, style) =>
    `<polyline class="${style}" points="${points.map((p) => p.join(",")).join(" ")}"/>`;
  const point = (x, y, right) =>
    `<path class="tfc-point" d="M${x} ${y}${right ? "l-7 -4v8z" : "l-4 7h8z"}"/>`;
  for (const p of model.parts) {
    const from = part(p.reads);
    if (from) body += line([[middle(p), bottom(from) - boxHeight], [middle(p), bottom(p)]], "tfc-axis tfc-way");
  }
  for (const p of model.parts) {
    const style = p === here ? "tfc-box tfc-box-here" : p === origin ? "tfc-box tfc-box-origin" : "tfc-box";
    body +=
      `<rect class="${style}" x="${left(p)}" y="${bottom(p) - boxHeight}" width="${boxWidth}" height="${boxHeight}" rx="4"/>` +
      `<text x="${middle(p)}" y="${bottom(p) - 7}" text-anchor="middle">${escapeText(p.label)}</text>`;
  }
  if (origin.column === here.column) {
    const [x, from, to] = [middle(here), bottom(origin) - boxHeight, bottom(here)];
    body += line([[x, from], [x, to + 5]], "tfc-path") + point(x, to) +
      `<text class="tfc-name" x="${x + 8}" y="${to + 13}">${LETTER[follow]}</text>`;
  } else {
    const [x, turn] = [left(here), left(here) - 16];
    const [from, to] = [bottom(origin) - boxHeight / 2, bottom(here) - boxHeight / 2];
    body += line([[left(origin) + boxWidth, from], [turn, from], [turn, to], [x - 6, to]], "tfc-path") +
      point(x, to, true) +
      `<text class="tfc-name" x="${turn - 12}" y="${to - 6}">${LETTER[follow]}</text>`;
  }
  const alt = `${model.title}: the ${follow} of ${layer.title} is computed from the result of ${origin.title}.`;
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${body}</svg>`
  );
}

/** A cell per score: the weight where the mask allows it, a cross where it does not. */
function scores(layer, words, follow, position, width) {
  const [left, top, cellHeight] = [58, 50, 24];
  const cell = Math.min(50, (width - left - 4) / layer.keys.length);
  const height = top + layer.queries.length * cellHeight + 4;
  const right = (i) => left + i * cell;
  const down = (i) => top + i * cellHeight;
  let body =
    `<text class="tfc-title" x="2" y="14">Scores: who may read whom?</text>` +
    `<text class="tfc-tick" x="2" y="30">↓ queries, → keys</text>`;
  layer.keys.forEach((k, j) => {
    body += `<text class="tfc-tick" x="${right(j) + cell / 2}" y="${top - 5}" text-anchor="middle">${escapeText(words[k])}</text>`;
  });
  layer.queries.forEach((q, i) => {
    body += `<text class="tfc-tick" x="${left - 6}" y="${down(i) + 16}" text-anchor="end">${escapeText(words[q])}</text>`;
    layer.weights[i].forEach((w, j) => {
      const [x, y] = [right(j), down(i)];
      const box = `x="${x + 1}" y="${y + 1}" width="${cell - 2}" height="${cellHeight - 2}"`;
      body += w > 0
        ? `<rect class="tfc-allowed" ${box}/><text x="${x + cell / 2}" y="${y + 16}" text-anchor="middle">${w.toFixed(2)}</text>`
        : `<rect class="tfc-hidden" ${box}/><path class="tfc-cross" d="M${x + cell / 2 - 5} ${y + 7}l10 10m0 -10l-10 10"/>`;
    });
  });
  const all = { x: left, y: top, w: cell * layer.keys.length, h: cellHeight * layer.queries.length };
  const at = follow === "query" ? { ...all, y: down(position), h: cellHeight } : { ...all, x: right(position), w: cell };
  body += `<rect class="tfc-row" x="${at.x}" y="${at.y}" width="${at.w}" height="${at.h}"/>`;
  const alt = layer.queries.map((q, i) => {
    const may = layer.keys.filter((_, j) => layer.weights[i][j] > 0).map((k) => words[k]);
    return `${words[q]} may read ${listed(may) || "nothing"}`;
  });
  return (
    `<svg role="img" aria-label="${escapeText(alt.join("; "))}." width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${body}</svg>`
  );
}

function render({ model, el }) {
  const models = model.get("models");
  const frame = makeFrame(
    el,
    "Where do queries, keys and values come from, and who may read whom?",
    "choose the encoder–decoder and follow a key of its cross-attention. Then the query. Which of the two has seen the target?",
  );
  const now = () => models[model.get("architecture")];
  const layerOf = () => now().layers[Math.min(model.get("layer"), now().layers.length - 1)];
  const places = () => layerOf()[model.get("follow") === "query" ? "queries" : "keys"];
  const place = () => Math.min(model.get("position"), places().length - 1);

  const kind = makeMenu(
    "Architecture", models.map((m) => m.title), (i) => change(model, { architecture: i, layer: 0 }),
  );
  const layers = makeMenu("Attention", [], (i) => change(model, { layer: i }));
  const follows = Object.keys(LETTER);
  const follow = makeMenu("Follow", follows, (i) => change(model, { follow: follows[i] }));
  const slider = makeSlider(
    "Position", (i) => `${i}: ${now().tokens[places()[i]][1]}`, (i) => change(model, { position: i }),
  );
  frame.controls.append(kind.element, layers.element, follow.element, slider.element);
  const words = make("div");
  const [picture, grid] = [make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(picture, grid);
  frame.pictures.before(words);

  let filled = -1;
  const draw = () => {
    const [chosen, layer, followed, at] = [now(), layerOf(), model.get("follow"), place()];
    const texts = chosen.tokens.map(([, word]) => word);
    const part = (name) => chosen.parts.find((p) => p.name === name);
    kind.input.selectedIndex = model.get("architecture");
    if (filled !== model.get("architecture")) {
      filled = model.get("architecture");
      layers.input.replaceChildren(...chosen.layers.map((l) => make("option", {}, l.title)));
    }
    layers.input.selectedIndex = chosen.layers.indexOf(layer);
    follow.input.selectedIndex = follows.indexOf(followed);
    slider.set(at, places().length);

    const isQuery = followed === "query";
    const token = places()[at];
    const marks = (isQuery ? layer.query_seen : layer.key_seen)[at];
    const sides = [...new Set(chosen.tokens.map(([side]) => side))];
    const named = (i) => (sides.length > 1 ? `${chosen.tokens[i][0]} ${quote(texts[i])}` : quote(texts[i]));
    const seen = texts.map((_, i) => i).filter((i) => marks[i] === "1");
    const partners = (isQuery ? layer.keys : layer.queries).filter(
      (_, k) => (isQuery ? layer.weights[at][k] : layer.weights[k][at]) > 0,
    );
    const others = (isQuery ? layer.keys : layer.queries).length;
    const may = partners.length ? `: ${listed(partners.map((i) => quote(texts[i])))}` : "";
    frame.sentence.textContent =
      `${chosen.title}, ${layer.title}. The ${followed} of ${named(token)} is computed from the result of ` +
      `${part(isQuery ? layer.query_from : layer.key_from).title}. ` +
      `${seen.length} of ${texts.length} tokens have had a part in it: ${listed(seen.map(named))}. ` +
      (isQuery
        ? `The mask lets it read ${partners.length} of ${others} keys${may}.`
        : `${partners.length} of ${others} queries may ${followed === "key" ? "read it" : "gather it"}${may}.`);

    const lists = sides.map((side) => {
      const chips = chosen.tokens.flatMap(([of, word], i) => {
        if (of !== side) return [];
        const state = i === token ? "answer" : marks[i] === "1" ? "read" : "hidden";
        const note = i === token ? [make("small", {}, followed)] : [];
        return [make("li", { className: `tfc-token tfc-token-${state}` }, word, ...note)];
      });
      const name = `The ${side}; solid frames: had a part in the ${followed}`;
      return make(
        "div", { className: "tfc-side" }, make("span", {}, side),
        make("ol", { className: "tfc-tokens", role: "list", "aria-label": name }, ...chips),
      );
    });
    words.replaceChildren(...lists);
    picture.innerHTML = diagram(chosen, layer, followed, picture.clientWidth || 300);
    grid.innerHTML = scores(layer, texts, followed, at, grid.clientWidth || 300);
    fillTable(
      frame.table,
      `${chosen.title}, ${layer.title}: the weight of each key for each query; – where the mask forbids it`,
      ["query", ...layer.keys.map((k) => texts[k])],
      layer.queries.map((q, i) => [texts[q], ...layer.weights[i].map((w) => (w > 0 ? decimals(w) : "–"))]),
      isQuery ? at : -1,
    );
  };
  return keepDrawn(
    model, frame, "change:architecture change:layer change:follow change:position", draw,
  );
}

export default { render };
