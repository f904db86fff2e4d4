"""The package stays small enough to be read: its lines, its files, and the way through a model."""

import ast
import io
import sys
import tokenize
from pathlib import Path

from helpers import ids, tiny_lm

import tfcourse

PACKAGE = Path(tfcourse.__file__).parent
NOT_COUNTED = ("data/", "widgets/", "figures/", "grading/", "cli.py")
FORM = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def n_code_lines(source):
    """Count the lines of code: without blanks, comments and docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            docstrings |= set(range(body[0].lineno, body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in FORM:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def test_code_is_counted_as_said():
    """Catches: a count that takes a docstring, a comment or a blank for code, or skips code."""
    assert n_code_lines('"""Doc.\n\nMore.\n"""\n\n# why\nx = 1  # how\n\ny = """a\n\nb"""\n') == 4


def test_the_package_can_be_read_in_an_evening():
    """Under 2,500 lines of code, and at most 400 lines in a file. Catches: a package that grows."""
    counts = {}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        name = path.relative_to(PACKAGE).as_posix()
        assert source.count("\n") <= 400, name
        if not name.startswith(NOT_COUNTED):
            counts[name] = n_code_lines(source)
    assert 1000 < sum(counts.values()) < 2500, counts


def test_a_forward_pass_goes_from_file_to_file_at_most_four_times_deep():
    """From `DecoderLM.forward` to its innermost line there are at most five files on the stack.

    Catches: one more layer between a model and its arithmetic.
    """
    deepest = []

    def trace(frame, event, argument):
        files = []
        while frame is not None:
            path = frame.f_code.co_filename
            if path.startswith(str(PACKAGE)) and path not in files:
                files.append(path)
            frame = frame.f_back
        if len(files) > len(deepest):
            deepest[:] = files

    model, tokens = tiny_lm(), ids(1, 5)
    sys.setprofile(trace)
    try:
        model(tokens)
    finally:
        sys.setprofile(None)
    names = [Path(path).name for path in deepest]
    assert 3 <= len(names) <= 5, names
