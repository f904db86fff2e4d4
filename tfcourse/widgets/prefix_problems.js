const word = (token) => (token.trim() === "" ? "↵" : token);
const quote = (token) => `“${word(token)}”`;

/** Mean of the first 1, 2, … values. */
function runningMean(values) {
  let sum = 0;
  return values.map((v, i) => (sum += v) / (i + 1));
}

/** One square per question and input: filled where the question may read, crossed where it reads its answer. */
function maskPicture(questions, question, mask, width) {
  const left = 20;
  const top = 34;
  const size = Math.min(12, Math.floor((width - left - 4) / questions));
  const square = (i, j, inset) =>
    `M${left + j * size + inset} ${top + i * size + inset}h${size - 2 * inset}v${size - 2 * inset}h${2 * inset - size}z`;
  let [read, hidden, leak] = ["", "", ""];
  for (let i = 0; i < questions; i++) {
    for (let j = 0; j < questions; j++) {
      if (!mask && j === i + 1) leak += square(i, j, 0.5);
      else if (!mask || j <= i) read += square(i, j, 0.5);
      else hidden += square(i, j, size / 2 - 1);
    }
  }
  const crosses = mask
    ? ""
    : Array.from({ length: questions - 1 }, (_, i) => {
        const [x, y] = [left + (i + 1) * size, top + i * size];
        return `M${x + 2} ${y + 2}l${size - 4} ${size - 4}m0 ${4 - size}l${4 - size} ${size - 4}`;
      }).join("");
  const alt = mask
    ? `A triangle: question 1 may read input 1, question ${questions} all ${questions} inputs. No question reads its own answer.`
    : `A full square: every question may read all ${questions} inputs. The crossed squares beside the diagonal are questions that read their own answer.`;
  const height = top + questions * size + 4;
  const y = top + (question - 1) * size;
  return (
    `<svg role="img" aria-label="${alt}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">Who may read what?</text>` +
    `<text class="tfc-tick" x="${left}" y="29">→ inputs 1 to ${questions}, ↓ questions 1 to ${questions}</text>` +
    `<text class="tfc-tick" x="${left - 4}" y="${y + size / 2}" dy="4" text-anchor="end">${question}</text>` +
    `<path class="tfc-read" d="${read}"/><path class="tfc-hidden" d="${hidden}"/>` +
    `<path class="tfc-leak" d="${leak}"/><path class="tfc-cross" d="${crosses}"/>` +
    `<rect class="tfc-row" x="${left - 1}" y="${y - 1}" width="${questions * size + 2}" height="${size + 2}"/></svg>`
  );
}

/** Bars for the probability that each reader gives to the question's answer. */
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
function tokenList(tokens, question, mask) {
  const chips = tokens.map((token, i) => {
    const isInput = i < tokens.length - 1;
    const readable = isInput && (!mask || i < question);
    let [kind, note] = readable ? ["read", ""] : ["hidden", ""];
    if (i === question) [kind, note] = readable ? ["leak", "answer, leaks"] : ["answer", "answer"];
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
    "Which questions can see their own answer?",
    "take the mask off, then walk through the questions and watch the loss against the floor.",
  );
  const goTo = (question) =>
    change(model, { question: Math.min(Math.max(question, 1), email().tokens.length - 1) });
  const menu = makeMenu(
    "Email", emails.map((e) => e.title), (email) => change(model, { email, question: 1 }),
  );
  const mask = makeCheckbox("causal mask", (on) => change(model, { mask: on }));
  const slider = makeSlider("Question", (i) => String(i + 1), (i) => goTo(i + 1));
  const previous = make("button", { type: "button" }, "Previous question");
  const next = make("button", { type: "button" }, "Next question");
  previous.addEventListener("click", () => goTo(currentQuestion() - 1));
  next.addEventListener("click", () => goTo(currentQuestion() + 1));
  if (emails.length > 1) frame.controls.append(menu.element);
  frame.controls.append(mask.element, slider.element, previous, next);
  const words = make("div");
  const [picture, side] = [make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(picture, side);
  frame.pictures.before(words);

  const email = () => emails[model.get("email")];
  // A question set from Python may lie beyond the end of a shorter email.
  const currentQuestion = () => Math.min(model.get("question"), email().tokens.length - 1);

  const draw = () => {
    const { tokens, causal_nll, unmasked_nll, source_nll, kinds } = email();
    const questions = tokens.length - 1;
    const question = currentQuestion();
    const on = model.get("mask");
    menu.input.selectedIndex = model.get("email");
    mask.input.checked = on;
    slider.set(question - 1, questions);
    // A disabled button would drop the keyboard focus, so the ends say so without it.
    previous.setAttribute("aria-disabled", question === 1);
    next.setAttribute("aria-disabled", question === questions);

    const answer = tokens[question];
    const nll = on ? causal_nll : unmasked_nll;
    const reader = on ? "mask on" : "mask off";
    const style = on ? "a" : "b";
    const leaks = !on && question < questions;
    const p = (values, i) => Math.exp(-values[i]);
    const means = { model: runningMean(nll), source: runningMean(source_nll) };

    words.replaceChildren(tokenList(tokens, question, on));
    frame.sentence.textContent =
      `Mask ${on ? "on" : "off"}: ${on ? 0 : questions - 1} of ${questions} questions can see their own answer. ` +
      `Question ${question} reads ${on ? `${question} of ${questions}` : `all ${questions}`} inputs; its answer ${quote(answer)}` +
      `${kinds.length ? ` (${kinds[question - 1]})` : ""} is ` +
      (leaks ? `input ${question + 1}, so it leaks. ` : question === questions ? "no input of this email. " : "hidden. ") +
      `The model ${on ? "with" : "without"} a mask gives it ${decimals(p(nll, question - 1))}, the source ${decimals(p(source_nll, question - 1))}. ` +
      `Mean loss of ${question === 1 ? "question 1" : `questions 1 to ${question}`}: ${decimals(means.model[question - 1])} nats; ` +
      `the source's own, the floor: ${decimals(means.source[question - 1])}.`;

    picture.innerHTML = maskPicture(questions, question, on, picture.clientWidth || 320);
    const width = side.clientWidth || 320;
    side.innerHTML =
      barPicture(
        [
          { name: reader, style, p: p(nll, question - 1) },
          { name: "the source", style: "c", p: p(source_nll, question - 1) },
        ],
        answer, width,
      ) +
      lineChart({
        title: "Mean loss so far (nats)",
        alt:
          `Running mean of the loss over ${questions} questions: ${reader} ends at ` +
          `${decimals(means.model.at(-1))} nats, the floor at ${decimals(means.source.at(-1))}.`,
        xLabel: "question", first: 1, last: questions, range: lossRange, width, marker: question,
        series: [
          { name: reader, style, values: means.model },
          { name: "floor", style: "c", values: means.source },
        ],
      });

    fillTable(
      frame.table,
      "Probability of each question's answer",
      ["question", "last word of the prefix", "answer", ...(kinds.length ? ["kind"] : []),
        "sees its answer", "p, mask on", "p, mask off", "p, source"],
      Array.from({ length: questions }, (_, i) => [
        i + 1, word(tokens[i]), word(tokens[i + 1]), ...(kinds.length ? [kinds[i]] : []),
        !on && i < questions - 1 ? "yes" : "no",
        ...[causal_nll, unmasked_nll, source_nll].map((values) => decimals(p(values, i))),
      ]),
      question - 1,
    );
  };
  return keepDrawn(model, frame, "change:email change:question change:mask", draw);
}

export default { render };
