"""Exercises: instant feedback in a notebook, and grading that a notebook cannot talk to.

A learner needs one name of it: `from tfcourse.grading import check`.
"""

from typing import Any


def check(id: str, answer: Any) -> None:
    """Run a question's public checks on your answer, and print what they found.

    `id` is the question's name, such as `"02.layer_norm"`, and `answer` the function or class that
    you wrote.

    Raises `ValueError` for an id that no question has.
    """
    # Imported here, because it imports torch, which the command line spares.
    from tfcourse.grading.checking import print_check

    print_check(id, answer)
