const MOST_SIZE = 1e6;
const MOST = MOST_SIZE.toLocaleString("en");
const isUsable = (value) => Number.isFinite(value) && Math.abs(value) <= MOST_SIZE;
const sumOf = (values) => values.reduce((a, b) => a + b, 0);
const meanOf = (values) => sumOf(values) / values.length;

/** LayerNorm of one vector: every number on the way. */
function layerNorm(x, eps, gamma, beta) {
  const mean = meanOf(x);
  const centred = x.map((v) => v - mean);
  const square = meanOf(centred.map((v) => v * v));
  const divisor = Math.sqrt(square + eps);
  const divided = centred.map((v) => v / divisor);
  return { mean, centred, square, divisor, divided, out: divided.map((v, j) => gamma[j] * v + beta[j]) };
}

/** RMSNorm of one vector: no mean is taken away, and there is no shift. */
function rmsNorm(x, eps, gamma) {
  const square = meanOf(x.map((v) => v * v));
  const divisor = Math.sqrt(square + eps);
  const divided = x.map((v) => v / divisor);
  return { centred: x, square, divisor, divided, out: divided.map((v, j) => gamma[j] * v) };
}

/** Four significant digits, as short as they can be said. */
function brief(value) {
  if (!Number.isFinite(value)) return "not a number";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
    const [mantissa, exponent] = value.toExponential(3).split("e");
    const factor = Math.abs(Number(mantissa)) === 1 ? "" : `${Number(mantissa)}·`;
    return withMinus(value < 0 && !factor ? "-" : factor) + `10${superscript(Number(exponent))}`;
  }
  return withMinus(String(Number(value.toPrecision(4))));
}
const vectorText = (values) => `[${values.map(brief).join(", ")}]`;

const ones = (n) => Array(n).fill(1);
const zeros = (n) => Array(n).fill(0);
const EXAMPLES = [
  { name: "by hand: [1, 3], ε = 1", x: [1, 3], eps: 1 },
  { name: "four features", x: [2, 0, 5, 1], eps: 1e-5 },
  { name: "nearly constant", x: [2, 2, 2, 2.001], eps: 1e-5 },
  { name: "constant", x: [2, 2, 2, 2], eps: 1e-5 },
  { name: "constant, ε = 0", x: [2, 2, 2, 2], eps: 0 },
  { name: "tiny", x: [0.0002, 0, 0.0005, 0.0001], eps: 1e-5 },
  { name: "one feature sticks out", x: [0.1, -0.2, 40, 0.3], eps: 1e-5 },
].map((e) => ({ ...e, gamma: ones(e.x.length), beta: zeros(e.x.length) }));
const sameNumbers = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);

/** One step: a bar for each feature, with its value. All bars of a step have one scale. */
function stepPicture(title, values, size, style, width) {
  const [left, right, top, step] = [8, 78, 24, 20];
  const room = width - left - right;
  const negative = values.some((v) => v < 0);
  const positive = values.some((v) => v > 0) || !negative;
  const zero = left + (negative ? (positive ? room / 2 : room) : 0);
  const full = negative && positive ? room / 2 : room;
  const height = top + values.length * step + 8;
  const bars = values.map((v, j) => {
    const y = top + j * step;
    const length = Number.isFinite(v) && size > 0 ? (Math.abs(v) / size) * full : 0;
    const x = v < 0 ? zero - length : zero;
    return (
      `<rect class="tfc-bar tfc-${style}" x="${x.toFixed(1)}" y="${y}" width="${length.toFixed(1)}" height="13"/>` +
      `<text class="tfc-name" x="${left + room + 6}" y="${y + 11}">${brief(v)}</text>`
    );
  });
  return (
    `<svg role="img" aria-label="${escapeText(`${title}: ${vectorText(values)}`)}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}"><text class="tfc-title" x="2" y="14">${escapeText(title)}</text>` +
    `<line class="tfc-axis" x1="${zero}" x2="${zero}" y1="${top - 3}" y2="${height - 7}"/>${bars.join("")}</svg>`
  );
}

