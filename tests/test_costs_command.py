"""`tfcourse costs`: what it prints, and how it says no."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tfcourse import cli
from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.costs import (
    cost_table,
    flops_per_token,
    kv_cache_bytes,
    rule_of_thumb,
    training_memory,
)
from tfcourse.data.batching import EmailData
from tfcourse.presets import PRESETS

GPT2 = ModelConfig(**PRESETS["gpt2"]["model"])
LLAMA = ModelConfig(**PRESETS["llama3-8b"]["model"])


def call(capsys, *args):
    """Run `tfcourse costs`; return its exit status, its lines by table and row, and its errors."""
    capsys.readouterr()
    try:
        status = cli.main(["costs", *map(str, args)])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    table, cells = "", {}
    for line in out.splitlines()[2:]:
        name, *values = re.split(r"\s{2,}", line.strip())
        if not line.startswith(" "):
            table = name
        cells[table, name] = values
    return status, cells, err


def test_the_table_of_llama_says_what_the_functions_say(capsys):
    """Catches: columns swapped; a part or total missing; the context not passed on."""
    args = ("--preset", "llama3-8b", "--context", 8192, "--batch-size", 2)
    status, cells, err = call(capsys, *args)
    assert (status, err) == (0, "")
    assert cells["parameters", "total"] == ["8,030,261,248", "100.0%"]
    assert cells["parameters", "embedding"] == ["525,336,576", "6.5%"]
    assert cells["FLOPs per token", "FLOPs per token"] == [
        *("in full", "causal mean", "rule of thumb")
    ]
    flops = [flops_per_token(LLAMA, 8192), flops_per_token(LLAMA, 8192, causal_mean=True)]
    flops.append(flops_per_token(rule_of_thumb(LLAMA), 8192))
    for part in flops[0]:
        assert cells["FLOPs per token", part] == [f"{column[part]:,}" for column in flops]
    for row, times in {"forward": 1, "backward": 2}.items():
        expected = [f"{times * sum(column.values()):,}" for column in flops]
        assert cells["FLOPs per token", row] == expected
    assert cells["share of blocks' FLOPs", "scores"] == ["23.5%", "13.3%", "25.0%"]
    assert cells["crossover, tokens", "scores"] == ["21,504", "43,007", "16,384"]
    assert cells["crossover, tokens", "attention"] == ["16,384", "32,767", "8,192"]
    cache = [f"{kv_cache_bytes(LLAMA, 2 * 8192, p):,}" for p in ("fp32", "bf16")]
    assert cells["KV cache, bytes", "all tokens"] == cache
    assert cells["KV cache, bytes", "one token"] == ["262,144", "131,072"]
    memory = [training_memory(LLAMA, 2, 8192, p) for p in ("fp32", "bf16")]
    for part in memory[0]:
        assert cells["training step, bytes", part] == [f"{column[part]:,}" for column in memory]


@pytest.mark.nohook
@pytest.mark.parametrize("preset", ["llama3-8b", "tiny"])
def test_neither_torch_nor_a_model_is_needed(preset):
    """Catches: 32 GB for a model that is only counted; seconds of imports."""
    code = (
        "import sys; from tfcourse.cli import main\n"
        f"assert main(['costs', '--preset', '{preset}']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("preset", ["tiny", "base"])
def test_a_preset_without_a_vocabulary_takes_that_of_the_emails(capsys, preset):
    """Catches: a vocabulary of no words; a max_len of the config's default; flags that lose."""
    status, cells, err = call(capsys, "--preset", preset)
    assert (status, err) == (0, "")
    emails = EmailData(0, 1).model_fields()
    config = ModelConfig(**PRESETS[preset]["model"], **emails)
    assert cells["parameters", "total"][0] == f"{DecoderLM(config).n_params():,}"

    def embedded(*flags):
        _, cells, _ = call(capsys, "--preset", preset, "--position", "learned", *flags)
        counts = [cells["parameters", part][0] for part in ("embedding", "positions")]
        return [int(count.replace(",", "")) // config.d_model for count in counts]

    assert embedded() == [emails["vocab_size"], emails["max_len"]]
    assert embedded("--vocab-size", 9) == [9, emails["max_len"]]
    assert embedded("--max-len", 70) == [emails["vocab_size"], 70]


def test_without_a_mask_there_is_no_causal_mean(capsys):
    """Catches: half of the scores given for a model that needs all."""
    _, cells, _ = call(capsys, "--no-causal")
    assert cells["FLOPs per token", "FLOPs per token"] == ["in full", "rule of thumb"]


@pytest.mark.parametrize("flag", ["--no-attention", "--no-mlp", "--n-layers=0"])
def test_a_model_without_a_part_has_a_table_too(capsys, flag):
    """Catches: a division by the work of attention, or of blocks that are not there."""
    status, _, err = call(capsys, flag)
    assert (status, err) == (0, "")


def test_attention_that_always_does_more_crosses_at_one_token():
    """Catches: a crossover at a negative number of tokens."""
    table = cost_table(replace(GPT2, d_ff=768), 8, 1)
    (row,) = re.findall(r"(?m)^crossover.*\n.*\n  attention(.*)$", table)
    assert row.split() == ["1", "1", "1,536"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--context", "0"], ("--context 0", "1 or more")),
        (["--batch-size", "-1"], ("--batch-size -1", "1 or more")),
        (["--context", "x"], ("--context", "'x'")),
        (["--context", "51"], ("--context 51", "max_len=50", "--max-len 51")),
        (["--preset", "gpt2", "--context", "1025"], ("--context 1025", "--max-len 1025")),
        (["--n-kv-heads", "3"], ("n_kv_heads=3", "1, 2 or 4")),
        (["--dropout", "0.1"], ("dropout=0.1", "use 0")),
        (["--preset", "digits"], ("--preset", "tiny")),
        (["--vocab-size", "0"], ("vocab_size=0",)),
    ],
)
def test_bad_input_is_one_line_that_names_the_flag_and_the_fix(capsys, flags, parts):
    """A model refuses what is longer than its max_len, whatever its positions, so this does too.

    Catches: a traceback; a table of zeros; positions that a learned table does not have.
    """
    status, cells, err = call(capsys, *flags)
    assert status == 2 and not cells
    assert err.count("\n") == 1, err
    for part in parts:
        assert part in err, err
