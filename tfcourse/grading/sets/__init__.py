"""The exercise sets: one module per chapter, each with its `QUESTIONS`."""

from __future__ import annotations

import importlib

from tfcourse.grading.questions import Question

SETS = {
    "01": "residuals",
    "02": "norms",
    "03": "blocks",
    "04": "stacking",
    "05": "training_loss",
    "06": "architectures",
}
"""The name of each set by its number."""


def load_set(number: str) -> list[Question]:
    """Return the questions of a set.

    Raises `ValueError` for a number that no set has.
    """
    if number not in SETS:
        raise ValueError(f"there is no exercise set {number!r}; choose one of {', '.join(SETS)}")
    return importlib.import_module(f"tfcourse.grading.sets.{SETS[number]}").QUESTIONS


def find_question(id: str) -> Question:
    """Return a question by its id, such as `02.layer_norm`.

    Raises `ValueError` for an id that no question has.
    """
    questions = {q.id: q for q in load_set(id.partition(".")[0])}
    if id not in questions:
        raise ValueError(f"there is no question {id!r}; choose one of {', '.join(questions)}")
    return questions[id]