function render({ model, el }) {
  const epsilons = model.get("epsilons");
  const state = () => ({ ...model.get("vectors"), eps: model.get("eps") });
  const set = ({ eps, ...vectors }) =>
    change(model, { ...(eps === undefined ? {} : { eps }), vectors: { ...model.get("vectors"), ...vectors } });

  const frame = makeFrame(
    el,
    "What is left of a vector after each norm?",
    "choose ε = 10⁻⁵, then multiply x by 10. Which results move? Then add 5 to x: which norm notices?",
  );
  const example = makeMenu(
    "Example", [...EXAMPLES.map((e) => e.name), "your own numbers"],
    (i) => {
      const { name, ...chosen } = EXAMPLES[i] ?? {};
      if (name) set(chosen);
      else draw();
    },
  );
  const epsilon = makeMenu("ε", epsilons.map(brief), (i) => set({ eps: epsilons[i] }));
  // Ten digits, so that 0.1 · 10 is 1.
  const act = (text, f) => {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      const x = state().x.map((v) => Number(f(v).toPrecision(10)));
      if (x.every(isUsable)) set({ x });
    });
    return { button, works: () => state().x.every((v) => isUsable(f(v))) };
  };
  const buttons = [
    act("Multiply x by 10", (v) => v * 10), act("Divide x by 10", (v) => v / 10), act("Add 5 to x", (v) => v + 5),
  ];
  const fields = make("div", { className: "tfc-fields" });
  frame.controls.append(example.element, epsilon.element, ...buttons.map((b) => b.button), fields);

  const ROWS = [["x", "x", 1], ["gamma", "γ", 0.5], ["beta", "β", 0.5]];
  let inputs = {};
  /** One row of number fields for x, for γ and for β. */
  const layFields = (length) => {
    inputs = {};
    fields.replaceChildren(
      ...ROWS.map(([name, letter, step]) => {
        inputs[name] = Array.from({ length }, (_, j) => {
          const input = make("input", {
            type: "number", step: "any", min: -MOST_SIZE, max: MOST_SIZE,
            "aria-label": `${letter}, feature ${j + 1}`,
          });
          input.addEventListener("keydown", (event) => {
            const sign = { ArrowUp: 1, ArrowDown: -1 }[event.key];
            if (!sign) return;
            event.preventDefault();
            put(name, j, state()[name][j] + sign * step);
          });
          input.addEventListener("input", () => {
            if (input.value !== "" && isUsable(Number(input.value))) put(name, j, Number(input.value));
            else
              frame.sentence.textContent =
                `Type a number from −${MOST} to ${MOST}. Until then this feature of ${letter} stays ${brief(state()[name][j])}.`;
          });
          // On leaving, a field without a usable number shows what is computed with.
          input.addEventListener("change", () => draw());
          return input;
        });
        return make("div", { className: "tfc-field-row" }, make("span", {}, letter), ...inputs[name]);
      }),
    );
  };
  const put = (name, j, value) => {
    if (!isUsable(value)) return;
    const values = [...state()[name]];
    values[j] = Number(value.toPrecision(10));
    set({ [name]: values });
  };

  const [left, right] = [make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(left, right);

  const draw = () => {
    const { x, gamma, beta, eps } = state();
    const layer = layerNorm(x, eps, gamma, beta);
    const rms = rmsNorm(x, eps, gamma);

    if (!inputs.x || inputs.x.length !== x.length) layFields(x.length);
    for (const [name] of ROWS) {
      inputs[name].forEach((input, j) => {
        const value = state()[name][j];
        // While a learner types, "1." and "1" are the same number: leave the text alone.
        if (input.value === "" || Number(input.value) !== value) input.value = String(value);
      });
    }
    const shown = EXAMPLES.findIndex(
      (e) => e.eps === eps && sameNumbers(e.x, x) && sameNumbers(e.gamma, gamma) && sameNumbers(e.beta, beta),
    );
    example.input.selectedIndex = shown < 0 ? EXAMPLES.length : shown;
    epsilon.input.selectedIndex = epsilons.indexOf(eps);
    for (const { button, works } of buttons) button.setAttribute("aria-disabled", !works());

    const failed = [layer, rms].some((n) => !n.out.every(Number.isFinite));
    frame.sentence.textContent =
      `x = ${vectorText(x)}, ε = ${brief(eps)}. LayerNorm takes away the mean ${brief(layer.mean)} and divides by ` +
      `√(${brief(layer.square)} + ${brief(eps)}) = ${brief(layer.divisor)}: ${vectorText(layer.out)}. ` +
      `RMSNorm keeps the mean and divides by √(${brief(rms.square)} + ${brief(eps)}) = ${brief(rms.divisor)}: ${vectorText(rms.out)}.` +
      (failed ? " Zero divided by zero is not a number. An ε above 0 prevents it." : "");

    const biggest = (...vectors) =>
      Math.max(0, ...vectors.flat().filter(Number.isFinite).map(Math.abs));
    const steps = [
      ["the vector x", "the vector x", x, x],
      [`minus the mean, ${brief(layer.mean)}`, "the mean stays", layer.centred, rms.centred],
      [`divided by ${brief(layer.divisor)}`, `divided by ${brief(rms.divisor)}`, layer.divided, rms.divided],
      ["times γ, plus β", "times γ", layer.out, rms.out],
    ];
    const column = (host, name, style, pick) => {
      const width = host.clientWidth || 300;
      host.innerHTML = steps
        .map((s, i) => {
          const title = `${i ? `${i}. ` : ""}${s[pick]}`;
          const picture = stepPicture(title, s[pick + 2], biggest(s[2], s[3]), style, width);
          return i ? picture : `<div class="tfc-heading">${name}</div>${picture}`;
        })
        .join("");
    };
    column(left, "LayerNorm", "a", 0);
    column(right, "RMSNorm", "b", 1);

    const blank = x.map(() => "");
    const row = (name, values) => [name, ...values.map(brief)];
    const number = (name, value) => [name, brief(value), ...blank.slice(1)];
    fillTable(
      frame.table,
      "Each step of both norms; a mean, a variance or a divisor is one number for all features",
      ["step", ...x.map((_, j) => `feature ${j + 1}`)],
      [
        row("x", x),
        number("LayerNorm: mean", layer.mean),
        row("LayerNorm: minus the mean", layer.centred),
        number("LayerNorm: variance", layer.square),
        number("LayerNorm: divisor", layer.divisor),
        row("LayerNorm: divided", layer.divided),
        row("LayerNorm: times γ, plus β", layer.out),
        number("RMSNorm: mean square", rms.square),
        number("RMSNorm: divisor", rms.divisor),
        row("RMSNorm: divided", rms.divided),
        row("RMSNorm: times γ", rms.out),
      ],
    );
  };
  return keepDrawn(model, frame, "change:vectors change:eps", draw);
}

export default { render };
