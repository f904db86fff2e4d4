"""The exercise of chapter 06 on writing; `architectures` lists those of the whole set."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tfcourse.architectures import EncoderDecoder
from tfcourse.config import ModelConfig
from tfcourse.generation import generate
from tfcourse.grading.questions import Draw, Question, Student, Wrong, require
from tfcourse.grading.sets.architectures_attention import CHAPTER
from tfcourse.grading.tools import encoder_decoder
from tfcourse.grading.wire import Tool

greedy_decode = Question(
    "06.greedy_decode",
    "greedy_decode",
    title="Write until EOS",
    points=4,
    minutes=20,
    difficulty=3,
    section=f"{CHAPTER}#read-one-text-write-another-dates",
    forbid=("generate", "stream"),
)

FIELDS: dict[str, Any] = dict(
    vocab_size=12, d_model=16, n_heads=2, n_layers=1, max_len=16, tie_embeddings=False
)
PAD, BOS, MAX_NEW = 0, 1, 8


@dataclass
class Translation:
    """A small model with random weights, sources, and which token counts as EOS."""

    state: dict[str, Tensor]
    sources: list[list[int]]
    eos: int
    written: list[list[int]]
    pad: int = PAD
    most: int = MAX_NEW

    @classmethod
    def draw(cls, draw: Draw, lengths: list[int], ends: bool = True, pad: int = PAD) -> Translation:
        """Draw until rows end at different steps, no choice is close, and PADs would tell.

        Without `ends` no row writes EOS in time, and one has PAD as its last token. Where PAD is
        another id than 0, a source has a 0.
        """
        for case in cls._cases(draw, lengths, ends, pad):
            n_ends = len({len(row) for row in case.written})
            right_ends = n_ends >= min(3, len(lengths)) if ends else case._ends_in_pad()
            if right_ends and case._is_clear():
                return case
        raise AssertionError("no model among so many: the draw is broken")

    @classmethod
    def _cases(cls, draw: Draw, lengths: list[int], ends: bool, pad: int) -> Iterator[Translation]:
        shapes = EncoderDecoder(ModelConfig(**FIELDS)).state_dict()
        for _ in range(400):
            state = {name: _weight(draw, name, w.shape) for name, w in shapes.items()}
            sources = [draw.integers(3, 12, n).tolist() for n in lengths]
            sources = [[0 if token == pad else token for token in row] for row in sources]
            case = cls(state, sources, -1, [], pad)
            free = case.write()
            case.eos = max(range(2, 12), key=lambda t: len({(*r, t).index(t) for r in free}))
            if not ends:
                case.eos = next(t for t in range(2, 99) if all(t not in row for row in free))
            case.written = case.until_eos(free)
            yield case

    @functools.cached_property
    def model(self) -> Any:
        return encoder_decoder(FIELDS, self.state)

    def write(self) -> list[list[int]]:
        """Let the package write, without an end."""
        starts = [[BOS]] * len(self.sources)
        return generate(self.model, starts, self.most, sources=self.sources, temperature=0.0)

    def short(self, most: int) -> Translation:
        """Return the same with so many tokens as the most that may be written."""
        return replace(self, most=most, written=[row[:most] for row in self.written])

    def write_so(
        self, reads: str = "tokens", at: int = -1, last: bool = False, never: Sequence[int] = ()
    ) -> list[list[int]]:
        """Write without an end, as a mistake does: PADs read, other logits, the past forgotten.

        `reads` says what is read of the source: "tokens", "PADs", "both" or "not 0". Ids in
        `never` are not written.
        """
        model, longest = self.model, max(map(len, self.sources))
        source = torch.tensor([row + [self.pad] * (longest - len(row)) for row in self.sources])
        tokens = torch.full((len(source), 1), BOS)
        real = source != self.pad
        mask = {"tokens": real, "PADs": ~real, "both": None, "not 0": source != 0}[reads]
        with torch.no_grad():
            for _ in range(self.most):
                logits = model(tokens[:, -1:] if last else tokens, source, source_mask=mask)
                logits[..., list(never)] = -torch.inf
                tokens = torch.cat([tokens, logits[:, at].argmax(-1, keepdim=True)], dim=1)
        return tokens[:, 1:].tolist()

    def until_eos(self, rows: list[list[int]]) -> list[list[int]]:
        """Cut each row after its first EOS."""
        return [row[: (*row, self.eos).index(self.eos) + 1] for row in rows]

    def mistakes(self) -> dict[str, list[list[int]]]:
        """What known misconceptions write."""
        free, unmasked = self.write(), self.write_so(reads="both")
        first, last = min(map(len, self.written)), max(map(len, self.written))
        shortest = min(map(len, self.sources))
        cut = Translation(
            self.state, [row[:shortest] for row in self.sources], self.eos, [], self.pad, self.most
        )
        order = sorted(range(len(self.sources)), key=lambda i: len(self.sources[i]))
        return {
            "The source's PADs look read. A row depends on the others of its batch then.": (
                self.until_eos(unmasked)
            ),
            "The mask of the source looks inverted: True is a real token.": self.until_eos(
                self.write_so(reads="PADs")
            ),
            "It looks as if the logits at the first position were read, at each step.": (
                self.until_eos(self.write_so(at=0))
            ),
            "The decoder looks as if it read the last token alone: what came before is lost.": (
                self.until_eos(self.write_so(last=True))
            ),
            "A row looks as if it went on after its EOS.": [row[:last] for row in free],
            "A row looks as if it went on after its EOS, to the most tokens.": free,
            "All rows look stopped when the first one ends.": [row[:first] for row in self.written],
            "BOS looks kept. What was given is not part of what was written.": [
                [BOS, *row] for row in self.written
            ],
            "EOS looks left out. It was written, too: keep it.": [
                [t for t in row if t != self.eos] for row in self.written
            ],
            "A row looks filled up with PADs after its EOS. Nothing follows it.": [
                (row + [self.pad] * self.most)[: self.most] for row in self.written
            ],
            "A row that has not ended in time looks as if an EOS were put behind it.": [
                row if row[-1] == self.eos else [*row, self.eos] for row in self.written
            ],
            "EOS looks left out where it is the last token that may be written.": [
                row[:-1] if len(row) == self.most and row[-1] == self.eos else row
                for row in self.written
            ],
            "PADs that the model wrote look left out. A token that is written counts.": [
                [t for t in row if t != self.pad] for row in self.written
            ],
            "PADs at the end of a row look cut off, also where the model wrote them.": [
                row[: max((i + 1 for i, t in enumerate(row) if t != self.pad), default=0)]
                for row in self.written
            ],
            "PAD and BOS look ruled out. The likeliest token comes next, whichever it is.": (
                self.until_eos(self.write_so(never=(self.pad, BOS)))
            ),
            "Id 0 looks taken for padding. `pad_id` says which id is.": self.until_eos(
                self.write_so(reads="not 0")
            ),
            "All sources look cut to the length of the shortest.": self.until_eos(cut.write()),
            "The rows look sorted by the length of their source.": [self.written[i] for i in order],
            "It looks one token short of the most that may be written.": [
                row[: self.most - 1] for row in self.written
            ],
        }

    def _ends_in_pad(self) -> bool:
        return any(row[-1] == self.pad != row[0] for row in self.written)

    def _is_clear(self) -> bool:
        rows = self.written
        clear = all(
            self._gap(source, row) > 1e-3 for source, row in zip(self.sources, rows, strict=True)
        )
        padded = min(map(len, self.sources)) < max(map(len, self.sources))
        if self.pad and not any(0 in row for row in self.sources):
            return False
        return clear and (not padded or self.until_eos(self.write_so(reads="both")) != rows)

    def _gap(self, source: list[int], row: list[int]) -> float:
        """Return by how much each choice led, at the least."""
        with torch.no_grad():
            logits = self.model(torch.tensor([[BOS, *row[:-1]]]), torch.tensor([source]))
        best, second = logits.topk(2, dim=-1).values.unbind(dim=-1)
        return float((best - second).min())


def _weight(draw: Draw, name: str, shape: torch.Size) -> Tensor:
    if len(shape) == 1:  # a norm
        return torch.full(shape, float(name.endswith("weight")))
    large = "embedding" in name or "cross" in name
    return draw.normal(*shape, std=1.0 if large else 0.3)


def check_greedy_decode(student: Student, case: Translation) -> None:
    """Compare with what the package writes."""
    model = Tool("encoder_decoder", (FIELDS, case.state))
    answer: Any = student(model, case.sources, BOS, case.eos, case.pad, case.most)
    rows = isinstance(answer, list) and all(isinstance(row, list) for row in answer)
    require(rows, "It has to return a list with a list of token ids for each source.")
    require(len(answer) == len(case.sources), "It has to return one list for each source.")
    numbers = all(type(token) is int for row in answer for token in row)
    require(numbers, "The token ids have to be of type int; `.tolist()` makes them.")
    if answer == case.written:
        return
    for says, mistake in case.mistakes().items():
        require(answer != mistake, says)
    i = next(i for i, row in enumerate(case.written) if answer[i] != row)
    pairs = zip((*answer[i], None), (*case.written[i], None), strict=False)
    step = next(j for j, (a, b) in enumerate(pairs) if a != b)
    raise Wrong(
        f"For sources[{i}], of {len(case.sources[i])} tokens, the model writes something else from "
        f"index {step} of its row on. Each next token is the likeliest after the whole source and "
        "all that was written."
    )


@greedy_decode.check
def _(student: Student, draw: Draw) -> None:
    """Four sources of one length."""
    check_greedy_decode(student, Translation.draw(draw, [4, 4, 4, 4]))


@greedy_decode.check
def _(student: Student, draw: Draw) -> None:
    """Five sources of different lengths."""
    check_greedy_decode(student, Translation.draw(draw, [3, 6, 1, 5, 2]))


@greedy_decode.check
def _(student: Student, draw: Draw) -> None:
    """Three sources for which PAD is written, and EOS not in time."""
    check_greedy_decode(student, Translation.draw(draw, [5, 2, 4], ends=False))
