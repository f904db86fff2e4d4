"""The command line: `tfcourse train`, `tfcourse sample` and `tfcourse costs`."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from tfcourse import __version__
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.tasks import DATA, FROM_DATA, TASKS, make_task
from tfcourse.grading.commands import add_commands
from tfcourse.presets import PRESETS

EXAMPLES = """\
examples:
  tfcourse train emails --preset tiny --out runs/emails
  tfcourse sample --checkpoint runs/emails --prompt "Subject: report"
  tfcourse train mailbox ~/mail.mbox --out runs/mine

exit status: 0 done, 1 could not, 2 asked wrongly, 130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors fit one line, and that knows no short forms of its flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    silent = "WORLD_SIZE" in os.environ and os.environ.get("RANK", "0") != "0"  # one reports
    if silent or sys.stdout is None or sys.stderr is None:  # closed by the shell (`>&-`)
        nothing = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
        sys.stdout, sys.stderr = (not silent and sys.stdout) or nothing, sys.stderr or nothing
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack a letter of the text
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning  # restored with the filters
            args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        said = str(interrupt) or "interrupted"
        again = "; go on with --resume" if said.endswith(" saved") else ""
        return _fail(f"{said}{again}", 130)
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except Exception as error:
        return _explain(error)
    return 0


def _explain(error: Exception) -> int:
    """Say in one line what the package or the machine refused; a bug keeps its traceback."""
    import torch

    from tfcourse.checkpoints import CheckpointError

    if isinstance(error, torch.OutOfMemoryError):
        return _fail("the GPU's memory is full; raise --accumulate or lower --batch-size", 1)
    if isinstance(error, CheckpointError | FloatingPointError):
        return _fail(error, 1)
    if isinstance(error, ValueError):  # a value that the package refuses
        return _fail(error, 2)
    too_large = ("allocate memory", "overflow", "invalid array size")
    if isinstance(error, MemoryError) or any(part in str(error) for part in too_large):
        return _fail("this does not fit in memory; ask for a smaller model, batch or text", 1)
    raise error


def _fail(message: object, status: int) -> int:
    text = str(message).replace("\n", "\\n")  # a path may hold a line break
    print(f"tfcourse: {text}", file=sys.stderr)
    return status


def _print_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def make_parser() -> Parser:
    """Build the parser; every flag of a configuration comes from the field that it sets."""
    parser = Parser(
        prog="tfcourse",
        description="Train and sample the course's transformer; count what a model costs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"tfcourse {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a model").add_subparsers(
        title="data sets", required=True, metavar="DATA"
    )
    for name, task in TASKS.items():
        command = train.add_parser(name, help=task.meaning)
        command.set_defaults(run=run_train, data=name)
        if name == "mailbox":
            command.add_argument(
                "path", type=Path, metavar="PATH", help="an mbox file or a maildir"
            )
            add_data_flag(command, "vocab_size", "number of different tokens", DATA["vocab_size"])
            add_data_flag(command, "max_len", "longest row, tokens", DATA["max_len"])
        else:
            add_data_flag(command, "n_held_out", "rows held out of training", task.n_held_out)
        add_data_flag(command, "data_seed", "seed of the data", DATA["data_seed"])
        command.add_argument(
            "--out", type=folder, required=True, metavar="DIR", help="folder of the run's files"
        )
        command.add_argument("--resume", action="store_true", help="go on from the checkpoint")
        command.add_argument(
            "--preset",
            choices=task.presets,
            help=f"other values than those in brackets; base is for a GPU [{task.presets[0]}]",
        )
        command.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="a TOML file with sections [model] and [train]; flags win over it",
        )
        preset = PRESETS[task.presets[0]]
        for section, names in allowed_fields(name).items():
            config = SECTIONS[section]
            add_flags(command.add_argument_group(section), config, names, preset[section])

    sample = commands.add_parser("sample", help="write text with a trained model")
    sample.set_defaults(run=run_sample)
    sample.add_argument(
        "--checkpoint", type=Path, required=True, metavar="PATH", help="a run's folder or its file"
    )
    sample.add_argument("--prompt", default="", metavar="TEXT", help="how the text begins [empty]")
    sample.add_argument("--n", type=whole, default=1, metavar="N", help="number of texts [1]")
    sample.add_argument(
        "--max-new-tokens", type=whole, metavar="N", help="tokens per text [to the end of max_len]"
    )
    sample.add_argument(
        "--temperature", type=float, default=1.0, metavar="T", help="0 takes the likeliest [1.0]"
    )
    sample.add_argument("--top-k", type=whole, metavar="K", help="draw from the K likeliest [all]")
    sample.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the likeliest that reach P [1.0]"
    )
    sample.add_argument("--seed", type=whole, metavar="N", help="repeat the same draws [random]")

    costs = commands.add_parser("costs", help="count what a model costs, without building it")
    costs.set_defaults(run=run_costs)
    shapes = [name for name in PRESETS if name not in ("dates", "digits", "masked")]  # decoders
    costs.add_argument("--preset", choices=shapes, default="tiny", help="the shape [tiny]")
    costs.add_argument("--context", type=whole, metavar="N", help="tokens per row [max_len]")
    costs.add_argument("--batch-size", type=whole, default=1, metavar="N", help="rows [1]")
    names = ["vocab_size", "max_len", *allowed_fields("emails")["model"]]
    preset = PRESETS["tiny"]["model"] | dict.fromkeys(names[:2], "as in emails")
    add_flags(costs, ModelConfig, names, preset)
    add_commands(commands)
    return parser


