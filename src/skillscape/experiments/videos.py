"""Films of the skills of a run: an MP4 for each, and a contact sheet of them all."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from skillscape.api import enable_compilation_cache, is_job, rollouts
from skillscape.envs.drawing import check_drawable, make_drawn
from skillscape.errors import UserError
from skillscape.evaluation.filming import Filmer, Show
from skillscape.evaluation.rollouts import SHOWN
from skillscape.experiments.dreams import CONTEXT, Dreamed
from skillscape.plots.maze_video import DEFAULT_SIZE, FRAMES_PER_STEP, STEPS_PER_SECOND, maze_frames
from skillscape.plots.style import skill_colours
from skillscape.plots.video import Frame, Row, Strip, contact_sheet, load_encoder, recording
from skillscape.skills import SkillSpace
from skillscape.training.jobs import JobRun
from skillscape.training.runs import Run, run_folders

DRAWN_SKILLS = 8
"""Skills that stand for a continuum on host environments; the same ones that `skillscape evaluate` takes."""
SECONDS = 10
"""How much of an episode is filmed if nothing else is asked for."""
LEAST_FRAMES_PER_SECOND = 25
"""Films run in real time; steps are left out, evenly, where enough frames remain."""
SIZES = (64, 1920)
DREAMED_STEPS, DREAMED_RATE, DREAM_SIZE = 49, 10.0, 256
"""Steps of an imagined episode, its frames per second, and the side of its pictures, if nothing else is asked for."""


@dataclass(frozen=True)
class Wish:
    """What to film, and how."""

    skill: int | Literal["all"] | None = None
    """The number of one, or all; None for the one that a fine-tuning keeps, and all where there is none."""
    seed: int | None = None
    """Which of several seeds; the first if not given."""
    steps: int | None = None
    """Steps of an episode that are filmed; if not given, ``SECONDS`` of them, in mazes all."""
    rollouts: int | None = None
    """Episodes of a skill in a maze, all in one film; as in training if not given."""
    size: int | None = None
    """Pixels of the longer side."""
    shadows: bool = False
    """Shadows, reflections and smooth edges, where MuJoCo draws."""
    imagined: bool = False
    """What a world model expects beside what happens, in place of the skill alone."""

    def check(self) -> None:
        """Refuse numbers that make no film."""
        least, most = SIZES
        if self.size is not None and (not least <= self.size <= most or self.size % 2):
            raise UserError(f"--size must be an even number between {least} and {most}, not {self.size}.")
        for name, value in (("steps", self.steps), ("rollouts", self.rollouts)):
            if value is not None and value < 1:
                raise UserError(f"--{name} must be at least 1, not {value}.")


class Shot(NamedTuple):
    """One skill to film: its number, what to call it, the name of its files without an ending, the skill itself."""

    number: int
    label: str
    name: str
    skill: Float[np.ndarray, " z"]


class Production(NamedTuple):
    """All that is settled before the first film: what draws, the films' speed, and the title of the contact sheet.

    ``play`` shows a shot frame by frame and returns its line on the sheet; ``hold``: seconds that a last frame stays.
    """

    drawn_by: str
    frames_per_second: float
    hold: float
    title: str
    play: Callable[[Shot, Show], str]
    close: Callable[[], None]


OnStart = Callable[[str, int], None]
"""Told once, before the first film: what draws, and how many films there will be."""
OnSkill = Callable[[str], None]
"""Told what comes next, before each film."""


def film_run(folder: Path, out: Path | None, wish: Wish, on_start: OnStart, on_skill: OnSkill) -> Iterator[Path]:
    """Film the skills of a run and give each file when it is complete; nothing is written before all is checked.

    Files go to ``out``, or to videos/ in the run's folder: skill_00.mp4, …, and skills.png with a row for each, or
    skill_00.png where a single one was asked for. Of several seeds it is the folder of the one that is filmed.
    """
    wish.check()
    chosen = _chosen_seed(folder, wish.seed)
    out = out or chosen / "videos"
    load_encoder()
    shots, prepare = _of_kind(chosen, wish)
    enable_compilation_cache()
    production = prepare()
    rows = []
    try:
        _make_folder(out)
        on_start(production.drawn_by, len(shots))
        for shot in shots:
            on_skill(shot.label)
            path, strip = out / f"{shot.name}.mp4", Strip()
            with recording(path, production.frames_per_second, hold=production.hold) as add:
                label = production.play(shot, _both(add, strip.add))
            rows.append(Row(label, strip.frames()))
            yield path
    finally:
        production.close()
    # The sheet of a single skill must not replace the one of all.
    every = "imagined.png" if wish.imagined else "skills.png"
    sheet = out / (f"{shots[0].name}.png" if isinstance(wish.skill, int) else every)
    contact_sheet(rows, sheet, production.title)
    yield sheet


def _of_kind(folder: Path, wish: Wish) -> tuple[list[Shot], Callable[[], Production]]:
    if not is_job(folder):
        return _of_maze(folder, wish)
    return _of_dreams(folder, wish) if wish.imagined else _of_job(folder, wish)


def _both(first: Show, second: Show) -> Show:
    def show(frame: Frame) -> None:
        first(frame)
        second(frame)

    return show


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {out}: {error.strerror}; choose another --out.") from error


def _chosen_seed(folder: Path, seed: int | None) -> Path:
    folders = run_folders(folder)
    if seed is None:
        return folders[0]
    seeds = {(JobRun(path) if is_job(path) else Run(path)).config.seed: path for path in folders}
    if seed not in seeds:
        raise UserError(f"There is no seed {seed}: {folder} has {', '.join(map(str, seeds))}.")
    return seeds[seed]


def _shots(space: SkillSpace, drawn: int) -> list[Shot]:
    """Every skill, or some drawn from a continuum, with the names that `skillscape evaluate` gives them."""
    every = np.asarray(space.sample(jax.random.key(0), drawn) if space.count is None else space.all())
    noun = "policy" if space.width == 0 else "draw" if space.count is None else "skill"
    digits = max(2, len(str(len(every) - 1)))  # so that the files sort like the skills
    return [Shot(number, f"{noun} {number}", f"skill_{number:0{digits}d}", one) for number, one in enumerate(every)]


def _wanted(shots: list[Shot], wish: Wish, folder: Path) -> list[Shot]:
    if not isinstance(wish.skill, int):
        return shots
    if not 0 <= wish.skill < len(shots):
        has = f"skills 0 to {len(shots) - 1}" if len(shots) > 1 else "skill 0 only"
        raise UserError(f"There is no skill {wish.skill}: {folder} has {has}.")
    return [shots[wish.skill]]


def _of_maze(folder: Path, wish: Wish) -> tuple[list[Shot], Callable[[], Production]]:
    """All episodes of a skill in one film, drawn from the stochastic policy as they are measured."""
    run = Run(folder)
    config = run.config
    if wish.shadows:
        raise UserError("--shadows is for walker, quadruped and jaco; leave it out.")
    if wish.imagined:
        raise UserError("--imagined is for runs from images, which have a world model; leave it out.")
    every = _shots(config.objective.skills, SHOWN)

    def prepare() -> Production:
        positions = rollouts(run, per_skill=wish.rollouts)[:, :, : None if wish.steps is None else wish.steps + 1]
        colours, size = skill_colours(len(positions)), wish.size or DEFAULT_SIZE

        def play(shot: Shot, show: Show) -> str:
            for frame in maze_frames(positions[shot.number], config.layout, colours[shot.number], size):
                show(frame)
            return shot.label

        episodes = f"{positions.shape[1]} episode{'s' if positions.shape[1] > 1 else ''}"
        title = f"{config.objective.name} · {config.env} · {run.end:,} steps · seed {config.seed} · {episodes} each"
        # The finished trails stay for a moment.
        return Production("matplotlib", STEPS_PER_SECOND * FRAMES_PER_STEP, 1.0, title, play, lambda: None)

    return _wanted(every, wish, folder), prepare


def _of_job(folder: Path, wish: Wish) -> tuple[list[Shot], Callable[[], Production]]:
    """One deterministic episode of each skill, the first of those that `skillscape evaluate` plays."""
    run = JobRun(folder)
    job = replace(run.config, noise=0.0)
    if wish.rollouts is not None:
        raise UserError(f"--rollouts is for mazes; on {job.env} a film shows one episode.")
    check_drawable(job.env, size=wish.size, shadows=wish.shadows)

    def prepare() -> Production:
        step, agent, _ = run.snapshot()
        policy = job.backbone.policy_params(agent)
        drawn = make_drawn(job.env, job.task, size=wish.size, shadows=wish.shadows)
        drawn.env.reset(0)
        drawn.draw()  # what cannot be drawn is told now, before anything is written
        filmer = Filmer(drawn, job.backbone)
        rate = drawn.steps_per_second
        every = max(1, int(rate // LEAST_FRAMES_PER_SECOND))
        steps = min(wish.steps or round(SECONDS * rate), drawn.env.spec.horizon)

        def play(shot: Shot, show: Show) -> str:
            earned = filmer.film(policy, shot.skill, show, seed=0, steps=steps, every=every)
            return shot.label if drawn.task is None else f"{shot.label}\nreturn {earned:,.1f}"

        method = job.backbone.name if job.objective is None else job.objective.name
        returns = "" if drawn.task is None else f", returns of {drawn.task}"
        title = f"{method} · {job.env} · {step:,} steps · seed {job.seed} · the first {steps / rate:.3g} s{returns}"
        return Production(drawn.drawn_by, rate / every, 0.0, title, play, filmer.close)

    return _shots_of_job(run, wish), prepare


def _of_dreams(folder: Path, wish: Wish) -> tuple[list[Shot], Callable[[], Production]]:
    """What happens, what the model makes of each frame, what it expects of the same actions after the first frames."""
    run = JobRun(folder)
    for name, given in (("rollouts", wish.rollouts is not None), ("shadows", wish.shadows)):
        if given:
            raise UserError(f"--{name} does not go with --imagined, which shows what the agent sees; leave it out.")
    shots = [shot._replace(name=f"{shot.name}-imagined") for shot in _shots_of_job(run, wish)]

    def prepare() -> Production:
        dreamed = Dreamed(run)
        steps = max(CONTEXT, min(wish.steps or DREAMED_STEPS, dreamed.horizon))
        larger = max(1, (wish.size or DREAM_SIZE) // run.spec.obs_shape[0])

        def play(shot: Shot, show: Show) -> str:
            for views in zip(*dreamed.play(shot.skill, steps), strict=True):
                show(np.concatenate([np.kron(one, np.ones((larger, larger, 1), np.uint8)) for one in views], axis=1))
            return shot.label

        job = run.config
        what = f"{job.method} · {job.env} · {dreamed.step:,} steps · seed {job.seed}"
        title = f"{what} · real, as the model sees it, imagined after {CONTEXT} frames"
        return Production("the agent's own images", DREAMED_RATE, 1.0, title, play, dreamed.close)

    return shots, prepare


def _shots_of_job(run: JobRun, wish: Wish) -> list[Shot]:
    job, space = run.config, run.config.rewarded.skills
    every = _shots(space, DRAWN_SKILLS)
    if job.strategy.kind == "controller":
        if isinstance(wish.skill, int):
            raise UserError(f"{run.folder} acts with a mixture of its skills; leave --skill out.")
        return [every[0]._replace(label="controller")]  # it mixes all skills, whichever it is given
    lasting = run.lasting_skill() if job.phase == "finetune" and wish.skill is None else None
    if lasting is None:
        return _wanted(every, wish, run.folder)
    if space.count is None:
        return [Shot(0, "its skill", every[0].name, lasting)]
    return [every[int(np.argmax(lasting))]]
