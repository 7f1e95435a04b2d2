"""Looking at arguments before they are parsed, and telling how far a command is."""

import pytest

from skillscape.cli import display
from skillscape.cli.display import Countdown, first_sentence, positional, print_table, value_of, values_of, without


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("--env walker", "walker"),
        ("--env=walker", "walker"),
        ("--steps 5 --env walker --seed 1", "walker"),
        ("--env", "none"),
        ("--envs walker", "none"),
        ("--env.noise 0.5", "none"),
        ("", "none"),
        ("--env=", ""),
    ],
)
def test_a_flag_is_found_before_the_others_are_parsed(arguments, value):
    assert value_of(arguments.split(), "--env", "none") == value


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("--env.kwargs a=1 b=-2 --steps 5", ["a=1", "b=-2"]),
        ("--env.kwargs=a=1 --steps 5", ["a=1"]),
        ("--steps 5 --env.kwargs a=1", ["a=1"]),
        ("--env.kwargs --steps 5", []),
        ("--steps 5", []),
    ],
)
def test_all_values_of_a_flag_are_found(arguments, values):
    assert values_of(arguments.split(), "--env.kwargs") == values


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("runs/x", "runs/x"),
        ("runs/x --task walk", "runs/x"),
        ("--task walk runs/x", "runs/x"),
        ("--task=walk runs/x", "runs/x"),
        ("--resume runs/x", "runs/x"),
        ("--force --steps 5 runs/x", "runs/x"),
        ("--task walk", None),
        ("--help", None),
        ("-h", None),
        ("", None),
    ],
)
def test_the_run_is_found_wherever_it_stands(arguments, found):
    assert positional(arguments.split(), ("--resume", "--force")) == found


def test_where_results_go_can_be_left_out():
    assert without(["sd3", "--out", "x", "--seeds", "2", "--out=y"], ("--out",)) == ["sd3", "--seeds", "2"]


def test_tables_have_two_columns(capsys):
    print_table([("a", "first"), ("longer", "second")])
    assert capsys.readouterr().out == "a       first\nlonger  second\n"


def test_a_description_is_the_first_paragraph_on_one_line():
    assert first_sentence("One\n    line.\n\n    And more.") == "One line."
    assert first_sentence(None) == ""


def test_what_is_left_is_told_once_a_part_is_done(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display.time, "perf_counter", lambda: now[0])
    countdown = Countdown(3)
    countdown.next("skill 0")
    now[0] = 10.0
    countdown.next("skill 1")
    assert capsys.readouterr().err == "skill 0 · 1 of 3\nskill 1 · 2 of 3 · about 20 s left\n"
