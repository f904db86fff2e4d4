"""Run a question's public checks where the answer is, for instant feedback."""

from __future__ import annotations

import inspect
import json
import sys
import textwrap
from typing import Any

from tfcourse.grading.commands import BOOK
from tfcourse.grading.names import parse, read_names
from tfcourse.grading.questions import Question, Student
from tfcourse.grading.sets import find_question
from tfcourse.grading.worker import Worker


def local_student(question: Question, answer: Any) -> Student:
    """Return a student whose code runs in this process.

    Requests go through JSON as they do when it is graded, so that both see the same.
    """
    worker = Worker({question.name: answer}, frozenset(question.forbid))

    def request(message: dict) -> dict:
        return json.loads(json.dumps(worker.answer(json.loads(json.dumps(message)))))

    return Student(request, question.name)


def print_check(id: str, answer: Any) -> None:
    """Print what a question's public checks find; see `tfcourse.grading.check`."""
    question = find_question(id)
    source, *called = _sources(answer)
    problem = question.problem(local_student(question, answer), source, 0, question.checks, called)
    n = len(question.checks)
    checks = "1 check that runs" if n == 1 else f"{n} checks that run"
    if problem:
        print(f"✗ {id}: {problem}\n  The chapter: {BOOK}/{question.section}")
    else:
        print(f"✓ {id}: passes the {checks} here. Grading runs more, on other numbers.")


def _sources(answer: Any) -> list[str]:
    """Return the source of an answer, and of what it calls that the same notebook defines."""
    module = getattr(answer, "__module__", "")
    names = vars(sys.modules.get(module, inspect))
    found: dict[int, str] = {}
    todo = [answer]
    while todo:
        this = todo.pop()
        if id(this) in found or getattr(this, "__module__", None) != module:
            continue
        found[id(this)] = _source(this)
        todo += [names[name] for name in read_names(parse(found[id(this)])) if name in names]
    return list(found.values())


def _source(this: Any) -> str:
    try:
        return inspect.getsource(this)
    except (OSError, TypeError):  # a class in a notebook, or written where Python kept no source
        methods = vars(this).values() if inspect.isclass(this) else ()
        return "\n".join(textwrap.dedent(_source(m)) for m in methods if inspect.isfunction(m))
