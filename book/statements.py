"""Find what a chapter says about other people's models and papers, and what is without a source.

A sentence counts when it names a public model or the 2017 paper, or cites. It is satisfied by an
entry in the registry, with source and locator, whose text stands in it; a citation also by a
locator of its own in the sentence: "{cite:t}`kaplan2020scaling`, section 2.1"; a name also by
a sentence with a source in the same paragraph that has the same name. In the chapter's list of
sources it is enough that some entry has the source. A question states nothing.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nbformat import NotebookNode

NAMES = (
    *("2017", "Vaswani", "Adafactor", "ALBERT", "AlphaFold", "BART", "BERT", "BLOOM", "ByT5"),
    *("Chinchilla", "Claude", "CLIP", "Cohere", "Command R", "ConvNeXt", "DeBERTa", "DeepNet"),
    *("DeepSeek", "DeiT", "DistilBERT", "ELECTRA", "ELMo", "Falcon", "Gemini", "Gemma", "GloVe"),
    *("Gopher", "GPT", "gpt-oss", "Grok", "Hugging Face", "LaMDA", "LLaMA", "Llama", "Mamba"),
    *("Marian", "Megatron", "MiniLM", "Mistral", "Mixtral", "mT5", "NLLB", "NormFormer", "OLMo"),
    *("OPT", "PaLM", "Pythia", "Qwen", "ResNet", "RoBERTa", "RoFormer", "Sentence-BERT"),
    *("StarCoder", "Swin", "Switch Transformer", "T5", "TabPFN", "tensor2tensor", "Tensor2Tensor"),
    *("Transformer-XL", "Universal Transformer", "ViT", "Whisper", "word2vec", "XLNet", "Yi"),
)
NAME = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, NAMES)) + r"|Phi-\d)s?(?![A-Za-z])")
CITATION = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")
LOCATOR = re.compile(
    r"(?:\b(?:sections?|tables?|figures?|equations?|eqs?\.|theorems?|lemmas?|propositions?"
    r"|algorithms?|appendix|appendices|chapters?|pages?|pp?\.)\s+\(?[\dA-Z]|§|\babstract\b)",
    re.I,
)
# In a code cell with this tag the texts of questions and answers are read as well.
QUIZ = "quiz"
CODE = re.compile(r"^(`{3,}|~{3,})(?!\{)[^\n]*\n.*?^\1`*[ \t]*$", re.M | re.S)
MARKUP = re.compile(r"^(?:`{3,}.*|:{3,}.*|\([\w-]+\)=|\$\$|</?details>.*)$", re.M)
NEW_BLOCK = re.compile(r"\n\s*\n|\n(?=[-*+] |\d+\. |\||: )")
NEXT_SENTENCE = re.compile(
    r"(?<=[.!?])(?<!\beq\.)(?<!\bFig\.)(?<!\bfig\.)(?<!\bal\.)(?<!\bvs\.)(?<!e\.g\.)(?<!i\.e\.)"
    r"[\"”’)*_]*\s+(?=\{cite|[\"“‘(*_\[`$]*(?:\{\w+\}`)?[A-Z0-9])"
)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.M)


@dataclass(frozen=True)
class Sentence:
    """A sentence, a list item or a table row, its line breaks removed."""

    text: str
    paragraph: int = 0
    in_sources: bool = False


class Sourced(Protocol):
    """What this module asks of a statement of the registry."""

    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...


def sentences(cells: list[NotebookNode]) -> list[Sentence]:
    """List what a chapter says, less headings and code, with the texts of its quizzes."""
    paragraphs: list[tuple[str, bool]] = []
    heading = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            # What comes before the first heading goes on with the section of the cell before.
            first, *sections = HEADING.split(CODE.sub("\n", cell.source))
            for title, text in [(heading, first), *zip(sections[::2], sections[1::2], strict=True)]:
                heading = title
                blocks = NEW_BLOCK.split(MARKUP.sub("\n", text))
                paragraphs += [(block, title == "Sources") for block in blocks]
        elif QUIZ in cell.metadata.get("tags", ()):
            nodes = ast.walk(ast.parse(cell.source))
            texts = [n.value for n in nodes if isinstance(n, ast.Constant)]
            paragraphs += [(text, False) for text in texts if isinstance(text, str)]
    return [
        Sentence(text, number, in_sources)
        for number, (paragraph, in_sources) in enumerate(paragraphs)
        for text in NEXT_SENTENCE.split(" ".join(paragraph.split()))
        if text
    ]


def cited(sentence: str) -> dict[str, str]:
    """Map each key that a sentence cites to the words that belong to it.

    These reach from one citation to the next; all of the sentence, where it has only one.
    """
    marks = list(CITATION.finditer(sentence))
    found = {}
    for number, mark in enumerate(marks, 1):
        end = marks[number].start() if number < len(marks) else len(sentence)
        words = sentence[mark.end() : end] if len(marks) > 1 else sentence
        for key in mark[1].split(","):
            found[key.strip()] = words
    return found


def unsupported(said: list[Sentence], statements: Sequence[Sourced]) -> list[str]:
    """Say which sentences lack a source with a locator, and which entries fit no sentence."""
    found = []
    for statement in statements:
        n = sum(statement.text in sentence.text for sentence in said)
        if n == 0:
            found.append(f"statement {statement.text!r} stands in no sentence of the chapter")
        elif n > 1:
            found.append(f"statement {statement.text!r} stands in {n} sentences; make it longer")
    all_sources = {statement.source for statement in statements}
    sourced: dict[int, set[str]] = defaultdict(set)  # the names with a source, by paragraph
    unsourced = []
    for sentence in said:
        here = {entry.source for entry in statements if entry.text in sentence.text}
        citations = cited(sentence.text)
        missing = [
            key
            for key, words in citations.items()
            if key not in (all_sources if sentence.in_sources else here)
            and not LOCATOR.search(CITATION.sub("", words))
        ]
        names = set(NAME.findall(CITATION.sub("", sentence.text)))
        if missing and not sentence.text.endswith("?"):
            found.append(f"cites {', '.join(missing)} without a locator: {sentence.text}")
        elif here or citations:
            sourced[sentence.paragraph] |= names
        elif names and not sentence.text.endswith("?"):
            unsourced.append((sentence, names))
    for sentence, names in unsourced:
        if missing_names := names - sourced[sentence.paragraph]:
            named = ", ".join(sorted(missing_names))
            found.append(f"names {named} without a source: {sentence.text}")
    return found
