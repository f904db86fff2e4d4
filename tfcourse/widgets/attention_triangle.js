// From here on the mixture counts as one value alone.
const ALONE = 0.99;

/** The triangle of the three values, and the mixture as a point in it. */
function trianglePicture({ words, corners, weights, width }) {
  const [height, margin] = [190, 34];
  const xs = corners.map((c) => c[0]);
  const ys = corners.map((c) => c[1]);
  const scale = Math.min(
    (width - 2 * margin - 40) / (Math.max(...xs) - Math.min(...xs)),
    (height - 2 * margin) / (Math.max(...ys) - Math.min(...ys)),
  );
  const middle = width / 2 - (scale * (Math.max(...xs) + Math.min(...xs))) / 2;
  const place = ([px, py]) => [middle + scale * px, height - margin + 8 - scale * (py - Math.min(...ys))];
  const mixture = [0, 1].map((k) => weights.reduce((sum, w, j) => sum + w * corners[j][k], 0));
  const [mx, my] = place(mixture);
  const points = corners.map((c) => place(c).map((v) => v.toFixed(1)).join(",")).join(" ");
  const alt =
    `A triangle whose corners are the values of ${words.join(" ")}; the mixture is a point in it: ` +
    weights.map((w, j) => `${decimals(w)} of ${words[j]}`).join(", ");
  const names = corners
    .map((c, j) => {
      const [px, py] = place(c);
      const below = c[1] === Math.min(...ys);
      return (
        `<rect class="tfc-c" x="${(px - 4).toFixed(1)}" y="${(py - 4).toFixed(1)}" width="8" height="8"/>` +
        `<text class="tfc-tick" x="${px.toFixed(1)}" y="${(py + (below ? 19 : -9)).toFixed(1)}" text-anchor="middle">value of ${escapeText(words[j])}</text>`
      );
    })
    .join("");
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">What is handed over</text>` +
    `<polygon class="tfc-frame" points="${points}"/>${names}` +
    `<circle class="tfc-a" cx="${mx.toFixed(1)}" cy="${my.toFixed(1)}" r="7"/></svg>`
  );
}

function render({ model, el }) {
  const readings = model.get("readings");
  const words = model.get("words");
  const corners = model.get("corners");
  const widths = [...new Set(readings.map((r) => r.width))].sort((p, q) => p - q);
  const quoted = words.map((w) => `“${w}”`);

  const frame = makeFrame(
    el,
    "What does dividing by √dₖ save?",
    "take the division away, then make the head wider. Where does the point go, and can it ever leave the triangle?",
  );
  const width = makeSlider(
    "Width dₖ of the head", (i) => String(widths[i]), (i) => change(model, { width: widths[i] }),
  );
  const divided = makeCheckbox("divide by √dₖ", (on) => change(model, { divided: on }));
  const reader = makeMenu("Reader", quoted, (i) => change(model, { reader: i }));
  frame.controls.append(width.element, divided.element, reader.element);
  const pictures = [make("div"), make("div"), make("div")];
  const bars = make("div", {}, pictures[0], pictures[1]);
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(bars, pictures[2]);

  const draw = () => {
    const w = model.get("width");
    const on = model.get("divided");
    const i = model.get("reader");
    width.set(widths.indexOf(w), widths.length);
    divided.input.checked = on;
    reader.input.selectedIndex = i;
    const at = readings.find((r) => r.width === w && r.divided === on && r.reader === i);
    const masked = words.map((_, j) => j > i);
    const scores = words.map((_, j) => (masked[j] ? "−∞" : withMinus(at.scores[j].toFixed(2))));
    const weights = words.map((_, j) => (masked[j] ? 0 : at.weights[j]));
    const weightText = words.map((_, j) => (masked[j] ? "0" : decimals(weights[j])));
    const best = weights.indexOf(Math.max(...weights));
    const where =
      weights[best] >= ALONE
        ? `The mixture is the value of ${quoted[best]}, ${i ? "nearly " : ""}alone.`
        : `The mixture lies among ${i + 1} values; the largest weight is ${decimals(weights[best])}, for ${quoted[best]}.`;
    frame.sentence.textContent =
      `${quoted[i]} reads with a head of width ${w}, ` +
      (on ? `scores divided by ${Number(Math.sqrt(w).toFixed(2))}. ` : "scores not divided. ") +
      `Scores: ${words.map((_, j) => `${quoted[j]} ${scores[j]}`).join(", ")}. ` +
      `Weights: ${words.map((_, j) => `${quoted[j]} ${weightText[j]}`).join(", ")}. ` +
      where +
      (i < 2 ? " The mask hides the rest: weight exactly 0." : "");

    const most = Math.max(1, ...at.scores.map(Math.abs));
    const side = bars.clientWidth || 320;
    pictures[0].innerHTML = barChart({
      title: "Scores",
      rows: words.map((name, j) => ({ name, value: masked[j] ? 0 : at.scores[j], text: scores[j], style: "b" })),
      low: -most, high: most, width: side,
    });
    pictures[1].innerHTML = barChart({
      title: "Weights",
      rows: words.map((name, j) => ({ name, value: weights[j], text: weightText[j], style: "a" })),
      low: 0, high: 1, width: side,
    });
    pictures[2].innerHTML = trianglePicture({ words, corners, weights, width: pictures[2].clientWidth || 320 });

    fillTable(
      frame.table,
      `Weights of ${quoted[i]} as reader`,
      ["dₖ", "divided", ...quoted.map((q) => `score, ${q}`), ...quoted.map((q) => `weight, ${q}`)],
      readings
        .filter((r) => r.reader === i)
        .map((r) => [
          r.width, r.divided ? "yes" : "no",
          ...words.map((_, j) => (j > i ? "−∞" : withMinus(r.scores[j].toFixed(2)))),
          ...words.map((_, j) => (j > i ? "0" : decimals(r.weights[j]))),
        ]),
      readings.filter((r) => r.reader === i).indexOf(at),
    );
  };
  return keepDrawn(model, frame, "change:width change:divided change:reader", draw);
}

export default { render };
