"""The command line: `tfcourse train` and `tfcourse sample`."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tomllib
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from tfcourse import __version__
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.presets import PRESETS

EXAMPLES = """\
examples:
  tfcourse train emails --preset tiny --out runs/emails
  tfcourse sample --checkpoint runs/emails --prompt "Subject: report"
  tfcourse train mailbox ~/mail.mbox --out runs/mine

exit status: 0 done, 1 could not, 2 asked wrongly, 130 interrupted
"""
DATA = {"data_seed": 0, "n_held_out": 2000, "vocab_size": 4096, "max_len": 256}
"""What decides the data, where neither a flag nor the checkpoint does."""

FROM_DATA = ("vocab_size", "max_len")
"""Fields of the model that the data set decides."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors fit one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    import torch  # here, so that --help need not wait for it

    from tfcourse.checkpoints import CheckpointError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack a letter of the text
            stream.reconfigure(errors="replace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning  # restored with the filters
            args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        again = "; go on with --resume" if str(interrupt).endswith(" saved") else ""
        print(f"{parser.prog}: {interrupt or 'interrupted'}{again}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = error.strerror or error
        where = f"{error.filename}: " if error.filename else ""
        print(f"{parser.prog}: {where}{reason}", file=sys.stderr)
        return 1
    except torch.OutOfMemoryError:
        print(
            f"{parser.prog}: the GPU's memory is full; raise --accumulate or lower --batch-size",
            file=sys.stderr,
        )
        return 1
    except (CheckpointError, FloatingPointError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:  # a value that the package refuses
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def _print_warning(message: Warning | str, *rest: Any, **more: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def make_parser() -> Parser:
    """Build the parser; every flag of a configuration comes from the field that it sets."""
    parser = Parser(
        prog="tfcourse",
        description="Train and sample the course's transformer.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tfcourse {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a model").add_subparsers(
        title="data sets", required=True, metavar="DATA"
    )
    emails = train.add_parser("emails", help="generated emails with an exactly known entropy")
    add_data_flag(emails, "n_held_out", "held-out emails")
    mailbox = train.add_parser("mailbox", help="your own mail; nothing leaves this machine")
    mailbox.add_argument("path", type=Path, metavar="PATH", help="an mbox file or a maildir")
    add_data_flag(mailbox, "vocab_size", "number of different tokens")
    add_data_flag(mailbox, "max_len", "longest row, tokens")
    for name, command in (("emails", emails), ("mailbox", mailbox)):
        command.set_defaults(run=run_train, data=name)
        add_data_flag(command, "data_seed", "seed of the data")
        command.add_argument(
            "--out", type=Path, required=True, metavar="DIR", help="folder of the run's files"
        )
        command.add_argument("--resume", action="store_true", help="go on from the checkpoint")
        command.add_argument(
            "--preset",
            choices=list(PRESETS),
            help="tiny for a CPU, base for a GPU; gives the values in brackets [tiny]",
        )
        command.add_argument(
            "--config",
            type=Path,
            metavar="FILE",
            help="a TOML file with sections [model] and [train]; flags win over it",
        )
        for section, config in (("model", ModelConfig), ("train", TrainConfig)):
            add_flags(command.add_argument_group(section), config, PRESETS["tiny"][section])

    sample = commands.add_parser("sample", help="write text with a trained model")
    sample.set_defaults(run=run_sample)
    sample.add_argument(
        "--checkpoint", type=Path, required=True, metavar="PATH", help="a run's folder or its file"
    )
    sample.add_argument("--prompt", default="", metavar="TEXT", help="how the text begins [empty]")
    sample.add_argument("--n", type=int, default=1, metavar="N", help="number of texts [1]")
    sample.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="tokens per text [to the end of max_len]"
    )
    sample.add_argument(
        "--temperature", type=float, default=1.0, metavar="T", help="0 takes the likeliest [1.0]"
    )
    sample.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest [all]")
    sample.add_argument(
        "--top-p", type=float, metavar="P", help="draw from the likeliest that reach P [1.0]"
    )
    sample.add_argument("--seed", type=int, metavar="N", help="repeat the same draws [random]")
    return parser


def add_data_flag(command: Parser, name: str, meaning: str) -> None:
    """Add a flag that decides what data there is."""
    command.add_argument(
        "--" + name.replace("_", "-"),
        dest=f"data.{name}",
        type=int,
        default=argparse.SUPPRESS,
        metavar="N",
        help=f"{meaning} [{DATA[name]}]",
    )


def add_flags(group: Any, config: type, preset: dict[str, Any]) -> None:
    """Add one flag per field; its help is the field's meaning and its default."""
    hints = get_type_hints(config, include_extras=True)
    for field in fields(config):
        if config is ModelConfig and field.name in FROM_DATA:
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
            options |= {"type": kind, "metavar": {int: "N", float: "X", str: "NAME"}[kind]}
        group.add_argument("--" + field.name.replace("_", "-"), **options)


def settings(args: argparse.Namespace, saved: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of both configurations: flags over file over checkpoint over preset."""
    if saved and args.preset:
        raise ValueError("--preset is for a new run; --resume takes the checkpoint's settings")
    file = read_config_file(args.config) if args.config else {}
    preset = PRESETS[args.preset or "tiny"]
    result = {}
    for section, config in (("model", ModelConfig), ("train", TrainConfig)):
        base = saved.get(f"{section}_config", preset[section])
        result[section] = base | file.get(section, {}) | given(args, config.__name__)
    return result


def given(args: argparse.Namespace, group: str) -> dict[str, Any]:
    """Return the flags of a group that the command line names."""
    prefix = group + "."
    return {k.removeprefix(prefix): v for k, v in vars(args).items() if k.startswith(prefix)}


def read_config_file(path: Path) -> dict[str, dict[str, Any]]:
    """Read a TOML file with the sections [model] and [train]."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    allowed = {
        "model": {f.name for f in fields(ModelConfig)} - set(FROM_DATA),
        "train": {f.name for f in fields(TrainConfig)},
    }
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

    from tfcourse.architectures import DecoderLM
    from tfcourse.checkpoints import load_checkpoint
    from tfcourse.runs import RunFiles
    from tfcourse.training import train

    # What is quick to refuse comes first: to read a mailbox may take minutes.
    saved = load_checkpoint(args.out) if args.resume else {}
    values = settings(args, saved)
    try:
        train_config = TrainConfig(**values["train"])
        ModelConfig(**values["model"] | dict.fromkeys(FROM_DATA, 1))
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not args.resume:
        RunFiles(args.out).check_unused()
    data = make_data(args, saved)
    values["model"] |= {"vocab_size": data.vocab_size, "max_len": data.max_len}
    model_config = ModelConfig(**values["model"])
    torch.manual_seed(train_config.seed)
    model = DecoderLM(model_config)
    print(f"{model.n_params():,} parameters, {data.vocab_size:,} different tokens")
    history = train(
        model, data, train_config, args.out, resume=args.resume, progress=sys.stderr.isatty()
    )
    evaluation = history.evaluation
    if evaluation is not None and evaluation.standard_error is not None:
        print(f"standard error of the distance to the floor: {evaluation.standard_error:.4f}")
    print(history.summary())


def make_data(args: argparse.Namespace, saved: dict[str, Any]) -> Any:
    """Build the data set that the command names, from flags over checkpoint over defaults."""
    from tfcourse.data.batching import EmailData, TextData
    from tfcourse.data.mailbox import read_mailbox
    from tfcourse.data.tokenizers import tokenizer_from_dict, train_bpe

    values = dict(DATA)
    if "data" in saved:
        values["data_seed"] = saved["data"]["seed"]
        values["n_held_out"] = saved["data"]["n_held_out"]
        values["max_len"] = saved["data"]["max_len"]
        values["vocab_size"] = tokenizer_from_dict(saved["data"]["tokenizer"]).vocab_size
    values |= given(args, "data")
    if args.data == "emails":
        return EmailData(values["data_seed"], values["n_held_out"])
    texts, report = read_mailbox(args.path)
    print(report)
    tokenizer = train_bpe(texts, values["vocab_size"])
    return TextData(texts, tokenizer, values["max_len"], values["data_seed"])


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


if __name__ == "__main__":
    sys.exit(main())
