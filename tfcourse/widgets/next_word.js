const word = (token) => (token.trim() === "" ? "↵" : token);
const quote = (token) => `“${word(token)}”`;
const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** The predictor's best guesses as bars; the word that came is marked, and added where it is not among them. */
function guessPicture({ title, entry, answer, style, width }) {
  const guesses = entry.words.map((w, i) => [w, entry.p[i]]);
  if (!entry.words.includes(answer)) guesses.push([answer, entry.answer]);
  const [left, top, step] = [98, 26, 24];
  const full = Math.max(40, width - left - 50);
  const height = top + step * 6;
  const alt = `${title}. ${guesses
    .map(([w, p]) => `${quote(w)} ${decimals(p)}${w === answer ? ", the word that came" : ""}`)
    .join("; ")}.`;
  return (
    `<svg role="img" aria-label="${escapeText(alt)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<text class="tfc-title" x="2" y="14">${escapeText(title)}</text>` +
    guesses
      .map(([w, p], i) => {
        const y = top + i * step;
        const came = w === answer;
        return (
          `<text class="${came ? "tfc-title" : "tfc-tick"}" x="${left - 6}" y="${y + 13}" text-anchor="end">` +
          `${came ? "→ " : ""}${escapeText(word(w))}</text>` +
          `<rect class="tfc-frame" x="${left}" y="${y}" width="${full}" height="17"/>` +
          `<rect class="tfc-${style}" x="${left}" y="${y}" width="${(full * p).toFixed(1)}" height="17"/>` +
          `<text class="tfc-name" x="${left + full + 6}" y="${y + 13}">${decimals(p)}</text>`
        );
      })
      .join("") +
    `</svg>`
  );
}

/** The email up to the word that is asked for, as far as it is seen; then the answer, or a gap. */
function seenWords(tokens, at, all, revealed) {
  const chip = (text, kind = "") => make("li", { className: `tfc-token ${kind}` }, text);
  const covered = all ? 0 : at - 1;
  return make(
    "ol", { className: "tfc-tokens", role: "list", "aria-label": "What you see of the email" },
    ...(covered ? [chip(`… ${covered} covered`, "tfc-token-hidden")] : []),
    ...tokens.slice(covered, at).map((token) => chip(word(token))),
    chip(revealed ? word(tokens[at]) : "?", "tfc-token-answer"),
  );
}

function render({ model, el }) {
  const emails = model.get("emails");
  const email = () => emails[model.get("email")];
  // A word set from Python may lie beyond the end of a shorter email.
  const current = () => Math.min(model.get("word"), email().tokens.length - 1);
  const goTo = (at) =>
    change(model, { word: Math.min(Math.max(at, 1), email().tokens.length - 1) });

  const frame = makeFrame(
    el,
    "What can you tell from the last word alone?",
    "take the tick from “show the answers”, walk to another word and guess it: first from the last word alone, then from all words. Then tick again.",
  );
  const menu = makeMenu(
    "Email", emails.map((e) => e.title), (i) => change(model, { email: i, word: 1 }),
  );
  const view = makeMenu(
    "You see", ["the last word alone", "all words so far"],
    (i) => change(model, { all_words: i === 1 }),
  );
  const reveal = makeCheckbox("show the answers", (on) => change(model, { revealed: on }));
  const slider = makeSlider("Word", (i) => String(i + 1), (i) => goTo(i + 1));
  const previous = make("button", { type: "button" }, "Previous word");
  const next = make("button", { type: "button" }, "Next word");
  previous.addEventListener("click", () => goTo(current() - 1));
  next.addEventListener("click", () => goTo(current() + 1));
  if (emails.length > 1) frame.controls.append(menu.element);
  frame.controls.append(view.element, reveal.element, slider.element, previous, next);
  const words = make("div");
  const [fromLast, fromAll] = [make("div"), make("div")];
  frame.pictures.classList.add("tfc-columns");
  frame.pictures.append(fromLast, fromAll);
  frame.pictures.before(words);

  const draw = () => {
    const { tokens, table, grammar } = email();
    const [last, at] = [tokens.length - 1, current()];
    const [all, revealed] = [model.get("all_words"), model.get("revealed")];
    const [t, g] = [table[at - 1], grammar[at - 1]];
    const [answer, before] = [tokens[at], tokens[at - 1]];
    menu.input.selectedIndex = model.get("email");
    view.input.selectedIndex = all ? 1 : 0;
    reveal.input.checked = revealed;
    slider.set(at - 1, last);
    // A disabled button would drop the keyboard focus, so the ends say so without it.
    previous.setAttribute("aria-disabled", at === 1);
    next.setAttribute("aria-disabled", at === last);

    words.replaceChildren(seenWords(tokens, at, all, revealed));
    const seen = all ? `all ${count(at, "token")} so far` : `the last one alone, ${quote(before)}`;
    frame.sentence.textContent =
      `Word ${at} of ${last}. You see ${seen}. ` +
      (revealed
        ? `What came is ${quote(answer)}. From ${quote(before)} alone the table of word pairs gives it ${decimals(t.answer)}; ` +
          `its best guess is ${quote(t.words[0])}, ${decimals(t.p[0])}. ` +
          (all
            ? `From all words the grammar gives it ${decimals(g.answer)}` +
              (g.answer > 0.9995 ? ": nothing else can stand here." : ".")
            : "")
        : "What comes next?");

    const width = fromLast.clientWidth || 320;
    const nothing = (text) => `<p>${escapeText(text)}</p>`;
    fromLast.innerHTML = revealed
      ? guessPicture({ title: `The table, from ${quote(before)} alone`, entry: t, answer, style: "b", width })
      : nothing("The answers are covered.");
    fromAll.innerHTML = !revealed
      ? ""
      : all
        ? guessPicture({ title: "The grammar, from all words", entry: g, answer, style: "c", width })
        : nothing("Choose “all words so far” to see what the grammar says.");

    fillTable(
      frame.table,
      "Probability of each word of this email",
      ["word", "last word before it", "what came", "table's best guess", "p, table", "p, grammar"],
      table.map((entry, i) => [
        i + 1, word(tokens[i]), word(tokens[i + 1]), word(entry.words[0]),
        decimals(entry.answer), decimals(grammar[i].answer),
      ]),
      at - 1,
    );
  };
  return keepDrawn(model, frame, "change:email change:word change:all_words change:revealed", draw);
}

export default { render };
