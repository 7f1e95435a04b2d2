"""The command line: the only package that parses or prints. One file per group of commands."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from skillscape.cli.evaluate import evaluate_command, plot_command
from skillscape.cli.info import backbones_command, doctor_command, envs_command, methods_command
from skillscape.cli.plugins import load_plugins
from skillscape.cli.report import report_command
from skillscape.cli.reproduce import reproduce_command
from skillscape.cli.sweep import sweep_command
from skillscape.cli.train import finetune_command, pretrain_command, train_command
from skillscape.cli.video import video_command
from skillscape.errors import Interrupted, LeftOut, Notice, UserError, choose

USAGE = """usage: skillscape COMMAND …

Unsupervised skill discovery: train an agent without reward, look at the skills it found.

  methods             what can be trained, one line each
  envs                where it can be trained, one line each
  backbones           the RL algorithms to train with, one line each
  doctor              what works on this machine, and what to install where something does not
  pretrain METHOD     train without reward             skillscape pretrain sd3 --env maze/square_a --out runs/sd3
  finetune RUN        learn a task with the skills     skillscape finetune runs/sd3-walker --task walker_walk
  train               learn a task from scratch        skillscape train --env walker --task walker_walk
  evaluate RUN        measure a run                    skillscape evaluate runs/sd3 --json
  plot RUN            pictures of a run                skillscape plot runs/sd3
  video RUN           films of the skills of a run     skillscape video runs/sd3-walker
  report RUNS…        one page about many runs         skillscape report runs --out report
  reproduce NAME      a figure of the paper            skillscape reproduce maze --seeds 10
  sweep SPEC          a grid of runs, local or on Ray  skillscape sweep sweeps/smoke.toml --dry-run

`skillscape COMMAND --help` explains a command; `skillscape pretrain METHOD --help` lists every setting.
`--plugin MODULE` with any command imports a module of yours first, which registers methods, backbones or environments.
`--debug` with any command also shows the error of Python behind a sentence of skillscape.
"""

DEBUG = "--debug"
"""Allowed anywhere, with every command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on standard error and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = DEBUG in given
    given = [argument for argument in given if argument != DEBUG]
    try:
        given = load_plugins(given)
        with _notices_printed() as left_out:
            _dispatch(given)
        if left_out:
            sys.exit(2)
    except UserError as error:
        print(f"skillscape: {error}", file=sys.stderr)
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        sys.exit(2)
    except Interrupted:
        # Whole experiments go on by themselves; a single run has to be told, so that nothing is overwritten by mistake.
        how = "run the same command" if given[:1] == ["reproduce"] else "run the same command with --resume"
        print(f"\nskillscape: stopped and saved; {how} to go on.", file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; point stdout elsewhere so that Python's own flush stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        print(f"skillscape: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)


@contextmanager
def _notices_printed() -> Iterator[list[str]]:
    """Print each of the library's notices once, as a line of our own; what is yielded names what was left out."""
    told: list[str] = []
    left_out: list[str] = []
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401
            if not issubclass(category, Notice):
                usual(message, category, *place, **more)
            elif str(message) not in told:
                told.append(str(message))
                # In place of a progress line that stands there.
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
        "doctor": doctor_command,
        "pretrain": pretrain_command,
        "finetune": finetune_command,
        "train": train_command,
        "evaluate": evaluate_command,
        "plot": plot_command,
        "video": video_command,
        "report": report_command,
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
