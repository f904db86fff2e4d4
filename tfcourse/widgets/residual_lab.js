const PANELS = [
  {
    field: "cosine", title: "Alikeness of the positions (mean cosine)",
    short: "alike", show: decimals, log: false,
  },
  {
    field: "stream_rms", title: "Size of the stream (root mean square)",
    short: "size", show: significant, log: true,
  },
  {
    field: "gradient", title: "Gradient that arrives (norm)",
    short: "gradient", show: significant, log: true,
  },
];
// From here on two positions count as the same.
const ALIKE = 0.99;

/** Say what one stack did, in words. */
function describe(name, m) {
  let start = m.cosine.length;
  while (start > 0 && m.cosine[start - 1] >= ALIKE) start--;
  const alike =
    start < m.cosine.length
      ? `the positions are alike (cosine at least ${ALIKE}) from block ${start} on`
      : `the positions end at a mean cosine of ${decimals(m.cosine.at(-1))}`;
  return (
    `${name}: ${alike}; the stream ends at size ${significant(m.stream_rms.at(-1))}; ` +
    `the gradient at block 0 is ${significant(m.gradient[0])}.`
  );
}

function compare(without, kept, keptName) {
  if (!without.gradient[0] || !kept.gradient[0]) return "";
  const ratio = significant(without.gradient[0] / kept.gradient[0]);
  return ` The gradient at block 0 is ${ratio} times as large without + x as ${keptName}.`;
}

function render({ model, el }) {
  const measurements = model.get("measurements");
  const sorted = (name, sign) =>
    [...new Set(measurements.map((m) => m[name]))].sort((p, q) => sign * (p - q));
  const depths = sorted("depth", 1);
  const alphas = [...new Set(measurements.filter((m) => m.residual).map((m) => m.alpha))].sort(
    (p, q) => q - p,
  );
  const ranges = PANELS.map(({ field, log }) =>
    rangeOf(measurements.flatMap((m) => m[field]), log),
  );

  const frame = makeFrame(
    el,
    "What dies first when the + x goes?",
    "move the depth from its smallest value to its largest and see which of the three lines without + x gives up first.",
  );
  const blocks = (d) => (d === 1 ? "1 block" : `${d} blocks`);
  const depth = makeSlider(
    "Depth", (i) => blocks(depths[i]), (i) => change(model, { depth: depths[i] }),
  );
  const kept = makeCheckbox("with + x", (on) => change(model, { show_with: on }));
  const dropped = makeCheckbox("without + x", (on) => change(model, { show_without: on }));
  const alpha = makeMenu(
    "Each addition keeps", alphas.map((a) => (a === 1 ? "all of x (α = 1)" : `${a} of x (α = ${a})`)),
    (i) => change(model, { alpha: alphas[i] }),
  );
  frame.controls.append(depth.element, kept.element, dropped.element);
  if (alphas.length > 1) frame.controls.append(alpha.element);

  const draw = () => {
    const d = model.get("depth");
    const a = model.get("alpha");
    depth.set(depths.indexOf(d), depths.length);
    kept.input.checked = model.get("show_with");
    dropped.input.checked = model.get("show_without");
    alpha.input.selectedIndex = alphas.indexOf(a);

    const withName = a === 1 ? "with + x" : `with + ${a}·x`;
    const shown = [
      { name: withName, style: "a", residual: true, alpha: a, on: model.get("show_with") },
      { name: "without + x", style: "b", residual: false, alpha: 1, on: model.get("show_without") },
    ]
      .filter((s) => s.on)
      .map((s) => ({
        ...s,
        stack: measurements.find(
          (m) => m.residual === s.residual && m.alpha === s.alpha && m.depth === d,
        ),
      }));

    const capital = (text) => text[0].toUpperCase() + text.slice(1);
    frame.sentence.textContent = shown.length
      ? `${capital(blocks(d))}. ` +
        shown.map((s) => describe(capital(s.name), s.stack)).join(" ") +
        (shown.length === 2 ? compare(shown[1].stack, shown[0].stack, withName) : "")
      : "No line is shown: tick “with + x” or “without + x”.";

    frame.pictures.innerHTML = PANELS.map(({ field, title, show, log }, i) =>
      lineChart({
        title,
        alt:
          `${title} Block 0 to block ${d}: ` +
          (shown
            .map((s) => `${s.name} from ${show(s.stack[field][0])} to ${show(s.stack[field].at(-1))}`)
            .join("; ") || "no line shown"),
        xLabel: "block", last: d, range: ranges[i], log, width: frame.pictures.clientWidth || 320,
        series: shown.map((s) => ({ name: s.name, style: s.style, values: s.stack[field] })),
      }),
    ).join("");

    fillTable(
      frame.table,
      `${capital(blocks(d))}; block 0 is the stream before the first block`,
      ["block", ...shown.flatMap((s) => PANELS.map((p) => `${p.short}, ${s.name}`))],
      Array.from({ length: d + 1 }, (_, i) => [
        i, ...shown.flatMap((s) => PANELS.map((p) => p.show(s.stack[p.field][i]))),
      ]),
    );
  };
  return keepDrawn(
    model, frame, "change:depth change:alpha change:show_with change:show_without", draw,
  );
}

export default { render };
