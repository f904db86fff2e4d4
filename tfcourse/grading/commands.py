"""The commands of instructors: `tfcourse release`, `grade`, `kill-matrix` and `autograder`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SETS = Path("exercises")
BOOK = "https://tfcourse.github.io/tfcourse/chapters"
REPOSITORY = "https://github.com/tfcourse/tfcourse"


def add_commands(commands: Any) -> None:
    """Add them to the command line's parser."""
    release = commands.add_parser("release", help="write student notebooks from the masters")
    release.set_defaults(run=run_release)
    release.add_argument("out", type=Path, metavar="DIR", help="folder of the student notebooks")
    _add_sets(release)
    release.add_argument("--sets", type=Path, default=SETS, metavar="DIR", help=f"masters [{SETS}]")
    release.add_argument("--book", default=BOOK, metavar="URL", help=f"for links [{BOOK}]")

    grade = commands.add_parser("grade", help="grade notebooks")
    grade.set_defaults(run=run_grade)
    grade.add_argument("submissions", type=Path, metavar="PATH", help="a notebook, or a folder")
    grade.add_argument("--out", type=Path, required=True, metavar="FILE", help="the grades")
    grade.add_argument(
        "--set", default="", metavar="NN", help="the set's number [the one that the notebooks name]"
    )
    grade.add_argument(
        "--oracle", type=Path, default=SETS, metavar="DIR", help=f"hidden checks [{SETS}]"
    )
    grade.add_argument("--jobs", type=int, default=1, metavar="N", help="notebooks at once [1]")
    grade.add_argument("--resume", action="store_true", help="keep what an earlier run finished")
    grade.add_argument(
        "--only", default="", metavar="QUESTION", help="grade one question again [none]"
    )
    grade.add_argument("--seed", type=int, metavar="N", help="of the inputs [drawn, recorded]")
    grade.add_argument(
        "--roster", type=Path, metavar="FILE", help="CSV: file,student[,submitted] [none]"
    )
    grade.add_argument("--due", default="", metavar="DATE", help="such as 2027-01-31T23:59 [none]")
    grade.add_argument(
        "--late",
        type=float,
        default=0.0,
        metavar="X",
        help="percent taken off the score per day begun after --due [0]",
    )
    grade.add_argument("--feedback", type=Path, metavar="DIR", help="a page per student [none]")
    grade.add_argument(
        "--format",
        choices=("csv", "gradescope", "canvas", "moodle"),
        default="csv",
        help="what to write [csv]",
    )
    grade.add_argument("--title", default="Exercises", metavar="NAME", help="column [Exercises]")
    grade.add_argument(
        "--sandbox",
        choices=("bubblewrap", "uid", "unsafe"),
        default="bubblewrap",
        help="uid is weaker; unsafe is for your own code only [bubblewrap]",
    )

    matrix = commands.add_parser("kill-matrix", help="show every check against wrong answers")
    matrix.set_defaults(run=run_kill_matrix)
    _add_sets(matrix)
    matrix.add_argument("--sets", type=Path, default=SETS, metavar="DIR", help=f"[{SETS}]")
    matrix.add_argument("--jobs", type=int, default=1, metavar="N", help="processes [1]")
    matrix.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs [0]")

    bundle = commands.add_parser("autograder", help="write a zip file for Gradescope")
    bundle.set_defaults(run=run_autograder)
    bundle.add_argument("--set", required=True, metavar="NN", help="the set's number")
    bundle.add_argument("--out", type=Path, required=True, metavar="FILE", help="the zip file")
    bundle.add_argument(
        "--oracle", type=Path, default=SETS, metavar="DIR", help=f"hidden checks [{SETS}]"
    )
    bundle.add_argument("--repository", default=REPOSITORY, metavar="URL", help=f"[{REPOSITORY}]")
    bundle.add_argument("--ref", default="main", metavar="NAME", help="branch or tag [main]")


def _add_sets(command: Any) -> None:
    command.add_argument(
        "--set", action="append", metavar="NN", help="a set's number; may be repeated [all]"
    )


def _chosen(numbers: list[str] | None) -> list[str]:
    from tfcourse.grading.sets import SETS as NAMES
    from tfcourse.grading.sets import load_set

    for number in numbers or ():
        load_set(number)
    return numbers or list(NAMES)


def _check_folder(path: Path, flag: str) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"{flag} {path}: there is no folder {path.parent}; make it first")


def run_release(args: argparse.Namespace) -> None:
    """Write the notebooks, and say which."""
    from tfcourse.grading.release import release

    for number in _chosen(args.set):
        print(release(number, args.sets, args.out, args.book))


