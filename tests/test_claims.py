"""The registry of claims keeps what it promises, and its page is the one that it makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import claims
import nbformat
import pytest
import statements

ROOT = Path(__file__).resolve().parent.parent
REFRESH = "run: make claims"


def test_every_entry_of_the_registry_is_kept():
    """Coverage without a hole, verdicts that stand on something, statements with sources."""
    found = claims.problems()
    assert not found, "\n".join(found)


def test_the_page_is_made_from_what_is_stored():
    """Catches: an edited page; a claim or a measurement that changed after the page was made."""
    page = (ROOT / "chapters" / "claims.md").read_text(encoding="utf-8")
    assert page == claims.page(), f"chapters/claims.md is stale; {REFRESH}"


# Each fault, in a project of one chapter.

REGISTRY = """
[[covers]]
item = "C010"
what = "the sum"
section = "the-sum"
shown_by = ["cell:abc", "tests/test_other.py::test_sum"]

[[claims]]
id = "01-sum"
place = "D2"
claim = "One and one is two."
verdict = "holds"
says = "Counted."
section = "the-sum"
measured_by = "tests/claims/test_01_x.py::test_sum"

[[claims]]
id = "01-paper"
place = "D4 §1"
claim = "The paper says so."
verdict = "does not hold"
says = "It says otherwise."
section = "what-f-does"
source = "he2016deep"
locator = "table 1"

[[statements]]
text = "BERT has an encoder"
source = "devlin2019bert"
locator = "section 3"
"""
CHAPTER = """# A sum: $1 + 1$

BERT has an encoder. So has nothing here.

## The sum

{cite:t}`he2016deep`, section 4.1, adds. Two lines

- of a list, and
- {cite}`devlin2019bert`: another one, table 2.

```python
# GPT-2 in code, which nobody reads as a statement
```

## What $F$ does

Nothing.

## Sources

