// Below this a row has not moved: it is the rounding error of the machine that computed it.
const MOVED = 1e-6;

/** One square per row and place: filled where the row moved, with the distance below it. */
function movedPicture({ places, words, width, changed }) {
  const [left, top, step] = [64, 44, 58];
  const size = Math.min(44, Math.floor((width - left - 6) / words.length));
  const height = top + step * places.length;
  const head = words
    .map((w, i) => {
      const x = left + i * size + (size - 4) / 2;
      const bold = i === changed ? "tfc-title" : "tfc-tick";
      return `<text class="${bold}" x="${x}" y="${top - 8}" text-anchor="middle">${escapeText(w.length > 6 ? `${w.slice(0, 5)}…` : w)}</text>`;
    })
    .join("");
  const body = places
    .map(({ name, moved }, k) => {
      const y = top + k * step;
      const label = `<text class="tfc-tick" x="${left - 8}" y="${y + 18}" text-anchor="end">${name}</text>`;
      if (moved === null) return `${label}<text class="tfc-tick" x="${left}" y="${y + 18}">empty</text>`;
      return (
        label +
        moved
          .map((v, i) => {
            const [x, on] = [left + i * size, v > MOVED];
            return (
              `<rect class="${on ? "tfc-b" : "tfc-frame"}" x="${x}" y="${y}" width="${size - 4}" height="26"/>` +
              `<text class="tfc-tick" x="${x + (size - 4) / 2}" y="${y + 40}" text-anchor="middle">${on ? short(v) : "0"}</text>`
            );
          })
          .join("")
      );
    })
    .join("");
  const alt = places
    .map(({ name, moved }) =>
      moved === null
        ? `${name} empty`
        : `${name}: ${words.filter((_, i) => moved[i] > MOVED).join(" ") || "no row"} moved`,
    )
    .join("; ");
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">Which rows moved, and how far?</text>${head}${body}</svg>`
  );
}

const short = (v) => (v < 0.01 ? "<0.01" : v.toFixed(2));

function render({ model, el }) {
  const words = model.get("words");
  const blocks = model.get("blocks");
  const orders = ["pre", "post"];
  const orderNames = ["pre-norm: norm first", "post-norm: norm after adding"];
  const last = blocks.pre.length - 1;
  const quoted = words.map((w) => `“${w}”`);
  const size = Math.max(
    ...orders.flatMap((o) =>
      blocks[o].flatMap((s) => [...s.stream, ...(s.branch || [])].flat().map(Math.abs)),
    ),
  );

  const frame = makeFrame(
    el,
    "Which rows does each move change?",
    "walk through the steps, and find the only one at which a changed word reaches another row. Then take the other order.",
  );
  const order = makeMenu("Block", orderNames, (i) => change(model, { order: orders[i] }));
  const step = makeSlider(
    "Step", (i) => (i === 0 ? "input" : `${i} of ${last}: ${blocks[model.get("order")][i].name}`),
    (i) => change(model, { step: i }),
  );
  const row = makeMenu("Show row", quoted, (i) => change(model, { row: i }));
  const changed = makeMenu(
    "Change the input at", ["no position", ...quoted], (i) => change(model, { changed: i - 1 }),
  );
  frame.controls.append(order.element, step.element, row.element, changed.element);
  const [streamPicture, branchPicture, movedBox] = [make("div"), make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(streamPicture, branchPicture);
  const track = make("ol", { className: "tfc-tokens", role: "list", "aria-label": "The steps" });
  frame.sentence.before(track);
  frame.pictures.before(movedBox);

  const draw = () => {
    const at = model.get("order");
    const k = model.get("step");
    const i = model.get("row");
    const j = model.get("changed");
    const { name, stream, branch, stream_moved, branch_moved } = blocks[at][k];
    order.input.selectedIndex = orders.indexOf(at);
    step.set(k, last + 1);
    row.input.selectedIndex = i;
    changed.input.selectedIndex = j + 1;

    track.replaceChildren(
      ...blocks[at].map((s, n) =>
        make("li", { className: `tfc-token ${n === k ? "tfc-token-answer" : ""}` }, s.name),
      ),
    );

    const lengthOf = (v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));
    const movedRows = (moved) => {
      const hit = quoted.filter((_, r) => moved[r] > MOVED);
      return hit.length ? `${hit.length} of ${words.length} rows (${hit.join(" ")})` : "no row";
    };
    const title = at === "pre" ? "Pre-norm" : "Post-norm";
    frame.sentence.textContent =
      `${title}, ${k === 0 ? "the input" : `step ${k} of ${last}: ${name}`}. ` +
      `Row ${quoted[i]}: the stream has length ${lengthOf(stream[i]).toFixed(2)}, ` +
      (branch ? `the branch ${lengthOf(branch[i]).toFixed(2)}. ` : "the branch is empty. ") +
      (j < 0
        ? "No position was changed."
        : `The change at ${quoted[j]} has moved ${movedRows(stream_moved[j])} of the stream` +
          (branch ? ` and ${movedRows(branch_moved[j])} of the branch.` : "."));

    const still = words.map(() => 0);
    movedBox.innerHTML = movedPicture({
      places: [
        { name: "stream", moved: j < 0 ? still : stream_moved[j] },
        { name: "branch", moved: branch === null ? null : j < 0 ? still : branch_moved[j] },
      ],
      words, changed: j, width: movedBox.clientWidth || 320,
    });
    const bars = (host, heading, values, style) => {
      host.innerHTML = values
        ? barChart({
            title: `${heading}, row ${quoted[i]}`, low: -size, high: size, left: 26, step: 20,
            width: host.clientWidth || 320,
            rows: values.map((v, f) => ({ name: String(f + 1), value: v, text: withMinus(v.toFixed(2)), style })),
          })
        : `<svg role="img" aria-label="The branch is empty" width="200" height="24"><text class="tfc-title" x="2" y="14">The branch is empty</text></svg>`;
    };
    bars(streamPicture, "Stream", stream[i], "a");
    bars(branchPicture, "Branch", branch && branch[i], "c");

    fillTable(
      frame.table,
      `${title}: row ${quoted[i]} along the block`,
      ["step", "place", ...stream[i].map((_, f) => `feature ${f + 1}`)],
      blocks[at].flatMap((s, n) => [
        [n === 0 ? "input" : `${n} ${s.name}`, "stream", ...s.stream[i].map((v) => withMinus(v.toFixed(2)))],
        ...(s.branch ? [["", "branch", ...s.branch[i].map((v) => withMinus(v.toFixed(2)))]] : []),
      ]),
    );
  };
  return keepDrawn(model, frame, "change:order change:step change:row change:changed", draw);
}

export default { render };
