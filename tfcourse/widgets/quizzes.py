"""Questions for the chapters' self-checks; jupyterquiz shows them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def choose(
    question: str, answers: Mapping[str, str], key: str, code: str | None = None
) -> dict[str, Any]:
    """Make one question with one right answer.

    Args:
        question: may hold HTML.
        answers: each option, as plain text, with what the learner reads after choosing it.
        key: the right option. Where code can decide it, compute it and do not type it.
        code: lines to show below the question.

    Raises:
        ValueError: no option reads like the key, as when a computed key has changed.
    """
    if key not in answers:
        raise ValueError(f"key={key!r} is none of the answers; they are {list(answers)}")
    made: dict[str, Any] = {
        "question": question,
        "type": "multiple_choice",
        "answer_cols": 1,
        "answers": [
            {"answer": escape(answer), "correct": answer == key, "feedback": feedback}
            for answer, feedback in answers.items()
        ],
    }
    if code is not None:
        made["code"] = escape(code)
    return made
