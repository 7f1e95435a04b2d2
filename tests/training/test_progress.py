"""What a user who waits is told."""

import os
import pty
import sys
import types
from contextlib import suppress
from pathlib import Path

import pytest

from skillscape.training import progress
from skillscape.training.progress import Progress


def some_run(seed=0):
    config = types.SimpleNamespace(seed=seed)
    return types.SimpleNamespace(config=config, end=2000, due=lambda step: step % 800 == 0 or step == 2000)


def test_the_first_line_says_where_the_run_goes(capsys):
    Progress(Path("runs/x"), 1).announce()
    assert capsys.readouterr().err == (
        "training in runs/x; compiling first, which takes up to a minute the first time\n"
    )


def test_progress_is_a_plain_line_per_evaluation_where_there_is_no_terminal(capsys):
    display = Progress(Path("runs/x"), 1)
    for step in (400, 800, 1200, 1600, 2000):
        display.on_progress(some_run(), step, f"{step} steps", {"reward": 1.0, "coverage": 0.5, "loss": 9.0})
    assert capsys.readouterr().err.splitlines() == [
        f"{step} steps · reward 1.00 · coverage 0.50" for step in (800, 1600, 2000)
    ]


def test_progress_is_told_between_evaluations_that_are_far_apart(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    display = Progress(Path("runs/x"), 1)
    for step, now[0] in ((100, 30.0), (200, 61.0), (300, 100.0), (400, 121.5)):
        display.on_progress(some_run(), step, f"{step} steps", {})
    assert [line.split(" · ")[0] for line in capsys.readouterr().err.splitlines()] == ["200 steps", "400 steps"]


def test_progress_of_several_seeds_counts_those_that_are_done(capsys):
    display = Progress(Path("runs/x"), 2)
    for seed in (4, 5):
        display.on_progress(some_run(seed), 2000, "2000 steps", {})
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("1/2 seeds done · seed 4 · 2000 steps")
    assert second.startswith("2/2 seeds done · seed 5 · 2000 steps")


def read_to_the_end(reader):
    """All that was written to a terminal that has been closed; Linux ends it with an error instead of an empty read."""
    text = b""
    with suppress(OSError):
        while piece := os.read(reader, 10_000):
            text += piece
    os.close(reader)
    return text.decode()


@pytest.mark.parametrize("finished", [False, True])
def test_progress_rewrites_one_line_on_a_terminal_even_if_the_output_goes_elsewhere(monkeypatch, finished):
    reader, writer = pty.openpty()
    with open(writer, "w") as terminal:  # noqa: PTH123  a file descriptor
        monkeypatch.setattr(sys, "stderr", terminal)
        display = Progress(Path("runs/x"), 1)
        display.on_progress(some_run(), 400, "400 steps", {"reward": 1.0})
        if finished:
            display.finish("done")
    text = read_to_the_end(reader)
    assert text.startswith("\r\x1b[K400 steps")
    assert ("\r\ndone (0 s)" in text) == finished


def test_the_last_line_says_how_long_it_took(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    display = Progress(Path("runs/x"), 1)
    now[0] = 12.4
    display.finish("trained 1 seed")
    assert capsys.readouterr().err == "trained 1 seed (12 s)\n"