SECTIONS = {"model": ModelConfig, "train": TrainConfig}


def allowed_fields(task: str) -> dict[str, list[str]]:
    """Return the fields of each section that a command line or a file may set."""
    hidden = FROM_DATA | TASKS[task].without
    return {
        section: [f.name for f in fields(config) if config is TrainConfig or f.name not in hidden]
        for section, config in SECTIONS.items()
    }


def whole(text: str) -> int:
    """Read a whole number of at most 18 digits: one that fits 64 bits."""
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text[:30]!r} is no whole number of up to 18 digits")
    return int(text)


def folder(text: str) -> Path:
    """Read the name of a folder."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; '.' is this folder")
    return Path(text)


def add_data_flag(command: Parser, name: str, meaning: str, default: int) -> None:
    """Add a flag that decides what data there is."""
    command.add_argument(
        "--" + name.replace("_", "-"),
        dest=f"data.{name}",
        type=whole,
        default=argparse.SUPPRESS,
        metavar="N",
        help=f"{meaning} [{default}]",
    )


def add_flags(group: Any, config: type, names: list[str], preset: dict[str, Any]) -> None:
    """Add one flag per field; its help is the field's meaning and its default."""
    hints = get_type_hints(config, include_extras=True)
    for field in fields(config):
        if field.name not in names:
            continue
        kind, meaning = get_args(hints[field.name])
        default = preset.get(field.name, field.default)
        shown = "" if default in (None, MISSING) else f" [{default}]"
        options: dict[str, Any] = {
            "help": (meaning + shown).replace("%", "%%"),
            "dest": f"{config.__name__}.{field.name}",
            "default": argparse.SUPPRESS,
        }
        if kind is bool:
            options["action"] = argparse.BooleanOptionalAction
        elif get_origin(kind) is Literal:
            options["choices"] = get_args(kind)
        else:
            read = whole if kind is int else kind
            options |= {"type": read, "metavar": {int: "N", float: "X", str: "NAME"}[kind]}
        group.add_argument("--" + field.name.replace("_", "-"), **options)


