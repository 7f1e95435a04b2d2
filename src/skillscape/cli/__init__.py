"""The command line: the only package that parses or prints. One file per group of commands."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tyro._errors import on_parse_error

from skillscape.cli.control import control_command
from skillscape.cli.evaluate import evaluate_command, plot_command
from skillscape.cli.goals import goals_command
from skillscape.cli.info import backbones_command, doctor_command, envs_command, methods_command
from skillscape.cli.mistakes import UnknownOption, explained, refuse
from skillscape.cli.plugins import load_plugins
from skillscape.cli.report import report_command
from skillscape.cli.reproduce import reproduce_command
from skillscape.cli.sweep import sweep_command
from skillscape.cli.train import finetune_command, pretrain_command, train_command
from skillscape.cli.video import video_command
from skillscape.cli.zoo import export_command, zoo_command
from skillscape.errors import Interrupted, LeftOut, Notice, UserError, choose

USAGE = """usage: skillscape COMMAND …

Unsupervised skill discovery: pre-train an agent without task reward, fine-tune and evaluate its skills.

  methods             list the methods
  envs                list the environments
  backbones           list the RL algorithms
  zoo                 list the trained runs that come with the package; zoo/NAME is a RUN of the commands below
  doctor              check the installation, and say what to install
  pretrain METHOD     learn skills without task reward skillscape pretrain sd3 --env maze/square_a --out runs/sd3
  finetune RUN        fine-tune skills on a task       skillscape finetune runs/sd3-walker --task walker_walk
  control RUN         choose frozen skills for a task  skillscape control runs/metra-ant --task ant_multi_goals
  train               learn a task from scratch        skillscape train --env walker --task walker_walk
  evaluate RUN        measure the skills of a run      skillscape evaluate runs/sd3 --json
  goals RUN           zero-shot goal reaching          skillscape goals runs/metra-ant
  plot RUN            figures of a run                 skillscape plot runs/sd3
  video RUN           videos of the skills of a run    skillscape video runs/sd3-walker
  report RUNS…        HTML report on many runs         skillscape report runs --out report
  export RUN OUT      a run without training state     skillscape export runs/sd3 shared/sd3
  reproduce NAME      a figure of the paper            skillscape reproduce maze --seeds 10
  sweep SPEC          a grid of runs, local or on Ray  skillscape sweep sweeps/smoke.toml --dry-run

`skillscape COMMAND --help` explains a command; `skillscape pretrain METHOD --help` lists every option of a method.
`--plugin MODULE`, with any command, imports a module of yours that registers methods, backbones or environments.
`--debug`, with any command, prints the Python traceback behind an error message.
"""

DEBUG = "--debug"
"""A flag of every command: print the traceback behind an error message."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on standard error and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    given = [argument for argument in given if argument != DEBUG]
    try:
        given = load_plugins(given)
        with _notices_printed() as left_out, on_parse_error(refuse):
            _dispatch(given)
        if left_out:
            sys.exit(2)
    except UserError as error:
        print(f"skillscape: {error}", file=sys.stderr)
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        sys.exit(2)
    except UnknownOption as unknown:
        print(f"skillscape: {explained(unknown, lambda: _dispatch([*given, '--help']))}", file=sys.stderr)
        sys.exit(2)
    except Interrupted:
        # `reproduce` resumes by itself; a single run needs --resume, so that nothing is overwritten by mistake.
        how = "run the same command" if given[:1] == ["reproduce"] else "run the same command with --resume"
        print(f"\nskillscape: interrupted and saved; {how} to continue.", file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; redirect stdout so that Python's flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        print(f"skillscape: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)


@contextmanager
def _notices_printed() -> Iterator[list[str]]:
    """Print each of the library's notices once, as one line; yields the list of those that name skipped runs."""
    printed: list[str] = []
    left_out: list[str] = []
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401
            if not issubclass(category, Notice):
                usual(message, category, *place, **more)
            elif str(message) not in printed:
                printed.append(str(message))
                # Overwrite the progress line on a terminal.
                clear = "\r\033[K" if sys.stderr.isatty() else ""
                print(f"{clear}skillscape: {message}", file=sys.stderr, flush=True)
                if issubclass(category, LeftOut):
                    left_out.append(str(message))

        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield left_out


def _dispatch(arguments: list[str]) -> None:
    commands = {
        "methods": methods_command,
        "envs": envs_command,
        "backbones": backbones_command,
        "zoo": zoo_command,
        "doctor": doctor_command,
        "pretrain": pretrain_command,
        "finetune": finetune_command,
        "control": control_command,
        "train": train_command,
        "evaluate": evaluate_command,
        "goals": goals_command,
        "plot": plot_command,
        "video": video_command,
        "report": report_command,
        "export": export_command,
        "reproduce": reproduce_command,
        "sweep": sweep_command,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return
    if arguments[0] == "--version":
        from skillscape import __version__

        print(f"skillscape {__version__}")
        return
    choose("command", arguments[0], commands, "skillscape --help")
    commands[arguments[0]](arguments[1:])
