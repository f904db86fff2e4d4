"""Write text by uniform choices, and give any text its exact probability under those choices.

The notation of the rules: words stand for themselves and `/` is a line break. `<rule>` goes on
with one of the rule's alternatives. `{to:name}` draws a row of the pool `name`, calls it `to` and
writes its word; `{cc:name-to-from}` draws a row that neither `to` nor `from` holds. From then on
`{to}` writes that word again and `{to.her}` another form of the row, however far away.

The first word of an option tells it from all others of the same choice (the constructor checks
this). So a text has one derivation, known word by word from left to right: the probability of the
text is the product of its choices, and that of a word after its prefix is the product of the
choices that this word reveals.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

LINE_BREAK = "\n"
WORD = ""  # the form of a row that a draw writes, and that `{slot}` repeats

Row = Mapping[str, str]  # form -> word
Notes = dict[int, list[tuple[float, str, str]]]  # position -> (log p, kind, slot) of its choices


@dataclass(frozen=True)
class Again:
    """A place that writes a form of a row drawn earlier."""

    slot: str
    form: str


@dataclass(frozen=True, eq=False)
class Choice:
    """A uniform choice: between alternatives, or (with a slot) between the rows of a pool."""

    options: tuple[Any, ...]  # sequences of parts, or rows
    by_first_word: Mapping[str, Any]
    log_p: float
    slot: str = ""
    without: tuple[str, ...] = ()


Part = str | Again | Choice


class Token(NamedTuple):
    """A word with its log-probability after its prefix, in nats, and how the grammar chose it.

    `kind` is "new" (drawn from a pool), "wording" (reveals which alternative was taken), "again"
    (repeats a drawn word), "agreement" (another form of a drawn row) or "fixed". A repeated word
    that also reveals an alternative counts as "wording". `slot` names the drawn row, if any.
    The end of the text is a token too: its word is "".
    """

    word: str
    log_p: float
    kind: str
    slot: str


class Entropy(NamedTuple):
    """The mean of −log p of a text, in nats, and the mean number of its tokens with the end."""

    nats_per_text: float
    tokens_per_text: float

    @property
    def nats_per_token(self) -> float:
        """The entropy of a text, spread over its tokens."""
        return self.nats_per_text / self.tokens_per_text


class Grammar:
    """A grammar without recursion, in the notation of this file's first lines.

    Raises ValueError when two options of one choice can start with the same word.
    """

    def __init__(
        self,
        rules: Mapping[str, Sequence[str]],
        pools: Mapping[str, Sequence[Row]],
        start: str,
    ):
        self._rules, self._pools = rules, pools
        self._slot_words = self._words_by_slot()
        self._start = Choice((tuple(self._sequence(f"<{start}>")),), {}, 0.0)
        self.vocabulary = tuple(sorted(self._all_words(self._start)))

    def sample(self, rng: random.Random) -> list[str]:
        """Write one text."""
        words, _ = self._derive(partial(_pick_by_chance, rng))
        return words[:-1]

    def score(self, words: Sequence[str]) -> list[Token]:
        """Give every word, and then the end, its exact log-probability after its prefix.

        From the first word on that the grammar can't write, all are −inf; so is the end of a text
        that is not complete.
        """
        derived, notes = self._derive(partial(_pick_by_word, words))
        tokens, possible = [], True
        for i, word in enumerate([*words, ""]):
            possible = possible and i < len(derived) and derived[i] == word
            log_p, kind, slot = 0.0, "fixed", ""
            for note_log_p, note_kind, note_slot in notes[i]:
                log_p += note_log_p
                if note_log_p or not log_p:
                    kind, slot = note_kind, note_slot
            tokens.append(Token(word, log_p if possible else -math.inf, kind, slot))
        return tokens

    def log_prob(self, words: Sequence[str]) -> float:
        """Return log p of the whole text, in nats; −inf if the grammar can't write it."""
        return math.fsum(token.log_p for token in self.score(words))

    def next_word_probs(self, prefix: Sequence[str]) -> dict[str, float]:
        """Return the exact probability of each possible next word; empty after a whole text."""
        log_ps = {w: self.score([*prefix, w])[len(prefix)].log_p for w in self.vocabulary}
        return {word: math.exp(log_p) for word, log_p in log_ps.items() if log_p > -math.inf}

    def entropy(self) -> Entropy:
        """Compute the entropy of a text from the rules.

        Exact, because no choice's probabilities depend on an earlier choice: the expectation of a
        sum is the sum of the expectations, whatever the words have to do with each other.
        """

        def means(part: Part) -> tuple[float, float]:
            if not isinstance(part, Choice):
                return 0.0, 1.0
            if part.slot:
                return -part.log_p, 1.0
            nats, words = zip(*(means(p) for option in part.options for p in option), strict=True)
            n = len(part.options)
            return math.fsum(nats) / n - part.log_p, math.fsum(words) / n

        nats, words = means(self._start)
        return Entropy(nats, words + 1)

    def max_words(self) -> int:
        """Return the length of the longest text."""

        def longest(part: Part) -> int:
            if not isinstance(part, Choice) or part.slot:
                return 1
            return max(sum(map(longest, option)) for option in part.options)

        return longest(self._start)

    def _derive(self, pick: Callable[[Choice, int, list[Row]], Any]) -> tuple[list[str], Notes]:
        """Follow the rules, leaving each choice to `pick`, to the end or until it gives None.

        The words end with "" if the text is complete.
        """
        words: list[str] = []
        notes: Notes = defaultdict(list)
        rows: dict[str, Row] = {}
        stack: list[Part] = ["", *reversed(self._start.options[0])]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                words.append(part)
            elif isinstance(part, Again):
                kind = "agreement" if part.form else "again"
                notes[len(words)].append((0.0, kind, part.slot))
                words.append(rows[part.slot][part.form])
            else:
                option = pick(part, len(words), [rows[slot] for slot in part.without])
                if option is None:
                    break
                kind = "new" if part.slot else "wording"
                notes[len(words)].append((part.log_p, kind, part.slot))
                if part.slot:
                    rows[part.slot] = option
                    words.append(option[WORD])
                else:
                    stack.extend(reversed(option))
        return words, notes

    # --- from the notation to parts ---

    def _sequence(self, text: str) -> Iterable[Part]:
        """Parse one alternative."""
        for item in text.split():
            if item[0] == "<":
                alternatives = [tuple(self._sequence(a)) for a in self._rules[item[1:-1]]]
                if len(alternatives) == 1:
                    yield from alternatives[0]
                else:
                    firsts = [self._first_words(a[0]) for a in alternatives]
                    yield self._choice(item, alternatives, firsts)
            elif item[0] == "{" and ":" in item:
                slot, pool, without = _split_draw(item)
                rows = self._pools[pool]
                yield self._choice(item, rows, [{row[WORD]} for row in rows], slot, without)
            elif item[0] == "{":
                slot, _, form = item[1:-1].partition(".")
                yield Again(slot, form)
            else:
                yield LINE_BREAK if item == "/" else item

    def _choice(
        self,
        where: str,
        options: Sequence[Any],
        firsts: Sequence[set[str]],
        slot: str = "",
        without: tuple[str, ...] = (),
    ) -> Choice:
        by_first_word: dict[str, Any] = {}
        for option, words in zip(options, firsts, strict=True):
            if clash := words & by_first_word.keys():
                raise ValueError(f"{where}: two options can start with {min(clash)!r}")
            by_first_word |= dict.fromkeys(words, option)
        log_p = -math.log(len(options) - len(without))
        return Choice(tuple(options), by_first_word, log_p, slot, without)

    def _first_words(self, part: Part) -> set[str]:
        if isinstance(part, Choice):
            return set(part.by_first_word)
        if isinstance(part, Again):
            return self._slot_words[part.slot, part.form]
        return {part}

    def _words_by_slot(self) -> dict[tuple[str, str], set[str]]:
        """Collect what each form of each slot can be, over all the places that draw it."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for alternatives in self._rules.values():
            for item in re.findall(r"{\S+:\S+}", " ".join(alternatives)):
                slot, pool, _ = _split_draw(item)
                for row in self._pools[pool]:
                    for form, word in row.items():
                        found[slot, form].add(word)
        return found

    def _all_words(self, part: Part) -> set[str]:
        if isinstance(part, Choice) and not part.slot:
            return set().union(*(self._all_words(p) for option in part.options for p in option))
        return self._first_words(part)


def _pick_by_chance(rng: random.Random, choice: Choice, position: int, taken: list[Row]) -> Any:
    options = choice.options
    while (option := options[int(rng.random() * len(options))]) in taken:
        pass
    return option


def _pick_by_word(words: Sequence[str], choice: Choice, position: int, taken: list[Row]) -> Any:
    """Pick what starts with the word at this position; None if nothing does."""
    option = choice.by_first_word.get(words[position]) if position < len(words) else None
    return None if option in taken else option


def _split_draw(item: str) -> tuple[str, str, tuple[str, ...]]:
    """Split `{slot:pool-a-b}` into slot, pool and the slots whose rows may not be drawn."""
    slot, _, rest = item[1:-1].partition(":")
    pool, *without = rest.split("-")
    return slot, pool, tuple(without)
