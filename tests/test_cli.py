"""The command line: what it prints, what it leaves behind, and how it says no."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import fields

import pytest
from helpers import tiny_lm

from tfcourse import cli
from tfcourse.checkpoints import load_checkpoint, save_checkpoint
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.tasks import FROM_DATA
from tfcourse.data.tasks import TASKS as TASKS_
from tfcourse.presets import PRESETS

SMALL = ["--n-held-out", "8", "--d-model", "16", "--n-layers", "1", "--n-heads", "2"]
SMALL += ["--batch-size", "4", "--warmup", "1"]
THREE_STEPS = [*SMALL, "--steps", "3", "--device", "cpu", "--precision", "fp32"]


@pytest.fixture(autouse=True)
def keep_warnings(monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    with warnings.catch_warnings():
        assert cli.main(["train", "emails", "--out", str(folder), *THREE_STEPS]) == 0
    return folder


def call(capsys, *args):
    """Run a command; return its exit status, its output and its errors."""
    capsys.readouterr()
    try:
        status = cli.main([str(a) for a in args])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    return status, out, err


# --- what it does


def test_a_run_ends_with_its_score_in_one_line(capsys, tmp_path):
    """Catches: a summary that neither a person nor grep can read."""
    status, out, err = call(capsys, "train", "emails", "--out", tmp_path / "a", *THREE_STEPS)
    assert status == 0 and err == ""
    last = out.splitlines()[-1]
    number = r"-?\d+\.\d{3}"
    assert re.fullmatch(
        rf"held-out loss {number}  entropy floor {number}  above floor {number}  "
        r"\(nats per token, \d+\.\dM tokens, \d+ s\)",
        last,
    )
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["checkpoint.pt", "metrics.jsonl"]
    lines = (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_every_field_reaches_the_run_through_its_flag(capsys, tmp_path):
    """One run with every flag away from its default. Catches: a flag that is read and dropped."""
    model = dict(
        d_model=24, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=20, norm="rmsnorm",
        norm_position="post", norm_eps=0.001, activation="silu", position="rope",
        rope_theta=500.0, bias=True, qkv_bias=False, head_bias=True, tie_embeddings=False,
        embedding_scale=True, dropout=0.25, causal=False, residual=True, residual_decay=0.5,
        attention=True, mlp=True,
    )  # fmt: skip
    train = dict(
        steps=2, batch_size=4, accumulate=2, lr=0.01, min_lr_ratio=0.5, warmup=1,
        weight_decay=0.2, beta1=0.8, beta2=0.9, clip=0.5, optimizer="muon", muon_lr=0.03,
        precision="fp32", compile=False, fsdp=False, device="cpu", seed=3, eval_every=1,
        save_every=1,
    )  # fmt: skip
    flags = []
    for name, value in (model | train).items():
        flag = name.replace("_", "-")
        flags += (
            [f"--{'' if value else 'no-'}{flag}"]
            if isinstance(value, bool)
            else [f"--{flag}", str(value)]
        )
    status, _, err = call(
        capsys, "train", "emails", "--n-held-out", 5, "--data-seed", 2, "--out", tmp_path, *flags
    )
    assert (status, err) == (0, "")
    state = load_checkpoint(tmp_path)
    assert {k: state["model_config"][k] for k in model} == model
    assert state["train_config"] == train
    assert state["data"]["seed"] == 2 and state["data"]["n_held_out"] == 5


def test_a_config_file_says_the_same_as_flags_and_flags_win(capsys, tmp_path):
    """Catches: a file that is read and ignored; a file that overrides the command."""
    file = tmp_path / "run.toml"
    file.write_text(
        "[model]\nd_model = 16\nn_layers = 1\nn_heads = 2\nbias = true\n"
        "[train]\nsteps = 3\nbatch_size = 4\nwarmup = 1\nlr = 1\ndevice = 'cpu'\n",
        encoding="utf-8-sig",  # with a byte order mark, as some editors on Windows save it
    )
    common = ["train", "emails", "--n-held-out", 8, "--config", file]
    status, _, err = call(capsys, *common, "--out", tmp_path / "a", "--lr", 0.5, "--no-bias")
    assert (status, err) == (0, "")
    state = load_checkpoint(tmp_path / "a")
    assert state["model_config"]["d_model"] == 16 and state["model_config"]["bias"] is False
    assert state["train_config"]["batch_size"] == 4 and state["train_config"]["lr"] == 0.5


def test_resuming_needs_no_flag_again_and_refuses_another(capsys, tmp_path, run_folder):
    """Catches: presets that come back in a resumed run; a changed flag that is ignored."""
    resume = ["train", "emails", "--out", run_folder, "--resume"]
    status, out, err = call(capsys, *resume)
    assert (status, err) == (0, "")
    assert "held-out loss" in out
    status, out, err = call(capsys, *resume, "--lr", 0.5)
    assert status == 1 and err.count("\n") == 1 and "lr was" in err
    status, out, err = call(capsys, *resume, "--preset", "tiny")  # not what it began with
    assert status == 1 and err.count("\n") == 1 and "d_model was 16 and is 128" in err


def test_a_mailbox_run_goes_on_with_the_data_that_it_began_with(capsys, tmp_path):
    """Catches: a vocabulary, a row length or a seed that falls back to its default."""
    box = tmp_path / "mail.mbox"
    box.write_text(
        "".join(
            f"From a@b Mon Jan 1 00:00:00 2024\nSubject: note {i}\n\nTea at {i} with {9 - i}.\n\n"
            for i in range(10)
        )
    )
    command = ["train", "mailbox", box, "--out", tmp_path / "run"]
    data = ["--vocab-size", 262, "--max-len", 8, "--data-seed", 3]
    model = ["--d-model", 16, "--n-layers", 1, "--n-heads", 2]
    steps = ["--steps", 2, "--batch-size", 2, "--warmup", 0]
    status, _, err = call(capsys, *command, *data, *model, *steps)
    assert (status, err) == (0, "")
    status, out, err = call(capsys, *command, "--resume")
    assert (status, err) == (0, "") and "262 different tokens" in out


TASKS = {
    "masked": ("words right", "token", []),
    "digits": ("accuracy", "image", ["--patch-size", 4]),
    "dates": ("exact match", "token", []),
}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_trains_resumes_and_says_its_score(capsys, tmp_path, task):
    """Catches: a task that the command knows and cannot run; a resume with other data."""
    name, unit, more = TASKS[task]
    command = ["train", task, "--out", tmp_path / "run"]
    small = ["--d-model", 16, "--n-layers", 1, "--n-heads", 2, "--n-held-out", 20, *more]
    status, out, err = call(
        capsys, *command, *small, "--steps", 2, "--warmup", 1, "--batch-size", 4
    )
    assert (status, err) == (0, "")
    line = rf"held-out loss \d+\.\d{{3}}  {name} \d+\.\d %  \(nats per {unit}, .*M {unit}s, \d+ s\)"
    assert re.fullmatch(line, out.splitlines()[-1]), out
    status, again, err = call(capsys, *command, "--resume")
    assert (status, err) == (0, "") and again.splitlines()[0] == out.splitlines()[0]
    status, _, err = call(capsys, "sample", "--checkpoint", tmp_path / "run")
    assert status == 1 and "give a DecoderLM" in err and err.count("\n") == 1


def test_a_flag_without_effect_is_no_flag(capsys, tmp_path):
    """Catches: `--causal` for an encoder, accepted and ignored."""
    for task, flag in (
        ("masked", "--causal"),
        ("digits", "--position"),
        ("emails", "--patch-size"),
    ):
        status, _, err = call(capsys, "train", task, "--out", tmp_path / "new", flag, 1)
        assert status == 2 and flag in err and err.count("\n") == 1


def test_sampling_repeats_with_its_seed(capsys, run_folder):
    """Catches: a seed that is not handed on; more or fewer texts than asked for."""
    sample = ["sample", "--checkpoint", run_folder, "--max-new-tokens", 12, "--n", 3]
    status, first, err = call(capsys, *sample, "--seed", 1)
    assert (status, err) == (0, "") and first.count("---\n") == 2
    assert call(capsys, *sample, "--seed", 1)[1] == first
    assert call(capsys, *sample, "--seed", 2)[1] != first
    greedy = call(capsys, *sample, "--temperature", 0)[1]
    assert (
        len(set(greedy.split("---\n"))) == 1 or len(set(map(str.strip, greedy.split("---")))) == 1
    )


def test_a_rank_without_other_processes_speaks(capsys, run_folder, monkeypatch):
    """Catches: no text and status 0 where a variable RANK means something else."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert call(capsys, "sample", "--checkpoint", run_folder, "--max-new-tokens", 1)[1]
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert call(capsys, "sample", "--checkpoint", run_folder, "--max-new-tokens", 1)[1] == ""


