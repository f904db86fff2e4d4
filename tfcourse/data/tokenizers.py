"""Turn text into token ids and back: a word list, or byte-pair encoding.

Ids 0, 1 and 2 mean padding, beginning and end in every tokenizer. No text encodes to them: a text
that contains the characters `<eos>` is a text with those characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import tokenizers as hf

PAD = 0
BOS = 1
EOS = 2
N_SPECIAL = 3
N_BYTES = 256

_WORD = re.compile(r"\n|\w+|[^\w\s]")


@runtime_checkable
class Tokenizer(Protocol):
    """What the data sets need of a tokenizer."""

    vocab_size: int

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without BOS and EOS."""

    def decode(self, ids: Iterable[int]) -> str:
        """Write the text of the ids; padding, beginning and end leave no trace."""

    def to_dict(self) -> dict[str, Any]:
        """Describe the tokenizer in JSON types, for `tokenizer_from_dict`."""


class WordTokenizer:
    """One id per word of a fixed list; punctuation marks and line breaks are words too.

    Raises ValueError for an entry of the list that is not one word.
    """

    def __init__(self, words: Iterable[str]):
        self.words = sorted(set(words))
        for word in self.words:
            if not _WORD.fullmatch(word):
                raise ValueError(f"words: {word!r} is not one word; split it")
        self._ids = {word: i for i, word in enumerate(self.words, N_SPECIAL)}
        self.vocab_size = N_SPECIAL + len(self.words)

    def encode(self, text: str) -> list[int]:
        """Raises ValueError for a word that is not in the list."""
        return self.encode_words(_WORD.findall(text))

    def encode_words(self, words: Sequence[str]) -> list[int]:
        """Like `encode`, for text that is split already."""
        return _look_up(self._ids, words, "word")

    def decode(self, ids: Iterable[int]) -> str:
        """Write the words with the usual spaces; padding, beginning and end leave no trace."""
        text = " ".join(self.words[i - N_SPECIAL] for i in _ordinary(ids, self.vocab_size))
        return re.sub(r" (?=[^\w\s])| ?\n ?", lambda m: m[0].strip(" "), text)

    def to_dict(self) -> dict[str, Any]:
        """Describe the tokenizer in JSON types, for `tokenizer_from_dict`."""
        return {"kind": "words", "words": self.words}


class CharTokenizer:
    """One id per character of a fixed set."""

    def __init__(self, chars: Iterable[str]):
        self.chars = sorted(set(chars))
        self._ids = {char: i for i, char in enumerate(self.chars, N_SPECIAL)}
        self.vocab_size = N_SPECIAL + len(self.chars)

    def encode(self, text: str) -> list[int]:
        """Raises ValueError for a character that is not in the set."""
        return _look_up(self._ids, text, "character")

    def decode(self, ids: Iterable[int]) -> str:
        """Write the characters; padding, beginning and end leave no trace."""
        return "".join(self.chars[i - N_SPECIAL] for i in _ordinary(ids, self.vocab_size))

    def to_dict(self) -> dict[str, Any]:
        """Describe the tokenizer in JSON types, for `tokenizer_from_dict`."""
        return {"kind": "chars", "chars": self.chars}


class BPETokenizer:
    """Byte-pair encoding of the text's UTF-8 bytes: nothing is unknown.

    The encoding itself knows no special tokens; its ids are moved up to make room for them.
    """

    def __init__(self, bpe: hf.Tokenizer):
        self._bpe = bpe
        self.vocab_size = N_SPECIAL + bpe.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Half characters (lone surrogates), which UTF-8 does not have, become "?"."""
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return [i + N_SPECIAL for i in self._bpe.encode(clean).ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Cut-off characters at either end become the replacement character."""
        return self._bpe.decode([i - N_SPECIAL for i in _ordinary(ids, self.vocab_size)])

    def to_dict(self) -> dict[str, Any]:
        """Describe the tokenizer in JSON types, for `tokenizer_from_dict`."""
        return {"kind": "bpe", "bpe": self._bpe.to_str()}


def train_bpe(texts: Iterable[str], vocab_size: int) -> BPETokenizer:
    """Learn the most frequent byte pairs of the texts, until the vocabulary has `vocab_size` ids.

    A small corpus runs out of pairs before that: then the vocabulary is smaller.

    Source: Sennrich et al. 2016; on bytes, Radford et al. 2019.
    """
    if vocab_size < N_SPECIAL + N_BYTES:
        raise ValueError(
            f"vocab_size={vocab_size} is too small; give at least {N_SPECIAL + N_BYTES} "
            "(every byte and three special tokens)"
        )
    bpe = hf.Tokenizer(hf.models.BPE())
    bpe.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = hf.decoders.ByteLevel()
    trainer = hf.trainers.BpeTrainer(
        vocab_size=vocab_size - N_SPECIAL,
        initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((t.encode("utf-8", "replace").decode() for t in texts), trainer)
    return BPETokenizer(bpe)


def tokenizer_from_dict(state: dict[str, Any]) -> Tokenizer:
    """Rebuild a tokenizer from what its `to_dict` gave."""
    match state:
        case {"kind": "words", "words": words}:
            return WordTokenizer(words)
        case {"kind": "chars", "chars": chars}:
            return CharTokenizer(chars)
        case {"kind": "bpe", "bpe": text}:
            return BPETokenizer(hf.Tokenizer.from_str(text))
    raise ValueError(
        f"tokenizer: kind {state.get('kind')!r} is unknown; give 'words', 'chars' or 'bpe'"
    )


def _look_up(ids: dict[str, int], symbols: Iterable[str], what: str) -> list[int]:
    try:
        return [ids[symbol] for symbol in symbols]
    except KeyError as error:
        raise ValueError(
            f"unknown {what} {error.args[0]!r}; use {what}s of the vocabulary ({len(ids)} {what}s)"
        ) from None


def _ordinary(ids: Iterable[int], vocab_size: int) -> Iterable[int]:
    for i in ids:
        if not 0 <= i < vocab_size:
            raise ValueError(f"token id {i} is outside the vocabulary; use 0 to {vocab_size - 1}")
        if i >= N_SPECIAL:
            yield i
