"""The program itself: one line and exit code 2 for a mistake, whatever the command."""

import subprocess
import sys
import warnings

import pytest

from skillscape import cli
from skillscape.cli import main
from skillscape.errors import Interrupted, LeftOut, Notice, UserError


def run_process(*arguments):
    return subprocess.run([sys.executable, "-m", "skillscape", *arguments], capture_output=True, text=True, check=False)


def test_the_package_runs_as_a_program():
    done = run_process("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: skillscape COMMAND")


def test_a_mistake_in_a_program_is_one_line_and_code_2(tmp_path):
    (tmp_path / "config.json").write_text("[]")
    done = run_process("evaluate", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    reason = "it does not hold an object; restore it or train again with --force"
    assert done.stderr == f"skillscape: {tmp_path}/config.json is damaged: {reason}.\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m skillscape methods | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


# What commands may end with


@pytest.fixture
def ending(monkeypatch):
    """Makes a command that ends with an exception."""

    def make(error):
        def command(arguments):
            raise error

        monkeypatch.setattr(cli, "methods_command", command)

    return make


def ended(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(["methods", *arguments])
    return stop.value.code, capsys.readouterr().err


def test_a_mistake_is_a_sentence(ending, capsys):
    ending(UserError("No."))
    assert ended(capsys) == (2, "skillscape: No.\n")


def test_debug_shows_the_error_of_python_behind_a_sentence(ending, capsys):
    error = UserError("No.")
    error.__cause__ = ValueError("the reason")
    ending(error)
    assert ended(capsys) == (2, "skillscape: No.\n")
    code, text = ended(capsys, "--debug")
    assert (code, text.splitlines()[0], text.splitlines()[-1]) == (2, "skillscape: No.", "ValueError: the reason")
    ending(UserError("No."))
    assert ended(capsys, "--debug") == (2, "skillscape: No.\n")


def test_an_interruption_says_how_to_go_on(ending, capsys):
    ending(Interrupted())
    code, text = ended(capsys)
    assert code == 130
    assert text == "\nskillscape: interrupted and saved; run the same command with --resume to continue.\n"
    ending(KeyboardInterrupt())
    assert ended(capsys) == (130, "")


def test_a_file_that_cannot_be_had_is_a_sentence(ending, capsys):
    ending(OSError(28, "No space left on device", "runs/x"))
    assert ended(capsys) == (2, "skillscape: runs/x: No space left on device.\n")


def test_a_fault_of_ours_is_not_hidden(ending):
    ending(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["methods"])


def test_notices_are_lines_of_our_own_each_told_once(monkeypatch, capsys):
    def command(arguments):
        for _ in range(2):
            warnings.warn("it is late", Notice, stacklevel=1)

    monkeypatch.setattr(cli, "methods_command", command)
    main(["methods"])
    assert capsys.readouterr().err == "skillscape: it is late\n"


def test_what_was_left_out_is_told_and_is_no_success(monkeypatch, capsys):
    def command(arguments):
        warnings.warn(LeftOut("left out: seed_7"), stacklevel=1)
        print("the rest")  # noqa: T201

    monkeypatch.setattr(cli, "methods_command", command)
    with pytest.raises(SystemExit) as stop:
        main(["methods"])
    assert stop.value.code == 2
    assert capsys.readouterr() == ("the rest\n", "skillscape: left out: seed_7\n")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("pretrian", "There is no command 'pretrian': did you mean 'pretrain'? `skillscape --help` lists them."),
        ("xyzzy", "known are methods"),
    ],
)
def test_an_unknown_command_is_one_line_that_helps(capsys, arguments, answer):
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert answer in line