def run_grade(args: argparse.Namespace) -> None:
    """Grade, and say how many notebooks got how much."""
    from tfcourse.grading.grade import Records, find_notebooks, grade_all
    from tfcourse.grading.oracle import check_oracle
    from tfcourse.grading.reports import (
        columns_of,
        feedback_page,
        feedback_text,
        gradescope_results,
        write_csv,
        write_text,
    )
    from tfcourse.grading.roster import NOTHING, parse_due, read_roster, rows
    from tfcourse.grading.sandbox import Sandbox
    from tfcourse.grading.sets import load_set

    if args.jobs < 1:
        raise ValueError(f"--jobs {args.jobs}; give at least 1")
    _check_folder(args.out, "--out")
    paths = find_notebooks(args.submissions)
    if args.format == "gradescope" and len(paths) > 1:
        raise ValueError("--format gradescope writes one submission's results; give one notebook")
    # `grades.csv` and `grades.canvas.csv` are made of the same results.
    records = Records(args.out.with_name(f"{args.out.name.partition('.')[0]}.jsonl"))
    if args.resume or args.only:
        records.read()
        for name, value in records.options.items():
            setattr(args, name, getattr(args, name) or value)
        number = args.set or records.number
        if number != records.number or args.seed not in (None, records.seed):
            raise ValueError(
                f"{records.path} is of set {records.number} with seed {records.seed}; "
                "leave --set and --seed out, or grade into another file"
            )
    else:
        number = args.set or _set_of(paths.values())
    due = parse_due(args.due) if args.due else None
    roster = read_roster(Path(args.roster)) if args.roster else []
    if not 0 <= args.late <= 100:
        raise ValueError(f"--late {args.late:g}; give percent from 0 to 100")
    if args.late and not due:
        raise ValueError(f"--late {args.late:g} needs --due, the date from which days are counted")
    if due and not any(entry.submitted for entry in roster):
        raise ValueError("--due needs a --roster with dates in its column `submitted`")
    questions = load_set(number)
    if args.only and args.only not in [q.id for q in questions]:
        raise ValueError(f"--only {args.only!r}; choose {', '.join(q.id for q in questions)}")
    check_oracle([question.id for question in questions], args.oracle)
    with Sandbox(args.sandbox):  # tried out before anything is written
        pass
    if not args.resume and not args.only:
        path = str(args.roster.resolve()) if args.roster else ""
        records.begin(number, args.seed, roster=path, due=args.due, late=args.late)
    stopped = None
    try:
        grade_all(paths, questions, records, args.oracle, args.sandbox, args.jobs, args.only)
    except KeyboardInterrupt:
        stopped = KeyboardInterrupt(f"interrupted; {len(records.results)} notebooks are saved")
    results = {name: records.results[name] for name in paths if name in records.results}
    table = list(rows(results, questions, roster, due, args.late))
    if args.format == "gradescope":
        write_text(args.out, gradescope_results(results[next(iter(paths))], questions))
    else:
        table = [row | {"feedback": feedback_text(row, questions)} for row in table]
        columns = columns_of(args.format, table, args.title)
        columns.pop("feedback" if args.format == "csv" else "", None)
        write_csv(args.out, table, columns)
    if args.feedback:
        for row in table:
            if row["file"]:
                page = (args.feedback / str(row["file"])).with_suffix(".html")
                page.parent.mkdir(parents=True, exist_ok=True)
                write_text(page, feedback_page(row, questions, BOOK))
    if stopped:
        raise stopped
    missing = [str(row["student"]) for row in table if row["note"] == NOTHING]
    mean = sum(float(str(row["score"])) for row in table) / len(results)
    print(f"{len(results)} notebooks, mean {mean:.1f} of {table[0]['of']}; seed {records.seed}")
    if missing:
        print(f"{NOTHING} by: {', '.join(missing)}")
    for row in table:
        if row["note"] not in ("", NOTHING):
            print(f"{row['file']}: {row['note']}")


def _set_of(paths: Iterable[Path]) -> str:
    """Find the one set that the notebooks name."""
    from tfcourse.grading.submissions import read_submission

    found = set()
    for path in paths:
        try:
            found |= {id.partition(".")[0] for id in read_submission(path).own}
        except ValueError:
            continue
    if len(found) != 1:
        named = ", ".join(sorted(found)) or "none"
        raise ValueError(f"the notebooks name these sets: {named}; choose one with --set")
    return found.pop()


def run_kill_matrix(args: argparse.Namespace) -> None:
    """Print the matrix. Raises `ValueError` where it has a hole."""
    from tfcourse.grading.kill_matrix import holes, kill_matrix, table

    verdicts = kill_matrix(args.sets, _chosen(args.set), args.jobs, args.seed)
    print(table(verdicts))
    wrong = sum(not v.right for v in verdicts)
    print(f"{wrong} wrong answers, {len(verdicts) - wrong} right ones")
    if found := holes(verdicts):
        raise ValueError(f"the matrix has {len(found)} holes, the first: {found[0]}")


def run_autograder(args: argparse.Namespace) -> None:
    """Write the bundle, and say where."""
    from tfcourse.grading.oracle import check_oracle
    from tfcourse.grading.reports import gradescope_bundle
    from tfcourse.grading.sets import load_set

    check_oracle([question.id for question in load_set(args.set)], args.oracle)
    _check_folder(args.out, "--out")
    gradescope_bundle(args.out, args.set, args.oracle, args.repository, args.ref)
    print(args.out)
