"""Quiz questions: one right option, and a key that must exist."""

import pytest

from tfcourse.widgets.quizzes import choose

ANSWERS = {"1 < 2": "Right.", "2 < 1": "The other way round."}


def test_exactly_the_key_is_right_and_signs_are_shown_as_written():
    """Catches: two right options; `<` swallowed by the page as the start of a tag."""
    made = choose("Which?", ANSWERS, key="1 < 2", code="a < b")
    assert [(a["answer"], a["correct"]) for a in made["answers"]] == [
        ("1 &lt; 2", True),
        ("2 &lt; 1", False),
    ]
    assert made["code"] == "a &lt; b"


def test_a_key_that_no_option_reads_is_refused():
    """Catches: a computed key that changed, so that no option counts as right."""
    with pytest.raises(ValueError, match="none of the answers"):
        choose("Which?", ANSWERS, key="3")
