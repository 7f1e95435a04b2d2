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
    """Render a video of each skill of a run (MP4), and a contact sheet. Ctrl-C keeps the videos that are complete."""

    run: tyro.conf.Positional[Path]
    """Run folder, with one seed or several, or zoo/NAME."""
    skill: str | None = None
    """Index of a skill, or all; if not given, the fine-tuned skill, or all skills after pre-training."""
    seed: int | None = None
    """Seed to render, of a run with several; the first if not given."""
    out: Path | None = None
    """Folder for the videos; if not given RUN/videos, RUN/seed_N/videos with several seeds, or runs/zoo-NAME/videos of
    zoo/NAME."""
    steps: Count | None = None
    """Episode steps to render; if not given, the first 10 seconds, or in mazes the whole episode."""
    rollouts: int | None = None
    """Episodes per skill, overlaid in one video (mazes only); --evaluation.episodes of the run if not given."""
    size: int | None = None
    """Longer side of the video in pixels; if not given, 320 for walker, quadruped and jaco, 480 for mazes."""
    shadows: bool = False
    """Render shadows, reflections and antialiasing (walker, quadruped, jaco); about 10 times slower without a GPU."""
    imagined: bool = False
    """Pixel runs: show the episode, its reconstruction, and the world model's open-loop prediction side by side."""
    env: str | None = None
    """Environment ID of the run; optional, except to allow the import of a gym/module:ID whose module you trust."""


def video_command(arguments: list[str]) -> None:
    """Render the videos of a run and print their paths."""
    options = tyro.cli(VideoOptions, args=arguments, prog="skillscape video")
    skill = _parsed(options.skill)
    allow_run(options.run, options.env)

    from skillscape.reporting.video import VideoRequest, make_videos

    request = VideoRequest(
        skill, options.seed, options.steps, options.rollouts, options.size, options.shadows, options.imagined
    )
    countdowns: list[Countdown] = []

    def start(renderer: str, videos: int) -> None:
        print(f"rendering with {_NAMES.get(renderer, renderer)}", file=sys.stderr)
        countdowns.append(Countdown(videos))

    for path in make_videos(options.run, options.out, request, start, lambda label: countdowns[0].next(label)):
        print(path, flush=True)


_NAMES = {"egl": "EGL", "osmesa": "OSMesa", "glfw": "GLFW"}


def _parsed(skill: str | None) -> int | Literal["all"] | None:
    if skill is None or skill == "all":
        return "all" if skill else None
    if not skill.isdecimal():
        raise UserError(f"--skill cannot be {skill!r}; give the index of a skill, or all.")
    return int(skill)