- {cite:t}`devlin2019bert`: whole models.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(CHAPTER), nbformat.v4.new_code_cell("1 + 1", id="abc")]
    )
    files = {
        "_toc.yml": "parts:\n  - chapters:\n      - file: chapters/01_x\n",
        "_config.yml": "repository:\n  url: https://github.com/a/b\n",
        "book/claims_intro.md": "# Claims\n",
        "chapters/01_x.ipynb": nbformat.writes(notebook),
        "chapters/references.bib": "@article{he2016deep,\n}\n@article{devlin2019bert,\n}\n",
        "chapters/claims/items.toml": '[01]\nC010 = "the sum"\n[02]\nC020 = "norms"\n',
        "chapters/claims/01_x.toml": REGISTRY,
        "chapters/claims/measured/test_01_x.json": '{"test_sum": "1 + 1 = 2"}',
        "tests/claims/test_01_x.py": "def test_sum(record):\n    record('1 + 1 = 2')\n",
        "tests/test_other.py": "def test_sum():\n    pass\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_a_section_may_stand_on_another_page(project):
    """Catches: a link to the chapter's own page for it."""
    (project / "chapters" / "notes.md").write_text("# Notes\n\n## One line\n", encoding="utf-8")
    change(project, TOML, 'section = "the-sum"', 'section = "notes#one-line"')
    assert claims.problems(project) == []
    assert '<a href="notes.html#one-line">One line</a>' in claims.page(project)


def change(project: Path, file: str, old: str, new: str) -> None:
    path = project / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_project_that_keeps_its_word_has_no_problem(project):
    """Catches: a check that is never satisfied."""
    assert claims.problems(project) == []


TOML, MEASURED = "chapters/claims/01_x.toml", "chapters/claims/measured/test_01_x.json"


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (TOML, 'section = "the-sum"\nshown_by', 'section = "sum"\nshown_by', "C010: section 'sum'"),
        (
            TOML,
            'section = "the-sum"\nshown',
            'section = "notes#no"\nshown',
            "section 'notes#no' is",
        ),
        (TOML, 'section = "what-f', 'section = "what-', "01-paper: section 'what--does' is none"),
        (TOML, "cell:abc", "cell:abd", "C010: shown_by 'cell:abd' is no code cell and no test"),
        (TOML, "py::test_sum", "py::test_add", "shown_by 'tests/test_other.py::test_add' is no"),
        (TOML, "x.py::test_sum", "x.py::test_add", "no test tests/claims/test_01_x.py::test_add"),
        (MEASURED, "test_sum", "test_add", "test_sum has stored no measurement"),
        ("tests/claims/test_01_x.py", "(record)", "()", "test_sum measures nothing; let it take"),
        ("tests/claims/test_01_x.py", "def", "@skip\ndef", "and take away what skips it"),
        (MEASURED, '{"', '{"test_gone": "0", "', "there is no test test_gone; delete the line"),
        (TOML, '"he2016deep"', '"he2017"', "01-paper: he2017 is not in references.bib"),
        (TOML, '"devlin2019bert"', '"bert"', "BERT has an encoder: bert is not in references.bib"),
        (TOML, "01-paper", "01-sum", "claim 01-sum stands in the registry 2 times"),
        (TOML, "C010", "C011", "C010 (the sum) is covered by no chapter"),
        ("_toc.yml", "01_x", "01_x\n      - file: chapters/02_y", "02_y.toml is missing"),
        ("_toc.yml", "01_x", "01_x\n      - file: chapters/02_y", "C020 (norms) is covered by no"),
        (TOML, "BERT has an", "GPT has an", "'GPT has an encoder' stands in no sentence"),
        (TOML, "BERT has an", "Two", "names BERT without a source: BERT has an encoder."),
        (TOML, "BERT has an encoder", "a", "statement 'a' stands in 5 sentences; make it longer"),
    ],
)
def test_each_broken_promise_is_named(project, file, old, new, said):
    """Each case is a fault, and what must be said about it."""
    change(project, file, old, new)
    found = claims.problems(project)
    assert any(said in line for line in found), found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[covers]]", "[[cover]]", "01_x.toml: unknown table cover"),
        ("[[covers]]", "[[covers", "01_x.toml: "),
        ("what = ", "why = ", "01_x.toml: covers 1 (C010): unknown field why"),
        ('what = "the sum"\n', "", "01_x.toml: covers 1 (C010): what is missing"),
        ('what = "the sum"', "what = 1", "01_x.toml: covers 1 (C010): what is 1; give text"),
        ("verdict = ", "# verdict = ", "01_x.toml: claims 1 (01-sum): verdict is missing"),
        ('"holds"', '"true"', "claims 1 (01-sum): verdict is 'true'; choose one of: holds,"),
        ('"D2"', '"D3"', "claims 1 (01-sum): place is 'D3'; begin with D0, D1, D2 or D4"),
        ("01-sum", "sum", "claims 1 (sum): id is 'sum'; write it as 01-two-words"),
        ("measured_by = ", "# ", "claims 1 (01-sum): give measured_by, or source and locator"),
        ('locator = "table 1"\n', "", "claims 2 (01-paper): source and locator go together"),
        ('locator = "section 3"', "", "statements 1 (BERT has an encoder): locator is missing"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named_with_its_field(project, old, new, said):
    """Catches: a traceback, a message without file, entry or field."""
    change(project, TOML, old, new)
    with pytest.raises(claims.RegistryError) as caught:
        claims.read_registry(project)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_page_shows_each_claim_with_verdict_value_and_place(project):
    """Catches: a claim left out; a value of another test; a number of verdicts made up."""
    page = claims.page(project)
    assert (
        "| holds | 1 |" in page and "| does not hold | 1 |" in page and "| together | 2 |" in page
    )
    assert '<a href="#claim-01-paper">The paper says so.</a>' in page
    assert '<a href="#claim-01-sum">' not in page
    first, second = page.split("[One and one is two.]{#claim-01-sum}")[1].split(
        "[The paper says so.]"
    )
    assert "Measured: 1 + 1 = 2 ([`test_sum`](https://github.com/a/b/blob/HEAD/" in first
    assert '<a href="01_x.html#the-sum">The sum</a>' in first
    assert "**does not hold**" in second and "{cite:t}`he2016deep`, table 1" in second
    change(project, MEASURED, "= 2", "= 3")
    assert claims.page(project) != page


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Attention mixes. It is {term}`GPT <gpt>`.", ["names GPT without a source"]),
        ("The norm moved in GPT-2 {cite}`a`.", ["cites a without a locator"]),
        ("The norm moved in GPT-2 ({cite:t}`a`, section 2.3).", []),
        ("Section 2.3 of {cite:t}`a` moves it.", []),
        ("{cite:t}`a`, table 1, and {cite:t}`b` agree.", ["cites b without a locator"]),
        ("{cite:p}`a, b`, see § 2.", []),
        ("The 2017 model had it.", ["names 2017 without a source"]),
        ("# GPT-2\n\nA heading says nothing.", []),
        ("GPT-2 has it (see {cite:t}`a`, eq. 4). So has GPT-3. T5 has not.", ["names T5 without"]),
        ("GPT-2 has it ({cite:t}`a`, table 2).\n\nGPT-2 has more.", ["names GPT without"]),
        ("Which norm has BERT {cite}`a`?", []),
        ("It holds. Only BERT\ndiffers. It is so.", ["names BERT without a source: Only BERT dif"]),
        (
            "| model | d |\n| --- | --- |\n| T5 | 512 |\n| ours | 64 |",
            ["names T5 without a source: |"],
        ),
        (
            "```{list-table}\n* - Qwen2\n  - 1536\n* - ours\n  - 64\n```",
            ["names Qwen without a sour"],
        ),
        ("```python\nmodel = BERT()\n```", []),
        ("The probability is optimal; OPTIONS differ.", []),
        ("Two BERTs.", ["names BERT"]),
        ("## Sources\n\n- {cite:t}`a`: all of it.", ["cites a without a locator"]),
        ("## Sources\n\n- {cite:t}`known`: all of it.", []),
        ("## Other\n\n- {cite:t}`known`: all of it.", ["cites known without a locator"]),
    ],
)
def test_what_counts_as_a_statement(text, said):
    """Catches: a sentence cut in the middle; a citation that another's locator satisfies."""
    cells = [
        nbformat.v4.new_markdown_cell("Known words here."),
        nbformat.v4.new_markdown_cell(text),
    ]
    entries = [claims.Statement("Known words", "known", "section 1")]
    found = statements.unsupported(statements.sentences(cells), entries)
    assert len(found) == len(said), found
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True)), found


