"""Videos of the skills of a run: an MP4 for each, and a contact sheet of them all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from skillscape.api import rollouts
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.filming import Filmer, Show
from skillscape.evaluation.rollouts import SHOWN
from skillscape.launch import enable_compilation_cache
from skillscape.plots.maze_video import DEFAULT_SIZE, FRAMES_PER_STEP, STEPS_PER_SECOND, maze_frames
from skillscape.plots.style import skill_colours
from skillscape.plots.video import Frame, SheetRow, Strip, contact_sheet, load_encoder, recording
from skillscape.reporting.open_loop import CONTEXT, OpenLoop
from skillscape.training.files import writing_to
from skillscape.training.policy import DRAWN_SKILLS, listed_skills
from skillscape.training.run import Run, run_folders
from skillscape.words import counted

SECONDS = 10
"""How much of an episode is shown if nothing else is asked for."""
LEAST_FRAMES_PER_SECOND = 25
"""Videos run in real time; steps are left out, evenly, where enough frames remain."""
SIZES = (64, 1920)
IMAGINED_STEPS, IMAGINED_RATE, IMAGINED_SIZE = 49, 10.0, 256
"""Steps of an imagined episode, its frames per second, and the side of its pictures, if nothing else is asked for."""


@dataclass(frozen=True)
class VideoRequest:
    """What to show, and how."""

    skill: int | Literal["all"] | None = None
    """The number of a skill, or all; None for the skill that a fine-tuning keeps, and all where there is none."""
    seed: int | None = None
    """Which of several seeds; the first if not given."""
    steps: int | None = None
    """Steps of an episode that are shown; if not given, ``SECONDS`` of them, in mazes all."""
    rollouts: int | None = None
    """Episodes of a skill in a maze, all in one video; as in training if not given."""
    size: int | None = None
    """Pixels of the longer side."""
    shadows: bool = False
    """Shadows, reflections and smooth edges, where MuJoCo draws."""
    imagined: bool = False
    """What a world model predicts beside what happens, in place of the skill alone."""

    def check(self) -> None:
        """Refuse numbers that make no video."""
        least, most = SIZES
        if self.size is not None and (not least <= self.size <= most or self.size % 2):
            raise UserError(f"--size must be an even number between {least} and {most}, not {self.size}.")
        for name, value in (("steps", self.steps), ("rollouts", self.rollouts)):
            if value is not None and value < 1:
                raise UserError(f"--{name} must be at least 1, not {value}.")


class Clip(NamedTuple):
    """One skill to show: its number, its label, the name of its files without an ending, the skill itself."""

    number: int
    label: str
    name: str
    skill: Float[np.ndarray, " z"]


class VideoJob(NamedTuple):
    """All that is settled before the first video: what draws, the speed, and the title of the contact sheet.

    ``play`` shows a clip frame by frame and returns its line on the sheet; ``hold``: seconds that a last frame stays.
    """

    drawn_by: str
    frames_per_second: float
    hold: float
    title: str
    play: Callable[[Clip, Show], str]
    close: Callable[[], None]


Plan: TypeAlias = tuple[list[Clip], Callable[[], VideoJob]]
"""The clips of a run, and what gets everything ready to play them."""
OnStart: TypeAlias = Callable[[str, int], None]
"""Called once, before the first video: what draws, and how many videos there will be."""
OnSkill: TypeAlias = Callable[[str], None]
"""Called with the label of a clip, before it is drawn."""


def make_videos(
    folder: Path, out: Path | None, request: VideoRequest, on_start: OnStart, on_skill: OnSkill
) -> Iterator[Path]:
    """Draw the skills of a run and give each file when it is complete; nothing is written before all is checked.

    Files go to ``out``, or to videos/ in the run's folder: skill_00.mp4, …, and skills.png with a row for each, or
    skill_00.png where a single one was asked for. Of several seeds it is the folder of the one that is shown.
    """
    request.check()
    run = _chosen_seed(folder, request.seed)
    out = out or run.folder / "videos"
    load_encoder()
    clips, prepare = _plan(run, request)
    enable_compilation_cache()
    job = prepare()
    rows = []
    try:
        with writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
        on_start(job.drawn_by, len(clips))
        for clip in clips:
            on_skill(clip.label)
            path, strip = out / f"{clip.name}.mp4", Strip()
            with recording(path, job.frames_per_second, hold=job.hold) as add:
                label = job.play(clip, _both(add, strip.add))
            rows.append(SheetRow(label, strip.frames()))
            yield path
    finally:
        job.close()
    # The sheet of a single skill must not replace the one of all.
    every = "imagined.png" if request.imagined else "skills.png"
    sheet = out / (f"{clips[0].name}.png" if isinstance(request.skill, int) else every)
    contact_sheet(rows, sheet, job.title)
    yield sheet


def _both(first: Show, second: Show) -> Show:
    def show(frame: Frame) -> None:
        first(frame)
        second(frame)

    return show


def _chosen_seed(folder: Path, seed: int | None) -> Run:
    folders = run_folders(folder)
    if seed is None:
        return Run(folders[0])
    seeds = {run.config.seed: run for run in map(Run, folders)}
    if seed not in seeds:
        raise UserError(f"There is no seed {seed}: {folder} has {', '.join(map(str, seeds))}.")
    return seeds[seed]


def _clips(run: Run, request: VideoRequest, drawn: int = DRAWN_SKILLS) -> list[Clip]:
    """Every skill, or ``drawn`` from a continuum, with the names that `skillscape evaluate` gives them."""
    space = run.config.reward.skills
    noun = "policy" if space.width == 0 else "draw" if space.count is None else "skill"
    skills = listed_skills(space, drawn)
    digits = max(2, len(str(len(skills) - 1)))  # so that the files sort like the skills
    every = [Clip(place, f"{noun} {place}", f"skill_{place:0{digits}d}", skill) for place, skill in enumerate(skills)]
    if run.config.strategy.mixes:
        if isinstance(request.skill, int):
            raise UserError(f"{run.folder} acts with a mixture of its skills; leave --skill out.")
        return [every[0]._replace(label="controller")]
    if isinstance(request.skill, int):
        if not 0 <= request.skill < len(every):
            has = f"skills 0 to {len(every) - 1}" if len(every) > 1 else "skill 0 only"
            raise UserError(f"There is no skill {request.skill}: {run.folder} has {has}.")
        return [every[request.skill]]
    kept = run.kept_skill() if request.skill is None and run.config.phase == "finetune" and space.width else None
    if kept is None:
        return every
    return [every[0]._replace(label="its skill", skill=kept) if space.count is None else every[int(np.argmax(kept))]]


def _title(run: Run, step: int) -> str:
    return f"{run.config.label} · {run.config.env} · {step:,} steps · seed {run.config.seed}"


def _plan(run: Run, request: VideoRequest) -> Plan:
    layout = run.layout
    if request.imagined:
        return _imagined(run, request)
    if layout is not None and run.config.task is None:
        return _in_maze(run, layout, request)
    return _in_env(run, request)


def _in_maze(run: Run, layout: Layout, request: VideoRequest) -> Plan:
    """All episodes of a skill in one video, drawn from the stochastic policy as they are measured."""
    if request.shadows:
        raise UserError("--shadows is for what MuJoCo draws, not for mazes; leave it out.")

    def prepare() -> VideoJob:
        positions = rollouts(run, per_skill=request.rollouts)
        positions = positions[:, :, : None if request.steps is None else request.steps + 1]
        colours, size = skill_colours(len(positions)), request.size or DEFAULT_SIZE

        def play(clip: Clip, show: Show) -> str:
            for frame in maze_frames(positions[clip.number], layout, colours[clip.number], size):
                show(frame)
            return clip.label

        title = f"{_title(run, run.trained_steps)} · {counted(positions.shape[1], 'episode')} each"
        # The finished trails stay for a moment.
        return VideoJob("matplotlib", STEPS_PER_SECOND * FRAMES_PER_STEP, 1.0, title, play, lambda: None)

    return _clips(run, request, SHOWN), prepare


def _in_env(run: Run, request: VideoRequest) -> Plan:
    """One deterministic episode of each skill, the first of those that `skillscape evaluate` plays."""
    config = run.config
    if request.rollouts is not None:
        raise UserError(f"--rollouts is for pre-training in mazes; on {config.env} a video shows one episode.")

    def prepare() -> VideoJob:
        trained = run.trained_policy()
        drawn = config.family.drawn(
            config.env,
            config.task,
            size=request.size,
            shadows=request.shadows,
            kwargs=config.env_kwargs,
            definition=config.definition,
        )
        drawn.env.reset(0)
        drawn.draw()  # what cannot be drawn is told now, before anything is written
        filmer = Filmer(drawn, config.backbone)
        rate = drawn.steps_per_second
        every = max(1, int(rate // LEAST_FRAMES_PER_SECOND))
        steps = min(request.steps or round(SECONDS * rate), drawn.env.spec.horizon)

        def play(clip: Clip, show: Show) -> str:
            earned = filmer.film(trained.params, clip.skill, show, seed=0, steps=steps, every=every)
            return clip.label if drawn.task is None else f"{clip.label}\nreturn {earned:,.1f}"

        returns = "" if drawn.task is None else f", returns of {drawn.task}"
        title = f"{_title(run, trained.step)} · the first {steps / rate:.3g} s{returns}"
        return VideoJob(drawn.drawn_by, rate / every, 0.0, title, play, filmer.close)

    return _clips(run, request), prepare


def _imagined(run: Run, request: VideoRequest) -> Plan:
    """What happens, the model's reconstruction of each frame, and its open-loop prediction after the first frames."""
    for name, given in (("rollouts", request.rollouts is not None), ("shadows", request.shadows)):
        if given:
            raise UserError(f"--{name} does not go with --imagined, which shows what the agent sees; leave it out.")
    clips = [clip._replace(name=f"{clip.name}-imagined") for clip in _clips(run, request)]

    def prepare() -> VideoJob:
        predicted = OpenLoop(run)
        steps = max(CONTEXT, min(request.steps or IMAGINED_STEPS, predicted.spec.horizon))
        larger = max(1, (request.size or IMAGINED_SIZE) // predicted.spec.obs_shape[0])

        def play(clip: Clip, show: Show) -> str:
            for views in zip(*predicted.play(clip.skill, steps), strict=True):
                show(np.concatenate([np.kron(view, np.ones((larger, larger, 1), np.uint8)) for view in views], axis=1))
            return clip.label

        title = f"{_title(run, predicted.step)} · real, as the model sees it, imagined after {CONTEXT} frames"
        return VideoJob("the agent's own images", IMAGINED_RATE, 1.0, title, play, predicted.close)

    return clips, prepare
