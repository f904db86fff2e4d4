const word = (token) => (token.trim() === "" ? "↵" : token);
const quote = (token) => `“${word(token)}”`;

/** Mean of the first 1, 2, … values. */
function runningMean(values) {
  let sum = 0;
  return values.map((v, i) => (sum += v) / (i + 1));
}

/** One square per row and input: filled where the row may read, crossed where it reads its answer. */
function maskPicture(rows, row, mask, width) {
  const left = 20;
  const top = 34;
  const size = Math.min(12, Math.floor((width - left - 4) / rows));
  const square = (i, j, inset) =>
    `M${left + j * size + inset} ${top + i * size + inset}h${size - 2 * inset}v${size - 2 * inset}h${2 * inset - size}z`;
  let [read, hidden, leak] = ["", "", ""];
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < rows; j++) {
      if (!mask && j === i + 1) leak += square(i, j, 0.5);
      else if (!mask || j <= i) read += square(i, j, 0.5);
      else hidden += square(i, j, size / 2 - 1);
    }
  }
  const crosses = mask
    ? ""
    : Array.from({ length: rows - 1 }, (_, i) => {
        const [x, y] = [left + (i + 1) * size, top + i * size];
        return `M${x + 2} ${y + 2}l${size - 4} ${size - 4}m0 ${4 - size}l${4 - size} ${size - 4}`;
      }).join("");
  const alt = mask
    ? `A triangle: row 1 may read input 1, row ${rows} all ${rows} inputs. No row reads its own answer.`
    : `A full square: every row may read all ${rows} inputs. The crossed squares beside the diagonal are rows that read their own answer.`;
  const height = top + rows * size + 4;
  const y = top + (row - 1) * size;
  return (
    `<svg role="img" aria-label="${alt}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">Who may read what?</text>` +
    `<text class="tfc-tick" x="${left}" y="29">→ inputs 1 to ${rows}, ↓ rows 1 to ${rows}</text>` +
    `<text class="tfc-tick" x="${left - 4}" y="${y + size / 2}" dy="4" text-anchor="end">${row}</text>` +
    `<path class="tfc-read" d="${read}"/><path class="tfc-hidden" d="${hidden}"/>` +
    `<path class="tfc-leak" d="${leak}"/><path class="tfc-cross" d="${crosses}"/>` +
    `<rect class="tfc-row" x="${left - 1}" y="${y - 1}" width="${rows * size + 2}" height="${size + 2}"/></svg>`
  );
}

/** Bars for the probability that each reader gives to the row's answer. */
function barPicture(bars, answer, width) {
  const [left, top, step] = [86, 26, 26];
  const full = width - left - 52;
  const alt = bars.map((b) => `${b.name} ${decimals(b.p)}`).join(", ");
  return (
    `<svg role="img" aria-label="Probability of the answer: ${escapeText(alt)}" width="${width}" height="${top + step * bars.length}" ` +
    `viewBox="0 0 ${width} ${top + step * bars.length}">` +
    `<text class="tfc-title" x="2" y="14">Probability of ${escapeText(quote(answer))}</text>` +
    bars
      .map((b, i) => {
        const y = top + i * step;
        return (
          `<text class="tfc-tick" x="${left - 6}" y="${y + 13}" text-anchor="end">${b.name}</text>` +
          `<rect class="tfc-frame" x="${left}" y="${y}" width="${full}" height="18"/>` +
          `<rect class="tfc-bar tfc-${b.style}" x="${left}" y="${y}" width="${(full * b.p).toFixed(1)}" height="18"/>` +
          `<text class="tfc-name" x="${left + full + 6}" y="${y + 13}">${decimals(b.p)}</text>`
        );
      })
      .join("") +
    `</svg>`
  );
}

/** The email as a list of words, each marked as read, hidden or the answer. */
function tokenList(tokens, row, mask) {
  const chips = tokens.map((token, i) => {
    const isInput = i < tokens.length - 1;
    const readable = isInput && (!mask || i < row);
    let [kind, note] = readable ? ["read", ""] : ["hidden", ""];
    if (i === row) [kind, note] = readable ? ["leak", "answer, leaks"] : ["answer", "answer"];
    return make(
      "li", { className: `tfc-token tfc-token-${kind}` }, word(token),
      ...(note ? [make("small", {}, note)] : []),
    );
  });
  return make("ol", { className: "tfc-tokens", role: "list", "aria-label": "The email" }, ...chips);
}

