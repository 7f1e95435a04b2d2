"""Videos of the skills of a run: an MP4 for each, and a contact sheet of them all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, PyTree

from skillscape.api import rollouts
from skillscape.backbones.base import Backbone
from skillscape.envs.base import RenderedEnv
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.evaluation.evaluators import named_skills
from skillscape.evaluation.returns import EpisodeRunner
from skillscape.evaluation.rollouts import SAMPLED_SKILLS
from skillscape.formatting import counted
from skillscape.launch import enable_compilation_cache
from skillscape.plots.maze_video import DEFAULT_SIZE, FRAMES_PER_STEP, STEPS_PER_SECOND, maze_frames
from skillscape.plots.style import skill_colours
from skillscape.plots.video import Frame, FrameSampler, SheetRow, contact_sheet, load_encoder, recording
from skillscape.reporting.open_loop import CONTEXT, OpenLoop
from skillscape.training.files import writing_to
from skillscape.training.policy import DRAWN_SKILLS
from skillscape.training.run import Run, run_folders
from skillscape.zoo import output_folder

OnFrame: TypeAlias = Callable[[Frame], None]
"""Called with each rendered frame."""

SECONDS = 10
"""Default length of a video in seconds."""
MIN_FRAMES_PER_SECOND = 25
"""Videos run in real time; steps are skipped evenly while this frame rate is kept."""
SIZES = (64, 1920)
OPEN_LOOP_STEPS, OPEN_LOOP_RATE, OPEN_LOOP_SIZE = 49, 10.0, 256
"""Defaults of open-loop videos: steps of the episode, frames per second, side of a frame in pixels."""


@dataclass(frozen=True)
class VideoRequest:
    """Which episodes to record, and how."""

    skill: int | Literal["all"] | None = None
    """Number of a skill, or all; None: the fine-tuned skill if there is one, otherwise all."""
    seed: int | None = None
    """Which of several seeds; None: the first."""
    steps: int | None = None
    """Recorded steps of an episode; None: ``SECONDS`` of it, in mazes all."""
    rollouts: int | None = None
    """Episodes of a skill in a maze, all in one video; None: as many as in training."""
    size: int | None = None
    """Pixels of the longer side."""
    shadows: bool = False
    """Whether MuJoCo draws shadows, reflections and smooth edges."""
    imagined: bool = False
    """Record open-loop predictions of the world model beside the real frames."""

    def check(self) -> None:
        """Raise ``UserError`` for numbers out of range."""
        least, most = SIZES
        if self.size is not None and (not least <= self.size <= most or self.size % 2):
            raise UserError(f"--size must be an even number between {least} and {most}, not {self.size}.")
        for name, value in (("steps", self.steps), ("rollouts", self.rollouts)):
            if value is not None and value < 1:
                raise UserError(f"--{name} must be at least 1, not {value}.")


class Clip(NamedTuple):
    """One skill to record: its number, its label, the name of its files without suffix, its vector."""

    number: int
    label: str
    name: str
    skill: Float[np.ndarray, " z"]


class VideoJob(NamedTuple):
    """The clips of a run with an environment that is ready to record them."""

    clips: list[Clip]
    renderer: str
    frames_per_second: float
    hold: float
    """Seconds for which the last frame is repeated."""
    title: str
    """Title of the contact sheet."""
    record: Callable[[Clip, OnFrame], str]
    """Passes on the frames of a clip and returns its label on the contact sheet."""
    close: Callable[[], None]


def make_videos(
    folder: Path,
    out: Path | None,
    request: VideoRequest,
    on_start: Callable[[str, int], None],
    on_skill: Callable[[str], None],
) -> Iterator[Path]:
    """Record the skills of a run; yields each file when it is complete. Nothing is written before all is checked.

    Files go to ``out``, or to videos/ in the folder of the seed: skill_00.mp4, …, and skills.png with a row for each,
    or skill_00.png for a single skill. ``on_start`` is called once with the renderer and the number of videos,
    ``on_skill`` with the label of each clip before it is recorded.
    """
    request.check()
    run = _select_seed(folder, request.seed)
    out = out or output_folder(run.folder) / "videos"
    load_encoder()
    enable_compilation_cache()
    job = _prepare(run, request)
    rows = []
    try:
        with writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
        on_start(job.renderer, len(job.clips))
        for clip in job.clips:
            on_skill(clip.label)
            path = out / f"{clip.name}.mp4"
            rows.append(_record(job, clip, path))
            yield path
    finally:
        job.close()
    # The sheet of a single skill must not replace the sheet of all.
    all_skills = "imagined.png" if request.imagined else "skills.png"
    sheet = out / (f"{job.clips[0].name}.png" if isinstance(request.skill, int) else all_skills)
    contact_sheet(rows, sheet, job.title)
    yield sheet


def _record(job: VideoJob, clip: Clip, path: Path) -> SheetRow:
    sampler = FrameSampler()
    with recording(path, job.frames_per_second, hold=job.hold) as add:

        def on_frame(frame: Frame) -> None:
            add(frame)
            sampler.add(frame)

        label = job.record(clip, on_frame)
    return SheetRow(label, sampler.frames())


def _select_seed(folder: Path, seed: int | None) -> Run:
    folders = run_folders(folder)
    if seed is None:
        return Run(folders[0])
    seeds = {run.config.seed: run for run in map(Run, folders)}
    if seed not in seeds:
        raise UserError(f"There is no seed {seed}: {folder} has {', '.join(map(str, seeds))}.")
    return seeds[seed]


def _clips(run: Run, request: VideoRequest, sampled: int = DRAWN_SKILLS) -> list[Clip]:
    """The requested skills, with the names that `skillscape evaluate` gives them; ``sampled``: of a continuum."""
    space = run.config.reward.skills
    skills = named_skills(space, sampled)
    digits = max(2, len(str(len(skills) - 1)))  # so that the files sort like the skills
    clips = [
        Clip(index, label, f"skill_{index:0{digits}d}", skill) for index, (label, skill) in enumerate(skills.items())
    ]
    if run.config.strategy.uses_controller:
        if isinstance(request.skill, int):
            raise UserError(f"{run.folder} acts with a mixture of its skills; leave --skill out.")
        return [clips[0]._replace(label="controller")]
    if isinstance(request.skill, int):
        if not 0 <= request.skill < len(clips):
            available = f"skills 0 to {len(clips) - 1}" if len(clips) > 1 else "skill 0 only"
            raise UserError(f"There is no skill {request.skill}: {run.folder} has {available}.")
        return [clips[request.skill]]
    tuned = run.kept_skill() if request.skill is None and run.config.phase == "finetune" and space.width else None
    if tuned is None:
        return clips
    return [clips[0]._replace(label="its skill", skill=tuned) if space.count is None else clips[int(np.argmax(tuned))]]


def _prepare(run: Run, request: VideoRequest) -> VideoJob:
    if request.imagined:
        return _open_loop_job(run, request)
    if run.layout is not None and run.config.task is None:
        return _maze_job(run, run.layout, request)
    return _episode_job(run, request)


def _title(run: Run, step: int) -> str:
    return f"{run.config.label} · {run.config.env} · {step:,} steps · seed {run.config.seed}"


def _maze_job(run: Run, layout: Layout, request: VideoRequest) -> VideoJob:
    """All stochastic episodes of a skill in one video, as in its measures."""
    if request.shadows:
        raise UserError("--shadows applies to MuJoCo environments, not to mazes; leave it out.")
    clips = _clips(run, request, SAMPLED_SKILLS)
    positions = rollouts(run, per_skill=request.rollouts)
    positions = positions[:, :, : None if request.steps is None else request.steps + 1]
    colours, size = skill_colours(len(positions)), request.size or DEFAULT_SIZE

    def record(clip: Clip, on_frame: OnFrame) -> str:
        for frame in maze_frames(positions[clip.number], layout, colours[clip.number], size):
            on_frame(frame)
        return clip.label

    title = f"{_title(run, run.trained_steps)} · {counted(positions.shape[1], 'episode')} each"
    # The finished trails are held for a second.
    return VideoJob(clips, "matplotlib", STEPS_PER_SECOND * FRAMES_PER_STEP, 1.0, title, record, lambda: None)


def _episode_job(run: Run, request: VideoRequest) -> VideoJob:
    """One deterministic episode of each skill, the first of those that `skillscape evaluate` runs."""
    config = run.config
    if request.rollouts is not None:
        raise UserError(f"--rollouts is for pre-training in mazes; on {config.env} a video shows one episode.")
    clips = _clips(run, request)
    trained = run.trained_policy()
    rendered = config.family.rendered(
        config.env,
        config.task,
        size=request.size,
        shadows=request.shadows,
        kwargs=config.env_kwargs,
        definition=config.definition,
    )
    rendered.env.reset(0)
    rendered.render()  # fails now, before anything is written, if nothing can be rendered
    rate = rendered.steps_per_second
    stride = max(1, int(rate // MIN_FRAMES_PER_SECOND))
    steps = min(request.steps or round(SECONDS * rate), rendered.env.spec.horizon)

    def record(clip: Clip, on_frame: OnFrame) -> str:
        options = {"seed": 0, "steps": steps, "stride": stride}
        episode_return = record_episode(rendered, config.backbone, trained.params, clip.skill, on_frame, **options)
        return clip.label if rendered.task is None else f"{clip.label}\nreturn {episode_return:,.1f}"

    returns = "" if rendered.task is None else f", returns of {rendered.task}"
    title = f"{_title(run, trained.step)} · the first {steps / rate:.3g} s{returns}"
    return VideoJob(clips, rendered.renderer, rate / stride, 0.0, title, record, rendered.close)


def record_episode(
    rendered: RenderedEnv,
    backbone: Backbone[Any, Any],
    params: PyTree,
    skill: Float[np.ndarray, " z"],
    on_frame: OnFrame,
    *,
    seed: int,
    steps: int,
    stride: int,
) -> float:
    """Return of the deterministic episode of a seed with a fixed skill, which is run to its end.

    Renders the initial state and every ``stride``-th of the first ``steps`` steps, and the last step of an episode that
    ends before. params: see ``Backbone.policy_params``.
    """

    def on_step(step: int, done: bool) -> None:
        if step <= steps and (step % stride == 0 or done):
            on_frame(rendered.render())

    return float(EpisodeRunner([rendered.env], backbone).run(params, skill[None], [seed], on_step).returns[0])


def _open_loop_job(run: Run, request: VideoRequest) -> VideoJob:
    """Real frames, their reconstructions, and open-loop predictions, side by side."""
    for name, given in (("rollouts", request.rollouts is not None), ("shadows", request.shadows)):
        if given:
            raise UserError(
                f"--{name} does not go with --imagined, which shows the agent's observations; leave it out."
            )
    clips = [clip._replace(name=f"{clip.name}-imagined") for clip in _clips(run, request)]
    open_loop = OpenLoop(run)
    steps = max(CONTEXT, min(request.steps or OPEN_LOOP_STEPS, open_loop.env.spec.horizon))
    factor = max(1, (request.size or OPEN_LOOP_SIZE) // open_loop.env.spec.obs_shape[0])

    def record(clip: Clip, on_frame: OnFrame) -> str:
        for views in zip(*open_loop.run(clip.skill, steps), strict=True):
            on_frame(np.concatenate([view.repeat(factor, axis=0).repeat(factor, axis=1) for view in views], axis=1))
        return clip.label

    title = f"{_title(run, open_loop.step)} · real, reconstructed, predicted after {CONTEXT} frames"
    return VideoJob(clips, "the agent's own images", OPEN_LOOP_RATE, 1.0, title, record, open_loop.env.close)
