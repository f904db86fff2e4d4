"""Text becomes ids and the same text again; no text can forge a special token."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcourse.data.emails import EMAILS
from tfcourse.data.tokenizers import (
    BOS,
    EOS,
    N_SPECIAL,
    PAD,
    CharTokenizer,
    WordTokenizer,
    tokenizer_from_dict,
    train_bpe,
)

WORDS = WordTokenizer(EMAILS.vocabulary)
BPE = train_bpe(["the keys are in the kitchen", "<eos> the chairs"] * 5, vocab_size=280)


def test_emails_survive_the_round_trip():
    """Catches: a space lost before a word; a line break merged with its neighbours."""
    rng = random.Random(0)
    for _ in range(200):
        words = EMAILS.sample(rng)
        ids = WORDS.encode_words(words)
        text = WORDS.decode(ids)
        assert WORDS.encode(text) == ids
        assert min(ids) >= N_SPECIAL
        assert text.startswith("Subject: ")
        assert " ." not in text and " \n" not in text and "\n " not in text
        assert text.endswith(f",\n{words[-1]}")


def test_special_tokens_leave_no_trace_in_the_text():
    """Catches: padding decoded as a word."""
    ids = WORDS.encode("Thank you, Mei!")
    assert WORDS.decode([BOS, *ids, EOS, PAD, PAD]) == "Thank you, Mei!"
    assert BPE.decode([BOS, *BPE.encode("keys"), EOS, PAD]) == "keys"


def test_an_unknown_word_is_named():
    """Catches: a KeyError, or an id for a word that no row of the embedding was trained for."""
    with pytest.raises(ValueError, match="unknown word 'zebra'; use words of the vocabulary"):
        WORDS.encode("Thank you, zebra!")


@pytest.mark.parametrize("tokenizer", [WORDS, BPE])
@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_an_id_outside_the_vocabulary_is_named(tokenizer, wrong):
    """Catches: -1 taken for the last word."""
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary; use 0 to"):
        tokenizer.decode([wrong])


def test_a_list_entry_of_two_words_is_refused():
    """Catches: a word that encode can never find again."""
    with pytest.raises(ValueError, match="'two words' is not one word"):
        WordTokenizer(["one", "two words"])


@settings(deadline=None)
@given(st.text())
def test_bytes_encode_every_text(text):
    """Catches: a character without an id; spaces changed by the decoder; ids of special tokens."""
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text.encode("utf-8", "replace").decode()
    assert all(N_SPECIAL <= i < BPE.vocab_size for i in ids)


def test_half_a_character_does_not_stop_the_encoder():
    """Catches: an encoding error from a lone surrogate."""
    assert BPE.decode(BPE.encode("a\ud800b")) == "a?b"


def test_frequent_pairs_get_ids_of_their_own():
    """Catches: a trainer that learns nothing."""
    assert len(BPE.encode("the keys are in the kitchen")) < 20
    assert BPE.vocab_size == 280


def test_a_vocabulary_without_room_for_every_byte_is_refused():
    """Catches: a tokenizer that cannot write some texts."""
    with pytest.raises(ValueError, match="vocab_size=258 is too small; give at least 259"):
        train_bpe(["a"], 258)


@pytest.mark.parametrize("tokenizer", [WORDS, BPE])
def test_a_tokenizer_survives_json(tokenizer):
    """Catches: merges or the order of the words lost in a checkpoint."""
    again = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    text = "Thank you, Mei!"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.decode(again.encode(text)) == text
    assert again.vocab_size == tokenizer.vocab_size


def test_characters_are_read_and_written_as_they_are():
    """Catches: a space that is lost; an unknown character that is dropped."""
    tokenizer = CharTokenizer("ab é年")
    text = "a é 年b"
    assert tokenizer.decode([BOS, *tokenizer.encode(text), EOS, PAD]) == text
    assert tokenizer_from_dict(tokenizer.to_dict()).encode(text) == tokenizer.encode(text)
    assert tokenizer.vocab_size == 3 + 5
    with pytest.raises(ValueError, match="unknown character 'x'"):
        tokenizer.encode("axb")


def test_an_unknown_kind_of_tokenizer_is_named():
    """Catches: a KeyError from a checkpoint of another program."""
    with pytest.raises(
        ValueError, match="kind 'letters' is unknown; give 'words', 'chars' or 'bpe'"
    ):
        tokenizer_from_dict({"kind": "letters"})