def test_the_texts_of_a_quiz_are_read_too():
    """Catches: feedback that says something about a model, without a source."""
    quiz = 'choose("Which?", {"a": "Right. LLaMA does so."})'
    cell = nbformat.v4.new_code_cell(quiz, metadata={"tags": ["quiz"]})
    found = statements.unsupported(statements.sentences([cell]), [])
    assert found == ["names LLaMA without a source: LLaMA does so."]


def test_anchors_are_those_of_the_built_page():
    """Catches: GitHub's rule in place of Sphinx's. tests/book compares with the built pages."""
    titles = ["# A `b` of $L$ parts: don't", "## {term}`Blocks <block>` *here*"]
    cells = [nbformat.v4.new_markdown_cell(title) for title in titles]
    assert list(claims.headings(cells)) == ["a-b-of-l-parts-don-t", "blocks-here"]


# The fixture `record`.

MEASURING = """
import pytest

def test_number(record):
    record(f"value {1.23:.2f}")

@pytest.mark.parametrize("n", [1, 2])
def test_each(record, n):
    record(f"{n} words")

def test_words(record):
    record("no number")
"""


@pytest.fixture
def run_measuring(project):
    """Run the project's measuring tests; return the exit code and what was printed."""
    conftest = (ROOT / "tests" / "claims" / "conftest.py").read_text(encoding="utf-8")
    (project / "tests" / "claims" / "conftest.py").write_text(conftest, encoding="utf-8")
    (project / TOML).unlink()
    (project / MEASURED).unlink()

    def run(*options: str, source: str = MEASURING) -> tuple[int, str]:
        (project / "tests" / "claims" / "test_01_x.py").write_text(source, encoding="utf-8")
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "tests/claims",
                *options,
            ],
            cwd=project,
            env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.slow
@pytest.mark.nohook
def test_a_measurement_is_stored_and_then_compared(project, run_measuring):
    """Catches: a value that nobody compares; a comparison letter by letter; a file half written."""
    path = project / MEASURED
    code, output = run_measuring()
    assert code == 1 and "nothing is stored" in output and "--store-measurements" in output
    assert not path.exists()
    assert run_measuring("--store-measurements")[0] == 0
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert list(stored) == ["test_each[1]", "test_each[2]", "test_number", "test_words"]
    assert run_measuring(source=MEASURING.replace("1.23", "1.24"))[0] == 0  # the last digit
    for old, new in [("1.23", "1.25"), ("value", "size"), ("no number", "no word")]:
        code, output = run_measuring(source=MEASURING.replace(old, new))
        assert code == 1 and "stored: " in output and "now:    " in output, new
    for broken in ("    assert False\n", "    record('twice')\n"):
        code, output = run_measuring("--store-measurements", source=MEASURING + broken)
        assert code == 1 and "nothing stored" in output
    assert json.loads(path.read_text(encoding="utf-8")) == stored
    without = MEASURING.replace("test_words", "test_other")
    assert run_measuring("--store-measurements", "-k", "number", source=without)[0] == 0
    assert "test_words" not in json.loads(path.read_text(encoding="utf-8"))