def test_a_sample_goes_on_from_its_prompt(capsys, run_folder):
    """Catches: a prompt that is not shown, or not read."""
    words = load_checkpoint(run_folder)["data"]["tokenizer"]["words"]
    word = next(w for w in words if w.isalpha())
    status, out, _ = call(
        capsys, "sample", "--checkpoint", run_folder / "checkpoint.pt", "--prompt", word
    )
    assert status == 0 and out.startswith(word)


# --- help


def parsers(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for child in action.choices.values():
                yield from parsers(child)


def test_every_flag_has_a_line_of_meaning_and_its_default():
    """Catches: a new flag without help; a default that only the code knows."""
    for parser in parsers(cli.make_parser()):
        for action in parser._actions:
            if action.dest == "help" or not action.option_strings or action.nargs == 0:
                continue  # a switch that is off says so by being one
            assert action.help and "\n" not in action.help, action.option_strings
            has_default = action.help.rstrip().endswith(("]", ")"))
            assert action.required or has_default or action.dest == "config", action.option_strings


@pytest.mark.parametrize("task", TASKS_)
@pytest.mark.parametrize(("section", "config"), [("model", ModelConfig), ("train", TrainConfig)])
def test_the_help_shows_the_value_that_a_run_without_flags_takes(capsys, section, config, task):
    """Catches: the field's own default shown where the preset has another."""
    status, out, _ = call(capsys, "train", task, "--help")
    text = " ".join(out.split())
    assert status == 0
    for field in fields(config):
        value = PRESETS[TASKS_[task].presets[0]][section].get(field.name, field.default)
        if field.name in FROM_DATA | TASKS_[task].without or value is None:
            continue
        flag = "--" + field.name.replace("_", "-")
        entry = re.split(rf" {flag}[ ,]", text)[-1]
        assert f"[{value}]" in re.split(r" --(?!no-)[a-z]", entry)[0], flag


def test_the_first_help_fits_a_screen_and_shows_lines_to_copy(capsys):
    """24 lines of 80 columns. Catches: a list of fifty flags as a greeting."""
    status, out, _ = call(capsys, "--help")
    lines = out.splitlines()
    assert status == 0 and len(lines) <= 24 and max(map(len, lines)) <= 80
    examples = [shlex.split(line) for line in lines if line.startswith("  tfcourse ")]
    assert len(examples) == 3
    for example in examples:  # they are commands that the parser takes
        cli.make_parser().parse_args(example[1:])
    assert "130 interrupted" in out


# --- how it says no


ASKED_WRONGLY = [
    ([], "COMMAND"),
    (["fly"], "fly"),
    (["train"], "DATA"),
    (["train", "emails"], "--out"),
    (["train", "emails", "--out", "{new}", "--steps", "many"], "--steps"),
    (["train", "emails", "--out", "{new}", "--wings", "2"], "--wings"),
    (["train", "emails", "--out", "{new}", "--st", "2"], "--st"),
    (["train", "emails", "--out", ""], "--out"),
    (["train", "emails", "--out", "{new}", "--seed", "9" * 20], "--seed"),
    (["train", "emails", "--out", "{new}", "--device", "meta"], "device='meta'"),
    (["train", "emails", "--out", "{new}", "--preset", "dates"], "--preset"),
    (["train", "digits", "--out", "{new}", "--patch-size", "0"], "patch_size=0"),
    (["train", "mailbox", "~nobody-here/x", "--out", "{new}"], "~nobody-here"),
    (["train", "emails", "--out", "{new}", "--norm", "batch"], "--norm"),
    (["train", "emails", "--out", "{new}", "--preset", "huge"], "--preset"),
    (["train", "emails", "--out", "{new}", "--n-heads", "5"], "n_heads=5"),
    (["train", "emails", "--out", "{new}", "--lr", "-1"], "lr=-1.0"),
    (["train", "emails", "--out", "{new}", "--lr", "nan"], "lr=nan"),
    (["train", "emails", "--out", "{new}", "--steps", "0"], "steps=0"),
    (["train", "emails", "--out", "{new}", "--steps", "5", "--warmup", "6"], "warmup=6"),
    (["train", "emails", "--out", "{new}", "--accumulate", "65"], "accumulate=65"),
    (["train", "emails", "--out", "{new}", "--dropout", "1"], "dropout=1.0"),
    (["train", "emails", "--out", "{new}", "--n-held-out", "0"], "n_held_out=0"),
    (["train", "emails", "--out", "{new}", "--device", "toaster"], "device='toaster'"),
    (["train", "emails", "--out", "{new}", "--device", "cpu", "--precision", "fp16"], "fp16"),
    (["train", "emails", "--out", "{new}", "--config", "{toml:[wings]}"], "[wings]"),
    (["train", "emails", "--out", "{new}", "--config", "{toml:[model]\nwings = 2}"], "wings"),
    (["train", "emails", "--out", "{new}", "--config", "{toml:model = 3}"], "[model]"),
    (["train", "emails", "--out", "{new}", "--config", "{toml:[model}"], "TOML"),
    (["train", "emails", "--out", "{run}"], "already holds a run"),
    (["train", "mailbox", "{new}", "--out", "{new}"], "{new}"),
    (["sample"], "--checkpoint"),
    (["sample", "--checkpoint", "{run}", "--n", "0"], "--n 0"),
    (["sample", "--checkpoint", "{run}", "--temperature", "-1"], "temperature=-1.0"),
    (["sample", "--checkpoint", "{run}", "--top-k", "0"], "top_k=0"),
    (["sample", "--checkpoint", "{run}", "--top-p", "0"], "top_p=0.0"),
    (["sample", "--checkpoint", "{run}", "--max-new-tokens", "9999"], "max_len"),
    (["sample", "--checkpoint", "{run}", "--max-new-tokens", "-1"], "max_new_tokens=-1"),
    (["sample", "--checkpoint", "{run}", "--prompt", "xyzzy"], "'xyzzy'"),
    (["sample", "--checkpoint", "{run}", "--prompt", ". " * 500], "max_len"),
]
WRONG_TYPE = (
    ["train", "emails", "--out", "{new}", "--config", "{toml:[train]\nlr = 'x'}"],
    "lr='x'",
)
COULD_NOT = [
    (["sample", "--checkpoint", "{readme}"], "cannot be read"),
    (["train", "dates", "--out", "{run}", "--resume"], "another task"),
    (["sample", "--checkpoint", "{new}"], "no checkpoint at"),
    (["sample", "--checkpoint", "{text}"], "cannot be read"),
    (["sample", "--checkpoint", "{cut}"], "cannot be read"),
    (["sample", "--checkpoint", "{weights}"], "tokens"),
    (["train", "emails", "--out", "{new}", "--resume"], "no checkpoint at"),
    (["train", "emails", "--out", "{new}", "--config", "{new}"], "{new}"),
    (["train", "emails", "--out", "{text}/below"], "{text}"),
    (["train", "emails", "--n-held-out", "9", "--out", "{run}", "--resume"], "n_held_out was 8"),
]


@pytest.mark.parametrize(
    ("args", "named", "want"),
    [
        *((a, n, 2) for a, n in ASKED_WRONGLY),
        *((a, n, 1) for a, n in COULD_NOT),
        # The hook would answer for the config: it checks the dataclass's own annotations.
        pytest.param(*WRONG_TYPE, 2, marks=pytest.mark.nohook),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    capsys, tmp_path, run_folder, args, named, want
):
    """Exit status 2 for a wrong question, 1 for a failure; no score, no file, no traceback.

    Catches: a traceback; a folder made before the check; 1 and 2 exchanged.
    """
    places = {name: tmp_path / name for name in ("new", "text", "cut", "weights", "toml")}
    places["readme"] = tmp_path / "readme"
    places["readme"].write_text("Read me\n")
    places["text"].write_text("hello\n" * 99)
    whole = (run_folder / "checkpoint.pt").read_bytes()
    places["cut"].write_bytes(whole[: len(whole) // 3])
    save_checkpoint(places["weights"], tiny_lm())
    places["run"] = run_folder
    filled = []
    for arg in args:
        if arg.startswith("{toml:"):
            places["toml"].write_text(arg[6:-1])
            arg = "{toml}"
        filled.append(re.sub(r"\{(\w+)\}", lambda m: str(places[m[1]]), arg))
    named = re.sub(r"\{(\w+)\}", lambda m: str(places[m[1]]), named)
    before = {p: p.read_bytes() for p in run_folder.iterdir()}

    status, out, err = call(capsys, *filled)
    assert status == want, err
    assert "held-out" not in out
    assert err.startswith("tfcourse") and err.count("\n") == 1 and err.endswith("\n"), err
    assert named in err, err
    assert "Traceback" not in err and "Errno" not in err
    assert not places["new"].exists()
    assert {p: p.read_bytes() for p in run_folder.iterdir()} == before


def test_a_warning_is_one_line_without_a_source_line(capsys, run_folder, monkeypatch):
    """Catches: a file name and a line of code on the user's screen."""
    import torch

    state = load_checkpoint(run_folder)
    state["n_threads"] += 1
    other = run_folder.with_name("other")
    other.mkdir()
    torch.save(state, other / "checkpoint.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = call(
            capsys, "train", "emails", "--n-held-out", 8, "--out", other, "--resume"
        )
    assert status == 0
    assert err.startswith("warning: ") and err.count("\n") == 1 and "threads" in err


# --- as a process of its own


def process(*args, code=None, **options):
    command = [sys.executable, *(["-c", code] if code else ["-m", "tfcourse.cli"])]
    return subprocess.Popen(
        [*command, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.nohook
def test_neither_import_nor_help_loads_torch():
    """Catches: seconds of waiting for a list of flags."""
    code = (
        "import sys, tfcourse; assert 'torch' not in sys.modules\n"
        "from tfcourse import cli\n"
        "try: cli.main(['train', 'emails', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    child = process(code=code)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err


@pytest.mark.nohook
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_saves_and_leaves_with_130(tmp_path):
    """The run then resumes. Catches: a traceback; work lost since the last save."""
    args = ["train", "emails", "--out", tmp_path / "run", *SMALL, "--steps", 100_000]
    child = process(*args)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and metrics.stat().st_size) and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130, err
    said = r"tfcourse: interrupted after step (\d+), saved; go on with --resume\n"
    match = re.fullmatch(said, err)
    assert match, err
    step = load_checkpoint(tmp_path / "run")["step"]
    assert 1 <= step == int(match[1]) == len(metrics.read_text().splitlines())


@pytest.mark.nohook
@pytest.mark.skipif(os.name != "posix", reason="limits on file size are POSIX's")
@pytest.mark.parametrize(("limit", "name"), [(4000, "checkpoint.pt"), (100, "metrics.jsonl")])
def test_a_full_disk_is_one_line_that_names_the_file(tmp_path, limit, name):
    """Catches: torch's own error as a traceback; a message without the file."""
    code = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from tfcourse.cli import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    child = process("train", "emails", "--out", tmp_path / "run", *THREE_STEPS, code=code)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 1, err
    assert err.count("\n") == 1 and name in err, err
    assert not list((tmp_path / "run").glob("*.tmp"))


@pytest.mark.nohook
@pytest.mark.skipif(os.name != "posix", reason="a pipe of the shell")
def test_a_reader_that_leaves_early_is_no_error_worth_a_traceback(run_folder):
    """`tfcourse sample … | head -1`. Catches: BrokenPipeError on the screen."""
    read, write = os.pipe()
    os.close(read)
    child = subprocess.Popen(
        [sys.executable, "-m", "tfcourse.cli", "sample", "--checkpoint", str(run_folder)],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    _, err = child.communicate(timeout=120)
    assert "Traceback" not in err and "BrokenPipe" not in err and child.returncode != 0
