// Below this a gradient is the rounding error of the machine that measured it.
const DEAD = 1e-6;
const gradient = (value) => (value < DEAD ? "below 10⁻⁶" : significant(value));
// `first` is where a measurement begins: 0 is the embedding.
const PANELS = [
  {
    field: "cosine", title: "How alike are two positions?",
    short: "alike", show: decimals, first: 0, low: -1, log: false,
  },
  {
    field: "stream_rms", title: "Size of the stream",
    short: "size", show: significant, first: 0, low: 0, log: true,
  },
  {
    field: "weight_gradient", title: "Gradient of all weights of a block",
    short: "gradient", show: gradient, first: 1, low: DEAD, log: true,
  },
  {
    field: "query_key_gradient", title: "Gradient of its queries and keys",
    short: "of queries and keys", show: gradient, first: 1, low: DEAD, log: true,
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
      ? `all positions are alike (cosine at least ${ALIKE}) from block ${start} on`
      : `two positions end at a mean cosine of ${decimals(m.cosine.at(-1))}`;
  return (
    `${name}: ${alike}; the stream ends at size ${significant(m.stream_rms.at(-1))}; ` +
    `the gradient of block 1 is ${gradient(m.weight_gradient[0])}, ` +
    `that of its queries and keys ${gradient(m.query_key_gradient[0])}.`
  );
}

function compare(without, kept, keptName) {
  const [a, b] = [without, kept].map((m) => m.weight_gradient[0]);
  if (a < DEAD || b < DEAD) return "";
  return ` Over all weights, block 1 gets ${significant(a / b)} times as much without +\u00a0x as ${keptName}.`;
}

function render({ model, el }) {
  const measurements = model.get("measurements");
  const sorted = (name, sign) =>
    [...new Set(measurements.map((m) => m[name]))].sort((p, q) => sign * (p - q));
  const depths = sorted("depth", 1);
  const alphas = [...new Set(measurements.filter((m) => m.residual).map((m) => m.alpha))].sort(
    (p, q) => q - p,
  );
  const ranges = PANELS.map(({ field, low, log }) =>
    rangeOf(measurements.flatMap((m) => m[field].map((v) => Math.max(v, low))), log),
  );

  const frame = makeFrame(
    el,
    "What dies first when the + x goes?",
    "move the depth from its smallest value to its largest. Without + x, what goes first: the difference between positions, the gradient of all weights, or that of the queries and keys?",
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

  const pictures = PANELS.map(() => make("div"));
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(...pictures);

  const draw = () => {
    const d = model.get("depth");
    const a = model.get("alpha");
    depth.set(depths.indexOf(d), depths.length);
    kept.input.checked = model.get("show_with");
    dropped.input.checked = model.get("show_without");
    alpha.input.selectedIndex = alphas.indexOf(a);

    const withName = a === 1 ? "with +\u00a0x" : `with +\u00a0${a}·x`;
    const shown = [
      { name: withName, style: "a", residual: true, alpha: a, on: model.get("show_with") },
      { name: "without +\u00a0x", style: "b", residual: false, alpha: 1, on: model.get("show_without") },
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

    const place = (i) => (i === 0 ? "the embedding" : `block ${i}`);
    PANELS.forEach(({ field, title, show, log, first }, i) => {
      pictures[i].innerHTML = lineChart({
        title,
        alt:
          `${title}: from ${place(first)} to block ${d}: ` +
          (shown
            .map((s) => `${s.name} from ${show(s.stack[field][0])} to ${show(s.stack[field].at(-1))}`)
            .join("; ") || "no line shown"),
        xLabel: first ? "block" : "after block", firstLabel: first ? "1" : "embedding",
        first, last: d, range: ranges[i], log, width: pictures[i].clientWidth || 320,
        series: shown.map((s) => ({ name: s.name, style: s.style, values: s.stack[field] })),
      });
    });

    fillTable(
      frame.table,
      `${capital(blocks(d))}: after the embedding and after each block; gradients in each block`,
      ["block", ...shown.flatMap((s) => PANELS.map((p) => `${p.short}, ${s.name}`))],
      Array.from({ length: d + 1 }, (_, i) => [
        i || "embedding",
        ...shown.flatMap((s) =>
          PANELS.map((p) => (i < p.first ? "–" : p.show(s.stack[p.field][i - p.first]))),
        ),
      ]),
    );
  };
  return keepDrawn(
    model, frame, "change:depth change:alpha change:show_with change:show_without", draw,
  );
}

export default { render };
