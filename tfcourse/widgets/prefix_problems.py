"""Chapter 05's widget: which questions can see their own answer?"""

from collections.abc import Iterable, Mapping

import anywidget
import traitlets

from tfcourse.widgets.base import STYLE, field, script, series, within


class PrefixProblems(anywidget.AnyWidget):
    """Show the L prefix problems of an email, with the causal mask on and off.

    `emails` holds one record per email to choose from. With L + 1 tokens there are L questions;
    question ℓ has the target `tokens[ℓ]`, and each list beside has one number per question:

    - `tokens`: the words, from BOS to EOS;
    - `causal_nll`: −log p(target) in nats by a model trained with the causal mask;
    - `unmasked_nll`: the same by a model trained without it;
    - `source_nll`: the source's own exact −log p(target | prefix);
    - `kinds` (optional): a word on each target, such as "name" or "grammar";
    - `title` (optional): what the menu calls the email.

    `question`, counted from 1, is where the slider starts: by default at the target that the source
    finds hardest, the one that shows most when it leaks. `question`, `mask` and `email` can be set
    and read later.

    Raises `ValueError` for a missing, non-finite or misshapen record.
    """

    _esm = script("prefix_problems.js")
    _css = STYLE

    emails: traitlets.List = traitlets.List().tag(sync=True)
    email = traitlets.Int(0).tag(sync=True)
    question = traitlets.Int(1).tag(sync=True)
    mask = traitlets.Bool(True).tag(sync=True)

    def __init__(self, emails: Iterable[Mapping], question: int | None = None):
        records = [_record(f"emails[{i}]", i, e) for i, e in enumerate(emails)]
        if not records:
            raise ValueError("emails is empty; give at least one")
        if question is None:
            surprise = records[0]["source_nll"]
            question = surprise.index(max(surprise)) + 1
        super().__init__(emails=records, question=question)

    @traitlets.validate("email")
    def _is_an_email(self, proposal):
        return within("email", proposal["value"], 0, len(self.emails) - 1)

    @traitlets.validate("question")
    def _is_a_question(self, proposal):
        longest = max(len(e["tokens"]) for e in self.emails) - 1
        return within("question", proposal["value"], 1, longest)


def _record(where: str, index: int, given: Mapping) -> dict:
    tokens = [str(t) for t in field(where, given, "tokens")]
    questions = len(tokens) - 1
    if questions < 1:
        raise ValueError(f"{where}.tokens has {len(tokens)} tokens; give at least 2")
    losses = {
        name: series(f"{where}.{name}", field(where, given, name), questions)
        for name in ("causal_nll", "unmasked_nll", "source_nll")
    }
    kinds = [str(k) for k in given.get("kinds") or []]
    if kinds and len(kinds) != questions:
        raise ValueError(f"{where}.kinds has {len(kinds)} words; give {questions}, one per target")
    title = str(given.get("title", f"Email {index + 1}"))
    return {"title": title, "tokens": tokens, **losses, "kinds": kinds}
