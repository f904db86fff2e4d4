"""The grammar's probabilities are exact, and its emails are hard without attention."""

import math
import random
import statistics
from collections import Counter

import pytest

from tfcourse.data.batching import EmailData
from tfcourse.data.bigrams import bigram_nats
from tfcourse.data.emails import EMAILS, POOLS
from tfcourse.data.grammar import WORD, Grammar

NAMES = [{WORD: "Mei", "them": "her"}, {WORD: "Lars", "them": "him"}, {WORD: "Kofi", "them": "him"}]
SMALL = Grammar(
    rules={
        "text": ["<a> {y:name-x} greets {x} . <b>"],
        "a": ["Hi {x:name} !", "{x:name} !"],
        "b": ["All wave to {x.them} .", "{y} waves <c> ."],
        "c": ["back", "again", "at {x}"],
    },
    pools={"name": NAMES},
    start="text",
)


def sample(n: int, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    return [EMAILS.sample(rng) for _ in range(n)]


def all_texts(grammar: Grammar) -> dict[tuple[str, ...], float]:
    """Write every text by following all next words, with the product of their probabilities."""
    whole, unfinished = {}, {(): 1.0}
    while unfinished:
        prefix, p = unfinished.popitem()
        following = grammar.next_word_probs(prefix)
        if not following:
            whole[prefix] = p
        for word, q in following.items():
            unfinished[*prefix, word] = p * q
    return whole


def test_the_probabilities_of_all_texts_sum_to_one():
    """Catches: the rows held by other slots left out of a draw's log p."""
    texts = all_texts(SMALL)
    assert len(texts) == 2 * 3 * 2 * (1 + 3)
    assert math.fsum(texts.values()) == pytest.approx(1, abs=1e-12)
    assert math.fsum(math.exp(SMALL.log_prob(text)) for text in texts) == pytest.approx(
        1, abs=1e-12
    )


def test_the_entropy_of_a_small_grammar_is_the_sum_over_its_texts():
    """Catches: alternatives summed instead of averaged; the end not counted as a token."""
    texts = all_texts(SMALL)
    entropy = SMALL.entropy()
    assert entropy.nats_per_text == pytest.approx(
        -math.fsum(p * math.log(p) for p in texts.values()), abs=1e-12
    )
    assert entropy.tokens_per_text == pytest.approx(
        math.fsum(p * (len(text) + 1) for text, p in texts.items()), abs=1e-12
    )
    assert SMALL.max_words() == max(map(len, texts))


def test_next_word_probabilities_sum_to_one_after_any_prefix():
    """Catches: a choice whose log p lands on another word than the one that reveals it."""
    rng = random.Random(1)
    for words in sample(8):
        prefix = words[: rng.randrange(len(words))]
        assert math.fsum(EMAILS.next_word_probs(prefix).values()) == pytest.approx(1, abs=1e-9)
    assert EMAILS.next_word_probs(words) == {}


def test_samples_follow_the_stated_probabilities():
    """Catches: a sampler that can draw the row that another slot holds, or favours an option."""
    n = 20_000
    rng = random.Random(2)
    seen = Counter(tuple(SMALL.sample(rng)) for _ in range(n))
    texts = all_texts(SMALL)
    assert seen.keys() <= texts.keys()
    for text, p in texts.items():
        assert abs(seen[text] - n * p) < 5 * math.sqrt(n * p * (1 - p))


def test_the_mean_of_minus_log_p_is_the_analytic_entropy():
    """Catches: a rule's choice left out of the entropy. Tolerance: 4 standard errors."""
    emails = sample(8_000)
    entropy = EMAILS.entropy()
    nats = [-EMAILS.log_prob(words) for words in emails]
    lengths = [len(words) + 1 for words in emails]
    for values, expected in [
        (nats, entropy.nats_per_text),
        (lengths, entropy.tokens_per_text),
    ]:
        error = statistics.stdev(values) / math.sqrt(len(values))
        assert abs(statistics.fmean(values) - expected) < 4 * error


@pytest.mark.parametrize(
    "spoil",
    [
        lambda words: words[:-1],
        lambda words: [*words, "."],
        lambda words: [*words[:-1], "Nobody"],
        lambda words: [*words[:5], words[-1], *words[6:]],
        lambda words: [],
    ],
    ids=["cut off", "too long", "another sign-off", "sender writes to sender", "empty"],
)
def test_a_text_that_the_grammar_cannot_write_has_probability_zero(spoil):
    """Catches: words after the end not compared; the excluded rows not excluded when scoring."""
    assert EMAILS.log_prob(spoil(sample(1)[0])) == -math.inf


def test_from_the_first_impossible_word_on_everything_is_impossible():
    """Catches: only the wrong word itself scored −inf."""
    words = sample(1)[0]
    log_ps = [token.log_p for token in EMAILS.score([*words[:9], "zebra", *words[10:]])]
    assert all(log_p > -math.inf for log_p in log_ps[:9])
    assert all(log_p == -math.inf for log_p in log_ps[9:])


def test_ties_hold_in_every_email():
    """Catches: a sign-off that draws a new name; a closing that ignores the greeting."""
    closing = {words: forms["bye"] for words, forms in POOLS["greeting"]}
    plural = set(
        " ".join(
            words for pool in POOLS.values() for words, f in pool if f.get("is") == "are"
        ).split()
    )
    names = {row for words, _ in POOLS["name"] for row in words.split()}
    for words in sample(500):
        tokens = EMAILS.score(words)
        drawn = {t.slot: t.word for t in tokens if t.kind == "new"}
        assert words[-1] == drawn["from"]
        assert words[-4] == closing[drawn["hello"]]
        assert len({drawn["to"], drawn["from"], drawn["cc"]}) == 3
        assert {w for w in words if w in names} == {drawn["to"], drawn["from"], drawn["cc"]}
        assert words.count(drawn["thing"]) >= 2
        if drawn["thing"] in plural:
            assert "it" not in words
        else:
            assert "them" not in words and "are" not in words


def test_kinds_say_which_words_are_certain_and_why():
    """Catches: kinds noted one position too late."""
    for words in sample(200):
        tokens = EMAILS.score(words)
        drawn = {t.slot: t.word for t in tokens if t.kind == "new"}
        for token in tokens:
            certain = token.kind in ("fixed", "again", "agreement")
            assert (token.log_p == 0) == certain
            if token.kind == "again":
                assert token.word == drawn[token.slot]


def test_ambiguous_choices_are_refused():
    """Catches: two derivations of one text, which would make log_prob too small."""
    with pytest.raises(ValueError, match="<a>: two options can start with 'Mei'"):
        Grammar({"text": ["<a>"], "a": ["{x:name} waves", "Mei sleeps"]}, {"name": NAMES}, "text")


def test_the_vocabulary_has_over_300_words_and_all_are_used():
    """Catches: a pool that no rule draws from; a vocabulary that forgets agreement forms."""
    assert len(EMAILS.vocabulary) >= 300
    assert {word for words in sample(8_000) for word in words} == set(EMAILS.vocabulary)


def test_tables_without_attention_stay_far_above_the_floor():
    """Catches: ties taken out of the grammar, or so few choices that copying does not pay.

    The same Transformer without attention is at best the table with positions.
    """
    data = EmailData(n_held_out=500)
    n_targets = sum(int((b.targets >= 0).sum()) for b in data.held_out_batches(500))
    above = [
        float((bigram_nats(data, 10_000, p) - data.floor).sum()) / n_targets for p in (False, True)
    ]
    assert above[0] > 1.2
    assert above[1] > 0.6
