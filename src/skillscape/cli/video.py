"""``skillscape video``."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from skillscape.cli.display import Countdown
from skillscape.cli.parsing import Count
from skillscape.cli.plugins import allow_run
from skillscape.errors import UserError


@dataclass(frozen=True)
class VideoOptions:
    """Film the skills of a run: an MP4 for each and a contact sheet. Ctrl-C keeps the films that are complete."""

    run: tyro.conf.Positional[Path]
    """Run folder, of one seed or of several."""
    skill: str | None = None
    """Number of a skill, or all. If not given: the skill that a fine-tuning kept, otherwise all."""
    seed: int | None = None
    """Which of several seeds; the first if not given."""
    out: Path | None = None
    """Folder for the films; if not given RUN/videos, of several seeds RUN/seed_N/videos."""
    steps: Count | None = None
    """Steps of the episode to film; if not given 10 seconds of it, in mazes all."""
    rollouts: int | None = None
    """Mazes: episodes of a skill, all in one film; as in training if not given."""
    size: int | None = None
    """Pixels of the longer side; 320 for walker, quadruped and jaco, 480 for mazes."""
    shadows: bool = False
    """Walker, quadruped, jaco: draw shadows, reflections and smooth edges; about ten times slower without a graphics
    card."""
    imagined: bool = False
    """Runs from images: what happens, what the world model makes of it, what it expects of the same actions."""
    env: str | None = None
    """Environment of the run, said again to allow the import of its module: gym/module:ID of a run that you trust."""


def video_command(arguments: list[str]) -> None:
    """Film a run and print where the films are."""
    options = tyro.cli(VideoOptions, args=arguments, prog="skillscape video")
    skill = _parsed(options.skill)
    allow_run(options.run, options.env)

    from skillscape.reporting.video import VideoRequest, make_videos

    request = VideoRequest(
        skill, options.seed, options.steps, options.rollouts, options.size, options.shadows, options.imagined
    )
    countdowns: list[Countdown] = []

    def start(renderer: str, films: int) -> None:
        print(f"drawing with {_NAMES.get(renderer, renderer)}", file=sys.stderr)
        countdowns.append(Countdown(films))

    for path in make_videos(options.run, options.out, request, start, lambda label: countdowns[0].next(label)):
        print(path, flush=True)


_NAMES = {"egl": "EGL", "osmesa": "OSMesa", "glfw": "GLFW"}


def _parsed(skill: str | None) -> int | Literal["all"] | None:
    if skill is None or skill == "all":
        return "all" if skill else None
    if not skill.isdecimal():
        raise UserError(f"--skill must be the number of a skill, or all, not {skill!r}.")
    return int(skill)
