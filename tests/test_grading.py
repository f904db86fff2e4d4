"""Grading: what crosses the wire, what a hostile notebook gets, what a stopped run keeps."""

from __future__ import annotations

import collections
import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tfcourse.grading import check, grade
from tfcourse.grading.checking import local_student
from tfcourse.grading.grade import Mark, Records, Result, find_notebooks, grade_notebook
from tfcourse.grading.names import used_names
from tfcourse.grading.questions import Draw, Question, Wrong, close
from tfcourse.grading.roster import Entry, days_late, parse_date, parse_due, read_roster, rows
from tfcourse.grading.sandbox import Sandbox, command
from tfcourse.grading.sets import find_question, load_set
from tfcourse.grading.submissions import read_submission
from tfcourse.grading.wire import Kept, NotAnAnswer, Tool, decode, encode

pytestmark = pytest.mark.nohook  # values of any type are handed over
ROOT = Path(__file__).resolve().parent.parent
SETS = ROOT / "exercises"


# The wire.


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 2.5, "text", [1, [2.0]], (1, "a"), {"a": (1,)}, {}, []),
        *(Kept(3, "module"), Tool("scale", (2.0,))),
    ],
)
def test_a_value_comes_back_as_it_was(value):
    """Catches: a tuple that comes back as a list, True as 1."""
    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value and type(back) is type(value)


def test_numbers_of_numpy_and_named_tuples_come_back_as_python_has_them():
    """Catches: the natural result of a right answer, refused for its type."""
    pair = collections.namedtuple("Pair", "a b")(np.float64(0.5), np.int64(3))
    back = decode(json.loads(json.dumps(encode(pair))))
    assert back == (0.5, 3) and [type(x) for x in (back, *back)] == [tuple, float, int]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_a_tensor_comes_back_bit_by_bit(dtype, shape):
    """Catches: bfloat16 sent as float32; an empty tensor that loses its shape."""
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(0)).mul(9).to(dtype)
    back = decode(json.loads(json.dumps(encode(tensor))))
    assert back.dtype == dtype and back.shape == tensor.shape and torch.equal(back, tensor)


def test_an_input_that_lies_apart_in_memory_arrives_so():
    """Catches: .view in an answer that works on contiguous inputs alone goes unnoticed."""
    tensor = torch.arange(12.0).reshape(3, 4)[:, ::2]
    back = decode(encode(tensor))
    assert torch.equal(back, tensor) and not back.is_contiguous()


class Pretender(torch.Tensor):
    """Says that it equals everything."""


class Reduced:
    """Would run code where it is unpickled."""

    def __reduce__(self):
        return os.abort, ()


@pytest.mark.parametrize("value", [torch.zeros(2).as_subclass(Pretender), Reduced(), nn.Linear])
def test_other_objects_do_not_cross(value):
    """Catches: isinstance in place of the exact type; an answer that is pickled."""
    with pytest.raises(NotAnAnswer):
        encode(value)


@pytest.mark.parametrize(
    "code",
    [
        {"tensor": "AAAA", "dtype": "float32", "shape": [9]},
        {"tensor": "AAAA", "dtype": "object", "shape": [1]},
        {"tensor": "", "dtype": "float32", "shape": [-1]},
        {"tensor": "", "dtype": "float32", "shape": "x"},
        {"tensor": "AAAA", "dtype": "float32", "shape": [2**41]},
        {"tensor": "AAAA", "dtype": "float32", "shape": [1] * 17},
        {"what": 1},
        {},
        [1],
    ],
)
def test_a_forged_answer_is_refused(code):
    """Catches: a shape that reads beyond its bytes, or whose size takes hours to compute; a type
    looked up by name.
    """
    with pytest.raises(ValueError):
        decode(code)


# Checks.


def question_of(*checks, **fields) -> Question:
    question = Question("02.twice", "twice", "Twice", 1, 1, 1, "02_norms.html", **fields)
    for one in checks:
        question.check(one)
    return question


def doubles(student, draw):
    """Doubles what it gets."""
    x = draw.normal(3)
    if not close(student(x), 2 * x):
        raise Wrong("It does not double.")


def in_place(x):
    x *= 2
    return x


def text(x):
    return "2x"


