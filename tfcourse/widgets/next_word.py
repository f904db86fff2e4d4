"""Chapter 00's widget: what does the last word alone tell about the next one?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anywidget
import traitlets
from jaxtyping import Float
from torch import Tensor

from tfcourse.data.batching import EmailData
from tfcourse.data.emails import EMAILS
from tfcourse.widgets.base import STYLE, field, script, series, within

N_GUESSES = 5


class NextWord(anywidget.AnyWidget):
    """Let a reader guess the words of an email, then show what two predictors say.

    `emails` holds one record per email to choose from. With L + 1 tokens there are L words to
    guess; word i is `tokens[i]`, and each list beside has one entry per word:

    - `tokens`: the words, from BOS to EOS;
    - `table`: what a table of word pairs says, from the last word alone;
    - `grammar`: what the grammar says, from all words so far;
    - `title` (optional): what the menu calls the email.

    An entry of `table` or `grammar` has `words` and `p`, the best guesses with their
    probabilities, and `answer`, the probability of the word that came.

    `word`, counted from 1, is where the slider starts: by default where the grammar is farthest
    ahead of the table. `word`, `all_words`, `revealed` and `email` can be set and read later.

    Raises `ValueError` for a missing, non-finite or misshapen record.
    """

    _esm = script("next_word.js")
    _css = STYLE

    emails: traitlets.List = traitlets.List().tag(sync=True)
    email = traitlets.Int(0).tag(sync=True)
    word = traitlets.Int(1).tag(sync=True)
    all_words = traitlets.Bool(True).tag(sync=True)
    revealed = traitlets.Bool(True).tag(sync=True)

    def __init__(self, emails: Iterable[Mapping], word: int | None = None):
        records = [_record(f"emails[{i}]", i, e) for i, e in enumerate(emails)]
        if not records:
            raise ValueError("emails is empty; give at least one")
        if word is None:
            pairs = zip(records[0]["grammar"], records[0]["table"], strict=True)
            ahead = [g["answer"] - t["answer"] for g, t in pairs]
            word = ahead.index(max(ahead)) + 1
        super().__init__(emails=records, word=word)

    @traitlets.validate("email")
    def _is_an_email(self, proposal):
        return within("email", proposal["value"], 0, len(self.emails) - 1)

    @traitlets.validate("word")
    def _is_a_word(self, proposal):
        longest = max(len(e["tokens"]) for e in self.emails) - 1
        return within("word", proposal["value"], 1, longest)


def guess_email(
    data: EmailData, tokens: Sequence[int], table: Float[Tensor, "V V"], title: str
) -> dict[str, Any]:
    """Let the table and the grammar guess every word of an email; return a record for the widget.

    `tokens` are ids from BOS to EOS; `table` holds the probability of each next token (column)
    after each token (row).
    """
    marks = {data.bos_id: "BOS", data.eos_id: "EOS", data.pad_id: "PAD"}
    names = [marks.get(t) or _visible(data.decode([t])) for t in range(data.vocab_size)]
    words = [data.decode([t]) for t in tokens[1:-1]]
    record: dict[str, Any] = {"title": title, "tokens": [names[t] for t in tokens]}
    pairs = [dict(zip(names, table[t].tolist(), strict=True)) for t in tokens[:-1]]
    exact = [EMAILS.next_word_probs(words[:i]) for i in range(len(words) + 1)]
    exact[-1] = {"EOS": 1.0}
    for name, of_words in (("table", pairs), ("grammar", exact)):
        record[name] = []
        for p, answer in zip(of_words, record["tokens"][1:], strict=True):
            p = {_visible(w): value for w, value in p.items()}
            best = sorted(p, key=lambda w: -p[w])[:N_GUESSES]
            answer_p = p.get(answer, 0.0)
            record[name].append({"words": best, "p": [p[w] for w in best], "answer": answer_p})
    return record


def _visible(word: str) -> str:
    return word.replace("\n", "↵")


def _record(where: str, index: int, given: Mapping) -> dict:
    tokens = [str(t) for t in field(where, given, "tokens")]
    if len(tokens) < 2:
        raise ValueError(f"{where}.tokens has {len(tokens)} tokens; give at least 2")
    record: dict[str, Any] = {
        "title": str(given.get("title", f"Email {index + 1}")),
        "tokens": tokens,
    }
    for name in ("table", "grammar"):
        entries = list(field(where, given, name))
        if len(entries) != len(tokens) - 1:
            raise ValueError(
                f"{where}.{name} has {len(entries)} entries; give {len(tokens) - 1}, one per word"
            )
        record[name] = [_entry(f"{where}.{name}[{i}]", e) for i, e in enumerate(entries)]
    return record


def _entry(where: str, given: Mapping) -> dict:
    words = [str(w) for w in field(where, given, "words")]
    p = series(f"{where}.p", field(where, given, "p"), len(words), high=1.0)
    answer = series(f"{where}.answer", [field(where, given, "answer")], 1, high=1.0)[0]
    return {"words": words, "p": p, "answer": answer}
