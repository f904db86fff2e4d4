"""Two processes on one machine: what they compute together is what one computes alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from processes import RUNS, evaluate_emails, gradient, halt, run_counting, run_dates

from tfcourse.checkpoints import load_checkpoint
from tfcourse.data.batching import EmailData
from tfcourse.distributed import ALONE

# One group: run by one worker, so that the runs of the fixture `folder` are made once.
pytestmark = [
    *(pytest.mark.slow, pytest.mark.nohook, pytest.mark.timeout(600)),
    pytest.mark.xdist_group("two processes"),
]

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)}
SMALL = ["--d-model", "16", "--n-layers", "1", "--n-heads", "2", "--n-held-out", "8"]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As in the processes, so that sums are formed in the same order."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_thread):
    """Let two processes make all runs; return the folder of their results."""
    folder = tmp_path_factory.mktemp("runs")
    for end in ("ddp", "fsdp"):
        halt(folder / f"one to {end}")
    command = [*TORCHRUN, str(HERE / "processes.py"), str(folder)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def seen(folder):
    """What each process had at the end of each run."""
    return [json.loads((folder / f"rank {rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def alone(folder):
    """The same runs by one process, each when it is asked for."""
    done = {}

    def get(name, **fields):
        if name not in done:
            run = run_dates if name == "dates" else run_counting
            done[name] = run(folder / f"alone {name}", **fields)
        return folder / f"alone {name}", done[name]

    return get


def apart(a, b):
    """Return the largest difference between the weights of two runs."""
    one, other = load_checkpoint(a)["model"], load_checkpoint(b)["model"]
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one_does(name, folder, seen, alone):
    """20 steps; rows with unequal numbers of targets, and one more row here than there.

    Catches: a mean over processes or parts where a sum was meant; rows that both take or none;
    gradients that stay apart; a held-out loss of one process's rows; an update of a sharded matrix
    as if it were whole. Muon: in bfloat16 the weights were 5e-3 apart.
    """
    muon = {"optimizer": "muon"} if "muon" in name else {}
    there, expected = alone(muon.get("optimizer", "plain"), **muon)
    assert apart(folder / name, there) < 1e-5
    for process in seen:
        for what in ("losses", "norms", "held_out", "n_tokens"):
            assert process[name][what] == pytest.approx(expected[what], rel=2e-4, abs=1e-5), what
    assert expected["losses"][-1] < 0.8 * expected["losses"][0]


@pytest.mark.parametrize("name", [*RUNS, "ddp dropout", "fsdp dropout"])
def test_all_processes_end_with_the_same_model_and_history(name, seen):
    """Bit for bit. Catches: a process that clips, or schedules, by its own numbers."""
    first, second = (process[name] for process in seen)
    assert {**first, "share": 0} == {**second, "share": 0}


def test_processes_score_the_held_out_rows_together(seen):
    """Seven rows in batches of two, with the standard error of their distance to the floor.

    Catches: rows in another order than their floors; a batch that nobody or everybody scores.
    """
    assert [process["emails"] for process in seen] == [evaluate_emails(ALONE)] * 2


def test_ddp_and_fsdp_agree(folder):
    """Catches: gradients that are averaged twice or not at all."""
    for ending in ("", " muon", " accumulate", " dates"):
        assert apart(folder / f"ddp{ending}", folder / f"fsdp{ending}") < 1e-5


def test_fsdp_keeps_about_half_on_each_of_two(seen):
    """Catches: a model that is copied and called sharded."""
    shares = [process["fsdp"]["share"] for process in seen]
    assert sum(shares) == pytest.approx(1.0)
    assert all(0.45 < share < 0.55 for share in shares)
    assert seen[0]["ddp"]["share"] == 1.0


@pytest.mark.parametrize("name", ["ddp dates", "fsdp dates"])
def test_an_encoder_decoder_trains_and_writes_on_two(name, folder, seen, alone):
    """Catches: masks that are not split with the rows; writing with sharded weights."""
    there, expected = alone("dates", steps=5)
    assert apart(folder / name, there) < 1e-5
    for process in seen:
        assert process[name]["held_out"] == pytest.approx(expected["held_out"], abs=1e-5)
        assert process[name]["score"] == list(expected["score"])


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("parts", [1, 3])
def test_the_gradient_is_that_of_the_whole_batch(kind, parts, folder, seen):
    """1 × N = N × 1 = accumulated, with 1 to 20 targets a row; a process may even have none.

    Catches: each process or part divided by its own number of targets.
    """
    loss, expected = gradient("alone", 1, ALONE)
    _, accumulated = gradient("alone", parts, ALONE)
    found = torch.load(folder / f"gradient {kind} {parts}.pt", weights_only=True)
    assert expected.norm() > 1
    for vector in (found, accumulated):
        assert (vector - expected).abs().max() < 1e-6 * max(1.0, float(expected.abs().max()))
    assert [process[f"gradient {kind} {parts}"] for process in seen] == pytest.approx([loss] * 2)


def test_gradients_are_exchanged_in_the_last_part_alone(seen):
    """Four parts, one bucket. Catches: no_sync around the backward pass alone: too late."""
    assert [process["exchanges"] for process in seen] == [1, 1]


@pytest.mark.parametrize("start", ["ddp", "fsdp", "one"])
@pytest.mark.parametrize("end", ["ddp", "fsdp"])
def test_a_checkpoint_moves_between_engines_and_numbers_of_processes(start, end, folder, alone):
    """Stopped after 10 of 20 steps. Catches: the state of one process's optimizer in the file; a
    moment that is not split again; rows that are seen twice or never after the move.
    """
    assert apart(folder / f"{start} to {end}", alone("plain")[0]) < 1e-5


def test_one_process_goes_on_with_what_two_began(folder, alone):
    """Catches: a file that needs as many processes as wrote it."""
    with pytest.warns(UserWarning, match="had processes=2 and goes on with 1"):
        run_counting(folder / "to one", resume=True)
    assert apart(folder / "to one", alone("plain")[0]) < 1e-5


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_with_dropout_a_resumed_run_ends_bit_equal(name, folder):
    """Catches: one process's random state for all; a state that is not restored."""
    assert apart(folder / f"{name} dropout", folder / f"{name} dropout again") == 0.0