def nothing(x):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: 2 * x, ""),
        (lambda x: 3 * x, "It does not double."),
        (in_place, "in place"),
        (text, "something else than the question asks for"),
        (nothing, "NotImplementedError"),
        (lambda x: (2 * x).as_subclass(Pretender), "something else"),
    ],
)
def test_an_answer_is_judged_by_what_it_returns(answer, says):
    """Catches: an exception of the answer that ends the grading; an input changed unseen."""
    question = question_of(doubles)
    found = question.problem(local_student(question, answer), "", 0, question.checks)
    assert (says in found) if says else found == ""


def test_an_exception_names_the_line_of_the_answer():
    """Catches: the line where PyTorch raised; a line of the grader's."""
    objects = {"__name__": "__main__"}
    exec("\n\ndef twice(x):\n    y = 2 * x\n    return y.view(7)\n", objects)
    question = question_of(doubles)
    student = local_student(question, objects["twice"])
    found = question.problem(student, "", 0, question.checks)
    assert found.startswith("Your code raised RuntimeError, line 5: ")


def test_what_has_to_be_written_cannot_be_called_under_another_name():
    """Catches: a ban that looks at the source alone."""
    ban = torch.nn.functional.layer_norm

    def one(student, draw):
        """Normalizes."""
        student(draw.normal(2, 4))

    question = question_of(one, forbid=("layer_norm",))
    student = local_student(question, lambda x: ban(x, (4,)))
    assert "layer_norm" in question.problem(student, "", 0, question.checks)
    source = "from torch.nn.functional import layer_norm as ln\ndef twice(x): return ln(x, (4,))"
    assert "layer_norm" in question.problem(student, source, 0, [])
    assert used_names("def f(x): return f(x).g + h") == {"g", "h"}


def test_a_package_is_known_by_each_part_of_its_name():
    """Catches: the course's own functions imported by name, from anywhere in an answer's sight;
    the import of `check` held against it.
    """
    own = question_of(forbid=("costs", "causal_mask"))
    student = local_student(own, abs)
    for source, shared, refused in (
        ("from tfcourse.costs import parameters as p\nf = p", [], "costs"),
        ("f = g", ["from tfcourse.costs import parameters as g"], "costs"),
        ("from tfcourse.attention import causal_mask", [], "causal_mask"),
        ("f = causal_mask", ["from tfcourse.attention import causal_mask"], "causal_mask"),
        ("f = g", ["from tfcourse.attention import causal_mask, repeat as g"], ""),
        ("f = causal_mask", ["def causal_mask(n): return n"], ""),
        ("import tfcourse\nf = tfcourse.grading.tools", [], "grading"),
        ("from tfcourse.grading import check\ncheck('02.rms', 3)", [], ""),
        ("check('02.rms', 3)", ["from tfcourse.grading import check"], ""),
    ):
        problem = own.problem(student, source, 0, [], shared)
        assert (f"uses {refused}," in problem) if refused else not problem, (source, problem)


@pytest.mark.parametrize(
    ("shared", "banned"),
    [
        ("import torch.nn as nn\nNorm = nn.LayerNorm", True),
        ("from torch.nn import LayerNorm as Norm", True),
        ("from torch import nn\ndef make(d): return nn.LayerNorm(d)\nNorm = make", True),
        ("from torch import nn\nclass Norm(nn.LayerNorm): pass", True),
        ("from torch import nn\nx = nn.LayerNorm(4)\nNorm = nn.Identity", False),
    ],
)
def test_a_name_from_another_cell_stands_for_what_is_behind_it(shared, banned, tmp_path):
    """Catches: a ban that a cell above gets round; one that punishes an experiment there."""
    path = tmp_path / "it.ipynb"
    path.write_text(notebook(shared, "# Question 02.twice\n%time\ntwice = lambda x: Norm(4)(x)"))
    submission = read_submission(path)
    question = question_of(forbid=("LayerNorm",))
    student = local_student(question, abs)
    found = question.problem(
        student, submission.own[question.id], 0, [], submission.shared[question.id]
    )
    assert ("uses LayerNorm" in found) is banned


