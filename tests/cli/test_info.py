"""What there is and what works, one line each; and the help of every command."""

import pytest

from skillscape import backbones
from skillscape.cli import main
from skillscape.envs.registry import families
from skillscape.objectives import trainable

METHODS = ("cic", "dads", "diayn", "sd3")


def shown(capsys, *arguments):
    """What a command that succeeds prints."""
    capsys.readouterr()
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def helped(capsys, *arguments):
    """The help of a command, without its lines and boxes."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--help"])
    assert stop.value.code in (0, None)
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("flag", ["--help", "-h", None])
def test_help_names_every_command(capsys, flag):
    text = shown(capsys, *([flag] if flag else []))
    for command in (
        *("methods", "envs", "backbones", "doctor", "pretrain", "finetune", "train", "evaluate", "plot", "video"),
        *("report", "reproduce", "sweep"),
    ):
        assert f"\n  {command} " in text
    assert "--plugin MODULE" in text


@pytest.mark.parametrize(
    "command",
    [
        *("methods", "envs", "backbones", "doctor", "evaluate", "plot", "video", "report", "finetune", "train"),
        *("pretrain diayn", "pretrain sd3"),
    ],
)
def test_every_command_explains_itself(capsys, command):
    assert f"usage: skillscape {command}" in helped(capsys, *command.split())


def test_help_on_pretrain_lists_the_methods_that_can_be_trained(capsys):
    text = shown(capsys, "pretrain", "--help")
    assert all(f"\n{method}" in text for method in METHODS)
    assert "extrinsic" not in text


def test_help_on_a_method_lists_its_settings(capsys):
    text = helped(capsys, "pretrain", "sd3")
    for flag in (
        *("--objective.deviation-weight", "--backbone.learning-rate", "--evaluation.every", "--evaluation.episodes"),
        *("--env.noise", "--env.kwargs", "--env.copies", "--backbone", "--snapshots", "--log", "--seeds", "--resume"),
        "--force",
    ):
        assert f"{flag} " in text or f"{flag}," in text


@pytest.mark.parametrize(
    ("arguments", "settings", "others"),
    [
        (
            "pretrain diayn --env maze/square_a",
            ["--backbone.clip"],
            ["--backbone.width", "--backbone.replay.sequence-length"],
        ),
        ("pretrain diayn --env walker", ["--backbone.nstep"], ["--backbone.clip "]),
        ("pretrain diayn --env walker --backbone sac", ["--backbone.initial-temperature"], ["--backbone.nstep"]),
        ("pretrain diayn --env walker-pixels", ["--backbone.replay.sequence-length"], ["--backbone.clip "]),
        ("train --env walker", ["--backbone.nstep"], ["--objective", "--env.noise"]),
        ("train --backbone sac", ["--backbone.hidden"], ["--backbone.clip "]),
    ],
)
def test_settings_are_those_of_what_would_be_trained(capsys, arguments, settings, others):
    text = helped(capsys, *arguments.split())
    assert all(setting in text for setting in settings)
    assert not any(setting in text for setting in others)


@pytest.mark.parametrize(
    ("arguments", "defaults"),
    [
        ("pretrain diayn", ["--backbone.episodes INT Episodes collected in parallel for one iteration. (default: 50)"]),
        (
            "pretrain diayn --preset smoke",
            ["--backbone.episodes INT Episodes collected in parallel for one iteration. (default: 8)"],
        ),
        ("pretrain diayn --env walker --preset smoke", ["--objective.number-of-skills INT", "(default: 16)"]),
    ],
)
def test_defaults_are_those_of_the_preset(capsys, arguments, defaults):
    text = helped(capsys, *arguments.split())
    assert all(default in text for default in defaults)


def test_methods_lists_every_method_with_a_line(capsys):
    lines = shown(capsys, "methods").splitlines()
    assert [line.split()[0] for line in lines] == list(trainable())
    assert all(len(line.split()) > 4 for line in lines)
    assert "extrinsic" not in "".join(lines)


def test_envs_lists_every_family_with_its_lines(capsys):
    lines = shown(capsys, "envs").splitlines()
    rows = [name for family in families().values() for name, _ in family.describe()]
    assert [line.split()[0] for line in lines] == rows
    assert {"maze/square_a", "maze/PATH.txt", "maze-pixels/NAME", "walker", "walker-pixels", "gym/ID"} <= set(rows)
    assert all(len(line.split()) > 4 for line in lines)


def test_backbones_lists_every_backbone_with_a_line(capsys):
    lines = shown(capsys, "backbones").splitlines()
    assert [line.split()[0] for line in lines] == list(backbones.registry()) == ["ddpg", "dreamer", "ppo", "sac"]
    assert all(len(line.split()) > 2 for line in lines)


def test_the_version_is_told(capsys):
    assert shown(capsys, "--version").split() == ["skillscape", "0.1.0"]