def settings(args: argparse.Namespace, saved: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of both configurations: flags over file over checkpoint over preset."""
    file = read_config_file(args.config, allowed_fields(args.data)) if args.config else {}
    preset = PRESETS[args.preset or TASKS[args.data].presets[0]]
    result = {}
    for section, config in SECTIONS.items():
        base = saved.get(f"{section}_config", preset[section])
        if args.preset:  # on --resume: named again, and so compared with what the run began with
            base = base | preset[section]
        result[section] = base | file.get(section, {}) | given(args, config.__name__)
    return result


def given(args: argparse.Namespace, group: str) -> dict[str, Any]:
    """Return the flags of a group that the command line names."""
    prefix = group + "."
    return {k.removeprefix(prefix): v for k, v in vars(args).items() if k.startswith(prefix)}


def read_config_file(path: Path, allowed: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Read a TOML file with the sections [model] and [train]."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise ValueError(f"{path} is no TOML file: {error}") from None
    for section, values in content.items():
        if section not in allowed or not isinstance(values, dict):
            raise ValueError(
                f"{path}: [{section}] is unknown; use the sections [model] and [train]"
            )
        for name in values:
            if name not in allowed[section]:
                raise ValueError(
                    f"{path}: {name} is no field of [{section}]; "
                    f"choose from {', '.join(sorted(allowed[section]))}"
                )
    return content


def run_train(args: argparse.Namespace) -> None:
    """Train, and print how it went."""
    import torch

    from tfcourse.checkpoints import CheckpointError, load_checkpoint
    from tfcourse.runs import RunFiles
    from tfcourse.training import train

    # What is quick to refuse comes first: to read a mailbox may take minutes.
    saved = load_checkpoint(args.out) if args.resume else {}
    values = settings(args, saved)
    try:
        train_config = TrainConfig(**values["train"])
        ModelConfig(**values["model"] | {"vocab_size": 1, "patch_size": 0, "image_height": 0})
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not args.resume:
        RunFiles(args.out).check_unused()
    path = getattr(args, "path", None)
    architecture, data = make_task(args.data, data_values(args, saved), path)
    if saved and saved.get("architecture", "DecoderLM") != architecture.__name__:
        raise CheckpointError(
            f"{args.out} holds a run of another task: its model is a {saved['architecture']}, and "
            f"{args.data} trains a {architecture.__name__}"
        )
    torch.manual_seed(train_config.seed)
    model = architecture(ModelConfig(**values["model"] | data.model_fields()))
    tokens = model.config.vocab_size
    words = f", {tokens:,} different tokens" if tokens else ""
    print(f"{architecture.__name__}: {model.n_params():,} parameters{words}")
    history = train(
        model, data, train_config, args.out, resume=args.resume, progress=sys.stderr.isatty()
    )
    evaluation = history.evaluation
    if evaluation is not None and evaluation.standard_error is not None:
        print(f"standard error of the distance to the floor: {evaluation.standard_error:.4f}")
        if (evaluation.above_floor or 0.0) < -3 * evaluation.standard_error:
            warnings.warn(
                "below the floor, where no honest model can be: it has seen its answers "
                f"(causal={model.config.causal})",
                stacklevel=1,
            )
    print(history.summary())


def data_values(args: argparse.Namespace, saved: dict[str, Any]) -> dict[str, int]:
    """Return what decides the data: flags over checkpoint over defaults."""
    values = DATA | {"n_held_out": TASKS[args.data].n_held_out}
    if "data" in saved:
        from tfcourse.data.tokenizers import tokenizer_from_dict

        values["data_seed"] = saved["data"]["seed"]
        values["n_held_out"] = saved["data"]["n_held_out"]
        if args.data == "mailbox":
            values["max_len"] = saved["data"]["max_len"]
            values["vocab_size"] = tokenizer_from_dict(saved["data"]["tokenizer"]).vocab_size
    return values | given(args, "data")


def run_sample(args: argparse.Namespace) -> None:
    """Write texts with a trained model."""
    from tfcourse.architectures import DecoderLM
    from tfcourse.checkpoints import CheckpointError, load_model
    from tfcourse.data.tokenizers import BOS, EOS, tokenizer_from_dict
    from tfcourse.generation import generate

    if args.n < 1:
        raise ValueError(f"--n {args.n} asks for no text; use 1 or more")
    model, state = load_model(args.checkpoint)
    if not isinstance(model, DecoderLM):
        raise CheckpointError(f"{args.checkpoint} holds a {type(model).__name__}; give a DecoderLM")
    if "data" not in state:
        raise CheckpointError(
            f"{args.checkpoint} does not say how its tokens were made; give one of `tfcourse train`"
        )
    tokenizer = tokenizer_from_dict(state["data"]["tokenizer"])
    prompt = [BOS, *tokenizer.encode(args.prompt)]
    room = model.config.max_len - len(prompt)
    if room < 0:
        raise ValueError(
            f"--prompt has {len(prompt)} tokens, but the model reads at most "
            f"max_len={model.config.max_len}; shorten it"
        )
    new_tokens = room if args.max_new_tokens is None else args.max_new_tokens
    rows = generate(
        model,
        [prompt] * args.n,
        new_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        stop_tokens=[EOS],
        seed=args.seed,
    )
    for i, row in enumerate(rows):
        if i:
            print("---")
        print(tokenizer.decode(prompt + row))


def run_costs(args: argparse.Namespace) -> None:
    """Print what a model costs; its vocabulary and longest row are the emails' if not given."""
    from tfcourse.costs import cost_table
    from tfcourse.data.emails import EMAILS
    from tfcourse.data.tokenizers import WordTokenizer

    n_words = WordTokenizer(EMAILS.vocabulary).vocab_size
    emails = {"vocab_size": n_words, "max_len": 1 + EMAILS.max_words()}  # as EmailData has them
    config = ModelConfig(**emails | PRESETS[args.preset]["model"] | given(args, "ModelConfig"))
    n = config.max_len if args.context is None else args.context
    for flag, value in (("--context", n), ("--batch-size", args.batch_size)):
        if value < 1:
            raise ValueError(f"{flag} {value} leaves nothing to count; use 1 or more")
    if n > config.max_len:  # what the model itself would refuse
        raise ValueError(f"--context {n} exceeds max_len={config.max_len}; add --max-len {n}")
    print(cost_table(config, n, args.batch_size), end="")


if __name__ == "__main__":
    sys.exit(main())