def test_the_same_seed_draws_the_same_numbers():
    """Catches: a draw from the process's own generator."""
    assert torch.equal(Draw(1, "a").normal(4), Draw(1, "a").normal(4))
    assert not torch.equal(Draw(1, "a").normal(4), Draw(1, "b").normal(4))


def test_check_says_what_it_found(capsys):
    """Catches: a pass that promises more than the checks that ran."""
    check("02.layer_norm", lambda x, gain, shift, eps: x)
    assert capsys.readouterr().out.startswith("✗ 02.layer_norm: ")
    check("02.layer_norm", reference)
    assert "checks that run here" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"no question '02\.layernorm'; choose one of 02\."):
        check("02.layernorm", reference)
    with pytest.raises(ValueError, match="no exercise set '9'"):
        check("9", reference)


def reference(x, gain, shift, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + shift


# In the sandbox.

GOOD = """\
# Question 02.layer_norm
def layer_norm(x, gain, shift, eps):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() + shift
check("02.layer_norm", layer_norm)
"""
OTHER = "02.rms"
RMS = """\
# Question 02.rms
def rms(x):
    return x.square().mean(dim=-1).sqrt()
"""
IMPORTS = "import torch\nfrom tfcourse.grading import check\n%matplotlib inline\n!pip --version\n"


def notebook(*sources: str) -> str:
    cells = [
        {
            "cell_type": "code",
            "id": f"c{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate(sources)
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def function(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"# Question 02.layer_norm\ndef layer_norm(x, gain, shift, eps):\n{lines}\n"


HOSTILE = {
    "syntax error": (GOOD.replace("return", "retrun gain"), "SyntaxError, line 4"),
    "raises in its cell": ("# Question 02.layer_norm\n1 / 0", "ZeroDivisionError"),
    "renamed": (GOOD.replace("layer_norm(x", "norm(x"), "name 'layer_norm' is not defined"),
    "nothing written": (function("raise NotImplementedError('write it')"), "NotImplementedError"),
    "endless function": (function("while True: pass"), "no answer within"),
    "endless cell": ("# Question 02.layer_norm\nwhile True: pass", "no answer within"),
    "sleeps and ignores signals": (
        function(
            "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, "
            "signal.SIG_IGN)\n    except OSError: pass\nwhile True: time.sleep(1)"
        ),
        "no answer within",
    ),
    "os._exit": (function("import os; os._exit(0)"), "ended before it answered"),
    "sys.exit": ("# Question 02.layer_norm\nimport sys; sys.exit(0)", "SystemExit"),
    "segfault": (function("import ctypes; ctypes.string_at(0)"), "ended before it answered"),
    "kills its parent": (
        function("import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)"),
        "ended before it answered",
    ),
    "memory without end": (  # a slow machine may not come to the limit before the time ends
        function("held = []\nwhile True: held.append(torch.ones(2**25))"),
        "Error|no answer within",
    ),
    "memory that is shared": (
        function("import mmap\nheld = mmap.mmap(-1, 2**33)\nreturn x"),
        "Error",
    ),
    "the checks' own module": (
        "# Question 02.layer_norm\nfrom tfcourse.grading.tools import *\n"
        + function("return x").partition("\n")[2],
        "uses grading, which this question does not allow",
    ),
    "an error without end": (function("raise ValueError('x' * 10**7)"), "raised ValueError"),
    "64 GiB of memory, untouched": (
        function("held = [torch.empty(2**28) for _ in range(64)]\nreturn x"),
        "Error",
    ),
    "output without end": (function("while True: print('x' * 10**6)"), "no answer within"),
    "a huge answer": (function("return torch.zeros(2**24)"), "64 MiB"),
    "fork bomb": ("# Question 02.layer_norm\nimport os\nwhile True: os.fork()", ""),
    "printed scores": (function("print('score: 100/100')\nreturn x"), "not the right ones"),
    "patched torch": (
        "# Question 02.layer_norm\ntorch.allclose = torch.equal = lambda *a, **k: True\n"
        + function("return x").partition("\n")[2],
        "not the right ones",
    ),
    "patched checks": (
        "# Question 02.layer_norm\nimport importlib\n"
        "q = importlib.import_module('tfcourse.grading.questions')\n"
        "q.Question.problem = lambda *a: ''\nq.close = lambda *a: True\n"
        + function("return x").partition("\n")[2],
        "not the right ones",
    ),
    "patched results": (
        "# Question 02.layer_norm\nimport importlib\n"
        "w = importlib.import_module('tfcourse.grading.worker')\n"
        "w.Worker.answer = lambda self, request: {'value': None, 'inputs': {'list': []}}\n"
        + function("return x").partition("\n")[2],
        "something else",
    ),
    "a forged line": (
        function(
            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{\"value\": true}\\n')\n"
            "    except OSError: pass\nreturn x"
        ),
        "something else",
    ),
    "like a tensor": (
        "# Question 02.layer_norm\nclass T(torch.Tensor):\n"
        "    def __eq__(self, other): return True\n"
        + function("return x.as_subclass(T)").partition("\n")[2],
        "it has to be a torch.Tensor",
    ),
    "a pickle": (
        "# Question 02.layer_norm\nimport os\nclass P:\n"
        "    def __reduce__(self): return os.abort, ()\n"
        + function("return P()").partition("\n")[2],
        "it has to be a torch.Tensor",
    ),
    "NaN": (function("return x * float('nan')"), "not the right ones"),
    "the network": (
        function("import socket\nsocket.create_connection(('127.0.0.1', 1), 2)"),
        "OSError|refused|unreachable|Error",
    ),
    "hidden files": (
        function(f"open({str(SETS / '02_norms' / 'oracle.py')!r}).read()"),
        "FileNotFoundError",
    ),
    "writes to the package": (
        function("import tfcourse\nopen(tfcourse.__file__, 'w').write('')"),
        "OSError|PermissionError",
    ),
}


@pytest.fixture(scope="module")
def quick():
    """The two questions, with less time than a student has."""
    asked = {q.id: q for q in load_set("02")}
    before = {id: q.seconds for id, q in asked.items()}
    for q in asked.values():
        q.seconds = 4.0
    yield [asked["02.layer_norm"], asked[OTHER]]
    for id, q in asked.items():
        q.seconds = before[id]


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_gets_nothing_and_the_next_question_its_marks(name, quick, tmp_path):
    """Catches: one process for several questions; a mark decided where the student's code runs."""
    source, says = HOSTILE[name]
    path = tmp_path / "it.ipynb"
    path.write_text(notebook(IMPORTS, source, RMS))
    with Sandbox() as sandbox:
        result = grade_notebook(path, quick, sandbox, SETS, seed=1)
    bad, good = result.marks["02.layer_norm"], result.marks[OTHER]
    assert bad.score == 0 and any(part in bad.reason for part in says.split("|")), bad
    assert "\n" not in bad.reason
    assert good == Mark(good.of, good.of, good.seconds)


USES_RMS = """# Question 02.layer_norm
def layer_norm(x, gain, shift, eps):
    assert rms(x).shape == x.shape[:-1]
    c = x - x.mean(-1, keepdim=True)
    return c / (c.square().mean(-1, keepdim=True) + eps).sqrt() * gain + shift
"""
MIXED = "mean = nn.LayerNorm(4)(x).mean()\ndef twice(x, d):\n    mean = nn.LayerNorm(d)(x)"
HONEST = {
    "an exit": ["import os; os._exit(1)", IMPORTS, GOOD, RMS],
    "an error": ["1 / 0", IMPORTS, GOOD, RMS],
    "more nesting than Python reads": ["x = " + "-" * 10_000 + "1", IMPORTS, GOOD, RMS],
    "no end, many times": [IMPORTS, *(f"while True: {i}" for i in range(99)), GOOD, RMS],
    "experiments that take long": [IMPORTS, *["import time\ntime.sleep(3.5)"] * 2, GOOD, RMS],
    "what only Colab has": ["from google.colab import drive\n" + IMPORTS, GOOD, RMS],
    "help and the shell": [
        f"import torch\nfrom torch import nn\nnn.LayerNorm?\nout = !ls\n{IMPORTS}", GOOD, RMS
    ],
    "magics in the answer": [IMPORTS, GOOD + "\ndisplay(1)\n%time y = 1\ny", "%%time\n" + RMS],
    "a title and a note": [IMPORTS, "#@title Mine\n" + GOOD, RMS.replace("rms\n", "rms: done\n")],
    "a line that begins with !=": [IMPORTS, GOOD + "(1\n!= 2)\n(5\n% 4)", RMS],
    "indented as a whole": [IMPORTS, textwrap.indent(GOOD, "    "), RMS],
    "gradients switched off": [IMPORTS, "torch.set_grad_enabled(False)", GOOD, RMS],
    "the forbidden, tried above": [IMPORTS + "\nfrom torch import nn", MIXED, GOOD, RMS],
    "an answer that uses another": [IMPORTS, RMS, USES_RMS],
    "processes and pickles of its own": [
        IMPORTS,
        "import multiprocessing, pickle\nclass A: pass\na = pickle.loads(pickle.dumps(A()))\n"
        "with multiprocessing.Pool(2) as pool: b = pool.map(abs, [1])",
        GOOD + "\na, b",
        RMS,
    ],
    "scripted": [IMPORTS, GOOD, RMS.replace("def", "@torch.jit.script\ndef")],
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as started:
        yield started


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
@pytest.mark.parametrize("name", HONEST)
def test_a_right_answer_gets_its_marks_whatever_else_the_notebook_holds(
    name, quick, sandbox, tmp_path
):
    """Catches: a batch that an unmarked cell ends; cells after it that are left out too; what runs
    in a notebook and not here.
    """
    path = tmp_path / "it.ipynb"
    path.write_text(notebook(*HONEST[name]))
    result = grade_notebook(path, quick, sandbox, SETS, seed=1)
    assert {q.id: result.marks[q.id].reason for q in quick} == {q.id: "" for q in quick}
    assert [mark.score for mark in result.marks.values()] == [q.points for q in quick]


@pytest.mark.slow
@pytest.mark.xdist_group("sandbox")
def test_the_sandbox_shows_nothing_of_the_host(quick, tmp_path, monkeypatch):
    """Catches: the repository, the home folder, the checks or the environment in sight; a
    privilege kept; a process that outlives others where the host's memory runs short.
    """
    monkeypatch.setenv("TFCOURSE_SECRET", "x")
    secret = tmp_path / "secret"
    secret.write_text("x")
    look = (
        "# Question 02.layer_norm\nimport os\n"
        f"seen = [p for p in ({str(secret)!r}, {str(SETS)!r}, '/etc/passwd', '/root/.ssh', "
        "'/proc/1/environ', '/course/tfcourse/grading/sets/norms.py') if os.access(p, os.R_OK)]\n"
        "with open('/proc/self/status') as file:\n"
        "    caps = [l.split()[1] for l in file if l.startswith('CapEff')]\n"
        "with open('/proc/self/oom_score_adj') as file:\n"
        "    first = file.read().strip()\n"
        "raise ValueError(f'{seen} {sorted(os.environ)} {caps} first to go: {first}')"
    )
    path = tmp_path / "it.ipynb"
    path.write_text(notebook(look))
    with Sandbox() as sandbox:
        reason = (
            grade_notebook(path, quick[:1], sandbox, SETS, seed=1).marks["02.layer_norm"].reason
        )
    seen, _, rest = reason.partition("ValueError: ")[2].partition("] ")
    assert seen == "[", reason
    assert "'HOME'" in rest and "TFCOURSE_SECRET" not in rest, rest
    assert "'0000000000000000'" in rest
    assert "first to go: 1000" in rest


def test_an_environment_below_tmp_is_seen_in_the_sandbox(tmp_path, monkeypatch):
    """Catches: the sandbox's own /tmp laid over what is bound there."""
    (tmp_path / "file").write_text("seen")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    sandboxed = command("bubblewrap", 0, 0)
    sandboxed = sandboxed[: sandboxed.index(sys.executable)]
    done = subprocess.run(
        [*sandboxed, "/bin/cat", tmp_path / "file"], capture_output=True, text=True
    )
    assert done.stdout == "seen", done.stderr


# Batches.


def write_batch(folder: Path, n: int) -> list[Path]:
    """Write n notebooks: right, partly right, wrong, broken."""
    folder.mkdir()
    kinds = [
        notebook(IMPORTS, GOOD, RMS),
        notebook(IMPORTS, GOOD),
        notebook(IMPORTS, function("return x"), RMS),
        notebook(IMPORTS, "# Question 02.layer_norm\ndef layer_norm(*a): return 1", GOOD),
        "no notebook",
    ]
    for i in range(n):
        (folder / f"s{i:03}.ipynb").write_text(kinds[i % len(kinds)])
    return sorted(folder.iterdir())


def tfcourse(*arguments: object, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "tfcourse.cli", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT, **options,
    )  # fmt: skip


def marks(path: Path) -> list[list[str]]:
    """The CSV without its times."""
    with path.open(newline="") as file:
        table = list(csv.reader(file))
    keep = [i for i, name in enumerate(table[0]) if "seconds" not in name]
    return [[row[i] for i in keep] for row in table]


def interrupt_and_resume(tmp_path: Path, n: int) -> None:
    submissions = tmp_path / "in"
    write_batch(submissions, n)
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    arguments = ["grade", submissions, "--jobs", 2, "--seed", 7]
    process = tfcourse(*arguments, "--out", whole)
    assert process.wait() == 0, process.stderr.read()
    process = tfcourse(*arguments, "--out", parts)
    kept = parts.with_suffix(".jsonl")
    while not kept.exists() or kept.read_text().count("\n") < 4:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "go on with --resume" in said, said
    done = kept.read_text().count("\n") - 1
    assert 3 <= done < n and len(marks(parts)) == done + 1
    process = tfcourse("grade", submissions, "--out", parts, "--resume", "--jobs", 2)
    assert process.wait() == 0, process.stderr.read()
    assert marks(parts) == marks(whole)
    assert len(marks(parts)) == n + 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("sandbox")
def test_a_batch_that_is_stopped_goes_on_and_gives_the_same_marks(tmp_path):
    """Catches: finished work lost; a seed drawn anew; a half-written result counted."""
    interrupt_and_resume(tmp_path, 20)


@pytest.mark.accept
@pytest.mark.timeout(1800)
def test_a_hundred_submissions_are_stopped_and_go_on(tmp_path):
    """The same for a course. Catches: what adds up over many sandboxes."""
    interrupt_and_resume(tmp_path, 100)


def test_one_question_is_graded_again_alone(tmp_path):
    """Catches: --only that forgets the other marks, the roster or the dates; a run that overwrites
    an earlier one's.
    """
    submissions = tmp_path / "in"
    write_batch(submissions, 1)
    out = tmp_path / "grades.csv"
    roster = tmp_path / "roster.csv"
    roster.write_text("file,student,submitted\ns000.ipynb,Ada,2027-01-02\nb.ipynb,Ben,\n")
    dates = ["--roster", roster, "--due", "2027-01-01", "--late", 50]
    assert tfcourse("grade", submissions, "--out", out, "--seed", 3, *dates).wait() == 0
    before = marks(out)
    again = tfcourse("grade", submissions, "--out", out)
    assert "holds the results of an earlier run" in again.communicate()[1]
    assert again.returncode != 0 and marks(out) == before
    path = submissions / "s000.ipynb"
    path.write_text(notebook(IMPORTS, function("return x"), "# Question 02.rms\ndef rms(x): 0"))
    assert tfcourse("grade", submissions, "--out", out, "--only", OTHER).wait() == 0
    header, absent, after = marks(out)
    assert after[header.index(OTHER)] == "0"
    first, points = header.index("02.layer_norm"), find_question("02.layer_norm").points
    assert after[first] == before[2][first] == str(points)
    assert after[:3] == ["Ada", "s000.ipynb", str(points / 2)] and absent[0] == "Ben"


def test_a_roster_names_who_is_missing_and_lateness_costs(tmp_path):
    """Catches: a student without a notebook who is left out; a day begun that is not counted."""
    path = tmp_path / "roster.csv"
    path.write_text("file;student;submitted\n./a.ipynb;Ada;2027-01-02T10:00\nb.ipynb;Ben;\n")
    roster = read_roster(path)
    assert roster[0] == Entry("a.ipynb", "Ada", "2027-01-02T10:00")
    asked = [find_question("02.layer_norm")]
    points = asked[0].points
    result = Result("a.ipynb", "0", {asked[0].id: Mark(points, points, 0.1)})
    stranger = Result("=c.ipynb", "0", {asked[0].id: Mark(0, points, 0, "No cell begins with it.")})
    results = {"a.ipynb": result, "=c.ipynb": stranger}
    due = parse_date("2027-01-01T09:00", "due")
    table = {row["student"]: row for row in rows(results, asked, roster, due, late=10)}
    assert table["Ada"]["days late"] == 2 and table["Ada"]["score"] == round(0.8 * points, 2)
    assert table["Ben"]["note"] == "nothing was handed in" and table["Ben"]["score"] == 0
    assert table["Ben"][f"{asked[0].id} reason"] == "Nothing was handed in."
    notes = "not in the roster, no date of submission, no question of this set"
    assert table["=c"]["note"] == notes and table["=c"]["days late"] == 0
    assert days_late("2027-01-01T09:00", due) == 0 and days_late("2027-01-01T09:01", due) == 1
    day = parse_due("2027-01-01")
    assert days_late("2027-01-01T23:59", day) == 0 and days_late("2027-01-02T00:00", day) == 1


def test_students_without_a_file_are_listed(tmp_path):
    """Catches: two of them taken for one file; one of them left out; an umlaut taken apart."""
    path = tmp_path / "roster.csv"
    path.write_text("file,student\n,Ada\nu\u0308.ipynb,Ben\n,Cem\n", encoding="utf-8")
    asked = [find_question("02.layer_norm")]
    result = Result("ü.ipynb", "0", {asked[0].id: Mark(1, 1, 0.1)})
    table = list(rows({"ü.ipynb": result}, asked, read_roster(path), None, 0))
    assert [(row["student"], row["score"]) for row in table] == [("Ben", 1), ("Ada", 0), ("Cem", 0)]


def test_a_line_that_was_cut_off_is_graded_again_and_spoils_nothing(tmp_path):
    """Catches: the next record written behind half a line."""
    records = Records(tmp_path / "grades.jsonl")
    records.begin("02", 1)
    records.add(Result("é.ipynb", "0", {"02.rms": Mark(1, 1, 0.1)}))
    content = records.path.read_bytes()
    cut = content.index("é".encode()) + 1  # within a letter
    for size in (cut, len(content) - 1):
        records.path.write_bytes(content[:size])
        again = Records(records.path)
        again.read()
        assert again.results == {} and again.seed == 1
        again.add(Result("b.ipynb", "0"))
        last = Records(records.path)
        last.read()
        assert list(last.results) == ["b.ipynb"]


def test_what_the_grader_cannot_judge_is_left_to_a_person(tmp_path, monkeypatch):
    """Catches: one answer that ends the batch."""
    path = tmp_path / "it.ipynb"
    path.write_text(notebook(GOOD, RMS))
    asked = [find_question("02.layer_norm")]
    monkeypatch.setattr(grade, "_problem", lambda *arguments: 1 / 0)
    result = grade_notebook(path, asked, Sandbox(), SETS, seed=1)
    (row,) = rows({"it.ipynb": result}, asked, [], None, 0)
    assert row["note"] == "to be graded by hand" and "ZeroDivisionError" in str(result.marks)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("name\nx\n", "no column file and student"),
        ("file,student\na,x\na,y\n", "has file 'a' twice"),
        ("file,student\na,x\nb,x\n", "has student 'x' twice"),
        ("file,student,submitted\na,x,yesterday\n", "submitted of x is 'yesterday'; give a date"),
    ],
)
def test_a_bad_roster_is_named(tmp_path, content, says):
    """Catches: two notebooks of one student, of which one silently counts."""
    path = tmp_path / "roster.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=says):
        read_roster(path)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"cells": 3}', '{"cells": [{"source": "1"}]}', "[" * 99_999]
)
def test_what_is_no_notebook_is_named(tmp_path, content):
    """Catches: a KeyError, or a recursion, that ends the batch."""
    path = tmp_path / "it.ipynb"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"it\.ipynb is no Jupyter notebook"):
        read_submission(path)


def test_notebooks_are_found_in_folders_of_students(tmp_path):
    """Catches: two students' notebooks of one name taken for one; a copy of Jupyter's graded; a
    name that ends the batch, differs from the roster's, or is left out; a link to another's.
    """
    hidden = ("a/.ipynb_checkpoints/it.ipynb", "__MACOSX/it.ipynb", "a/._it.ipynb")
    for name in ("b/it.ipynb", "a/it.ipynb", "c.ipynb", *hidden):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert list(find_notebooks(tmp_path)) == ["a/it.ipynb", "b/it.ipynb", "c.ipynb"]
    assert find_notebooks(tmp_path / "c.ipynb") == {"c.ipynb": tmp_path / "c.ipynb"}
    os.rename(os.fsencode(tmp_path / "c.ipynb"), os.fsencode(tmp_path) + b"/u\xcc\x88\xff\n.IPYNB")
    (tmp_path / "of_b.ipynb").symlink_to(tmp_path / "b" / "it.ipynb")
    os.mkfifo(tmp_path / "pipe.ipynb")
    names = ["a/it.ipynb", "b/it.ipynb", "of_b.ipynb", "pipe.ipynb", "ü\ufffd\ufffd.IPYNB"]
    found = find_notebooks(tmp_path)
    assert sorted(found) == names
    for name in ("of_b.ipynb", "pipe.ipynb"):
        with pytest.raises(ValueError, match="is a link, or no regular file"):
            read_submission(found[name])
    with pytest.raises(ValueError, match="there is no"):
        find_notebooks(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no notebook"):
        find_notebooks(tmp_path / "empty")


def test_answers_run_where_others_use_them(tmp_path):
    """Catches: ✓ in the notebook and no marks, for an answer that calls an answer; one that runs
    where nobody needs it.
    """
    path = tmp_path / "it.ipynb"
    a, b, c = (f"# Question 02.{q}\ndef {q}(x): return {u}(x)" for q, u in ("ax", "ba", "cb"))
    path.write_text(notebook(a, "y = 1", b, c))
    after = {"02.a": [], "02.b": [a, "y = 1"], "02.c": [a, "y = 1", b]}
    assert read_submission(path).shared == after
    path.write_text(notebook(a, "y = 1", b, c.replace("b(x)", "(lambda b: b)(x)")))
    assert read_submission(path).shared == after | {"02.c": ["y = 1"]}


def test_shared_cells_are_those_before_and_the_last_of_several_counts(tmp_path):
    """Catches: cells behind a question that change it; the first of two answers taken."""
    path = tmp_path / "it.ipynb"
    path.write_text(notebook("a", "# question 02.RMS\none", "b", "#Question 02.rms  \ntwo", "c"))
    submission = read_submission(path)
    assert submission.own["02.rms"].endswith("two")
    assert submission.shared["02.rms"] == ["a", "b"] and "last counts" in submission.notes["02.rms"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{tmp}/none"], "there is no"),
        (["{tmp}/in", "--late", "10"], "needs --due"),
        (["{tmp}/in", "--late", "nan"], "give percent from 0 to 100"),
        (["{tmp}/in", "--due", "2027-01-31"], "needs a --roster with dates"),
        (["{tmp}/in", "--set", "02", "--oracle", "{tmp}/private"], "does not run: SyntaxError"),
        (["{tmp}/in", "--set", "99"], "no exercise set '99'"),
        (["{tmp}/in", "--jobs", "0"], "--jobs 0; give at least 1"),
        (["{tmp}/in", "--due", "soon"], "--due is 'soon'; give a date"),
        (["{tmp}/in", "--resume"], "nothing has been graded into this --out"),
        (["{tmp}/in", "--oracle", "{tmp}"], "oracle.py is missing"),
    ],
)
def test_a_wrong_request_is_one_line(tmp_path, arguments, says):
    """Catches: a traceback; a CSV half written."""
    write_batch(tmp_path / "in", 1)
    private = tmp_path / "private" / "02_norms"
    private.mkdir(parents=True)
    (private / "oracle.py").write_text("HIDDEN = (")
    out = tmp_path / "grades.csv"
    process = tfcourse("grade", *[a.format(tmp=tmp_path) for a in arguments], "--out", out)
    said = process.communicate()[1]
    lines = [line for line in said.splitlines() if "notebook/s" not in line]
    assert process.returncode in (1, 2) and says in lines[-1] and "Traceback" not in said, said
    assert not out.exists()