function render({ model, el }) {
  const emails = model.get("emails");
  const lossRange = rangeOf(
    emails.flatMap((e) =>
      [e.causal_nll, e.unmasked_nll, e.source_nll].flatMap((nll) => runningMean(nll)),
    ),
    false,
  );

  const frame = makeFrame(
    el,
    "Which rows can see their own answer?",
    "take the mask off, then walk through the rows and watch the loss against the floor.",
  );
  const goTo = (row) =>
    change(model, { row: Math.min(Math.max(row, 1), email().tokens.length - 1) });
  const menu = makeMenu(
    "Email", emails.map((e) => e.title), (email) => change(model, { email, row: 1 }),
  );
  const mask = makeCheckbox("causal mask", (on) => change(model, { mask: on }));
  const slider = makeSlider("Row", (i) => String(i + 1), (i) => goTo(i + 1));
  const previous = make("button", { type: "button" }, "Previous row");
  const next = make("button", { type: "button" }, "Next row");
  previous.addEventListener("click", () => goTo(currentRow() - 1));
  next.addEventListener("click", () => goTo(currentRow() + 1));
  if (emails.length > 1) frame.controls.append(menu.element);
  frame.controls.append(mask.element, slider.element, previous, next);
  const words = make("div");
  const [picture, side] = [make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(picture, side);
  frame.pictures.before(words);

  const email = () => emails[model.get("email")];
  // A row set from Python may lie beyond the end of a shorter email.
  const currentRow = () => Math.min(model.get("row"), email().tokens.length - 1);

  const draw = () => {
    const { tokens, causal_nll, unmasked_nll, source_nll, kinds } = email();
    const rows = tokens.length - 1;
    const row = currentRow();
    const on = model.get("mask");
    menu.input.selectedIndex = model.get("email");
    mask.input.checked = on;
    slider.set(row - 1, rows);
    // A disabled button would drop the keyboard focus, so the ends say so without it.
    previous.setAttribute("aria-disabled", row === 1);
    next.setAttribute("aria-disabled", row === rows);

    const answer = tokens[row];
    const nll = on ? causal_nll : unmasked_nll;
    const reader = on ? "mask on" : "mask off";
    const style = on ? "a" : "b";
    const leaks = !on && row < rows;
    const p = (values, i) => Math.exp(-values[i]);
    const means = { model: runningMean(nll), source: runningMean(source_nll) };

    words.replaceChildren(tokenList(tokens, row, on));
    frame.sentence.textContent =
      `Mask ${on ? "on" : "off"}: ${on ? 0 : rows - 1} of ${rows} rows can see their own answer. ` +
      `Row ${row} reads ${on ? `${row} of ${rows}` : `all ${rows}`} inputs; its answer ${quote(answer)}` +
      `${kinds.length ? ` (${kinds[row - 1]})` : ""} is ` +
      (leaks ? `input ${row + 1}, so it leaks. ` : row === rows ? "no input of any row. " : "hidden. ") +
      `The model gives it ${decimals(p(nll, row - 1))}, the source ${decimals(p(source_nll, row - 1))}. ` +
      `Mean loss of ${row === 1 ? "row 1" : `rows 1 to ${row}`}: ${decimals(means.model[row - 1])} nats; ` +
      `the source's own, the floor: ${decimals(means.source[row - 1])}.`;

    picture.innerHTML = maskPicture(rows, row, on, picture.clientWidth || 320);
    const width = side.clientWidth || 320;
    side.innerHTML =
      barPicture(
        [
          { name: reader, style, p: p(nll, row - 1) },
          { name: "the source", style: "c", p: p(source_nll, row - 1) },
        ],
        answer, width,
      ) +
      lineChart({
        title: "Mean loss so far (nats)",
        alt:
          `Running mean of the loss over ${rows} rows: ${reader} ends at ` +
          `${decimals(means.model.at(-1))} nats, the floor at ${decimals(means.source.at(-1))}.`,
        xLabel: "row", first: 1, last: rows, range: lossRange, width, marker: row,
        series: [
          { name: reader, style, values: means.model },
          { name: "floor", style: "c", values: means.source },
        ],
      });

    fillTable(
      frame.table,
      "Probability of each row's answer",
      ["row", "last word of the prefix", "answer", ...(kinds.length ? ["kind"] : []),
        "sees its answer", "p, mask on", "p, mask off", "p, source"],
      Array.from({ length: rows }, (_, i) => [
        i + 1, word(tokens[i]), word(tokens[i + 1]), ...(kinds.length ? [kinds[i]] : []),
        !on && i < rows - 1 ? "yes" : "no",
        ...[causal_nll, unmasked_nll, source_nll].map((values) => decimals(p(values, i))),
      ]),
      row - 1,
    );
  };
  return keepDrawn(model, frame, "change:email change:row change:mask", draw);
}

export default { render };