def test_processes_drop_different_values(folder):
    """Catches: one seed for all, with which rows of both processes lose the same features."""
    states = load_checkpoint(folder / "ddp dropout")["rng"]
    assert len(states) == 2
    assert not torch.equal(states[0]["torch"], states[1]["torch"])


def test_one_process_writes(folder):
    """Catches: two writers, which leave each record twice."""
    lines = (folder / "ddp" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 21))


def test_a_batch_that_does_not_fill_all_processes_is_refused(seen):
    """Catches: a process without rows, which waits forever or divides by zero."""
    for process in seen:
        assert "use at least 2" in process["refusal"]
        assert "use at least 8" in process["refusal parts"]


def test_a_loss_that_breaks_on_one_process_ends_all_at_that_step(seen):
    """Catches: one process that stops, and one that waits for it."""
    for process in seen:
        assert process["blow-up"].startswith("step 1: the loss is not finite")


@pytest.mark.parametrize("n_processes", [1, 2, 3, 4, 7])
def test_processes_share_the_rows_of_every_batch(n_processes):
    """Over three passes each row is some process's, once, and orders differ.

    Catches: windows that overlap; an order that repeats; a last row that nobody takes.
    """
    data, orders = EmailData(n_held_out=1), []
    for step in range(3):
        batch = data.train_batch(step, 17)
        shares = batch.chunk(n_processes)
        assert torch.equal(torch.cat([share.inputs for share in shares]), batch.inputs)
        assert {len(s.inputs) for s in shares} <= {17 // n_processes, -(-17 // n_processes)}
        orders.append(batch.inputs.tolist())
    assert orders[0] != orders[1] != orders[2]


def launch(out, *options):
    """Start `tfcourse train` on two processes, in a process group of its own."""
    train = ["-m", "tfcourse.cli", "train", "emails", "--out", str(out), *SMALL, *options]
    return subprocess.Popen(
        [*TORCHRUN, *train],
        env=ENVIRONMENT | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def workers(launcher):
    """Return the process numbers of the launcher's two workers, by rank."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            environment = (entry / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            continue
        if parent == launcher.pid:
            ranks = [part[5:] for part in environment if part.startswith(b"RANK=")]
            found |= {int(rank): int(entry.name) for rank in ranks}
    return found


def wait_for_steps(out, n, launcher):
    """Wait until the run has recorded n steps."""
    for _ in range(1200):
        if (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").read_text().count(
            "\n"
        ) >= n:
            return
        assert launcher.poll() is None, launcher.communicate()
        time.sleep(0.1)
    raise AssertionError("no steps after two minutes")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers by /proc")
@pytest.mark.parametrize("victim", [0, 1])
def test_killing_one_process_ends_the_other_with_a_clear_message(victim, tmp_path):
    """Within 30 s, the last checkpoint intact. Catches: a wait for the killed one; a traceback."""
    launcher = launch(tmp_path, "--steps", "100000", "--save-every", "5")
    try:
        wait_for_steps(tmp_path, 6, launcher)
        numbers = workers(launcher)
        assert sorted(numbers) == [0, 1]
        os.kill(numbers[victim], signal.SIGKILL)
        _, said = launcher.communicate(timeout=30)
    finally:
        if launcher.poll() is None:
            os.killpg(launcher.pid, signal.SIGKILL)
    assert launcher.returncode != 0
    assert re.search(r"^(\[\w+\]:)?tfcourse: another process of this run has ended", said, re.M)
    assert "--resume" in said
    assert not workers(launcher)
    assert load_checkpoint(tmp_path)["step"] % 5 == 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers by /proc")
def test_an_interrupt_stops_all_processes_after_the_same_step_and_saves(tmp_path):
    """One process gets it, as from a job's manager; then the launcher ends both, a second time.

    Catches: a process that stops alone; a second signal that tears the save apart.
    """
    launcher = launch(tmp_path, "--steps", "100000", "--save-every", "0")
    try:
        wait_for_steps(tmp_path, 3, launcher)
        for number in workers(launcher).values():
            os.kill(number, signal.SIGINT)
        launcher.send_signal(signal.SIGINT)
        _, said = launcher.communicate(timeout=60)
    finally:
        if launcher.poll() is None:
            os.killpg(launcher.pid, signal.SIGKILL)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert load_checkpoint(tmp_path)["step"] == len(lines) == json.loads(lines[-1])["step"]
    assert f"interrupted after step {len(lines)}, saved" in said


def test_the_command_trains_on_two_processes_and_reports_once(tmp_path):
    """Catches: every line printed by each process."""
    launcher = launch(tmp_path, "--steps", "3", "--warmup", "1")
    said, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, errors
    assert said.count("held-out loss") == said.count("parameters") == 1
    assert load_checkpoint(tmp_path)["step"] == 3
