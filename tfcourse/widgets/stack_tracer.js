// How long a stage stays while the trace plays by itself, in milliseconds.
const PAUSE = 2600;

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
  scrub.addEventListener("input", () => {
    const to = Number(scrub.value); // read first: stop() draws, and that resets the slider
    stop();
    goTo(to);
  });
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
