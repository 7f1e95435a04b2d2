"""Named settings. A preset is a Python value; for mazes ``default`` is what the evidence in docs/mazes.md chose."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.sizes import dreamer
from skillscape.backbones.ppo import PPO
from skillscape.envs.host import MAZE_PREFIX, is_seen
from skillscape.errors import choose
from skillscape.objectives import registry
from skillscape.objectives.aps import APS
from skillscape.objectives.apt import APT
from skillscape.objectives.base import Objective
from skillscape.objectives.becl import BeCL
from skillscape.objectives.cic import CIC
from skillscape.objectives.csd import CSD
from skillscape.objectives.dads import DADS
from skillscape.objectives.diayn import DIAYN
from skillscape.objectives.disagreement import Disagreement
from skillscape.objectives.icm import ICM
from skillscape.objectives.metra import METRA
from skillscape.objectives.protorl import ProtoRL
from skillscape.objectives.rnd import RND
from skillscape.objectives.sd3 import SD3
from skillscape.objectives.smm import SMM


@dataclass(frozen=True)
class Settings:
    """What a preset decides: the method, the learner, and the budget."""

    objective: Objective[Any]
    backbone: PPO
    steps: int = 250_000
    evaluate_every: int = 25_000
    rollouts_per_skill: int = 20


def _default(method: str) -> Settings:
    """The settings that show the method at its best in the mazes, the same learner for all methods."""
    return Settings(registry()[method](), PPO())


def _paper(method: str) -> Settings:
    """The literal settings of the papers and their codes: PPO entropy 0.025, plain α, no floor, newest batch only."""
    literal = SD3(
        bonus_scale=1.0,
        floor=None,
        width=128,
        module_width=64,
        decoder_variance=0.02,
        learning_rate=1e-3,
        history=0,
    )
    plain = PPO(entropy=0.025, skill_scale=1.0, normalise_inputs=False)
    return Settings(literal if method == "sd3" else registry()[method](), plain)


def _long(method: str) -> Settings:
    """The default for 6.25 million steps, the budget of the published maze codes."""
    return replace(_default(method), steps=6_250_000, evaluate_every=250_000)


def _smoke(method: str) -> Settings:
    """A few seconds, to see that everything runs; its numbers mean nothing."""
    return Settings(registry()[method](), PPO(episodes=8, minibatches=2), 2_000, 800, 4)


PRESETS: dict[str, Callable[[str], Settings]] = {
    "default": _default,
    "compact": _default,  # what a laptop-sized budget is called elsewhere
    "paper": _paper,
    "long": _long,
    "smoke": _smoke,
}


def settings(method: str, preset: str = "default") -> Settings:
    """The settings of a preset for a method; unknown names are refused with the nearest known one."""
    choose("method", method, registry(), "skillscape methods")
    choose("preset", preset, PRESETS)
    return PRESETS[preset](method)


@dataclass(frozen=True)
class HostedSettings:
    """What a preset decides on host environments: the method, the learner, the budgets of both phases."""

    objective: Objective[Any] | None
    backbone: ReplayedBackbone[Any, Any]
    steps: int
    finetuning_steps: int = 100_000
    evaluate_every: int = 10_000
    evaluation_episodes: int = 10
    snapshots: tuple[int, ...] = (100_000, 500_000, 1_000_000, 2_000_000)


SKILL_STEPS = 50
"""Environment steps between two draws of a skill in URLB."""


def _hosted_objective(method: str, env: str, width: int, density_width: int, module_width: int) -> Objective[Any]:
    """The method as its paper runs it on URLB, at a width; the other two are those of SD3's density."""
    hidden = (width, width)
    slow: dict[str, Any] = {"learning_rate": 1e-4, "epsilon": 1e-8}
    made: dict[str, Callable[[], Objective[Any]]] = {
        "sd3": lambda: SD3(
            number_of_skills=16,
            # The arm's observations hardly move a KL, so the authors weigh it fifty times as much there.
            exploration_ratio=2.0 if env == "jaco" else 0.04,
            bonus_scale=1.0,
            latent_samples=1,
            floor=None,
            reward_scale=0.1,
            width=density_width,
            module_width=module_width,
            latent_dim=40,
            decoder_variance=0.25,
            learning_rate=1e-4,
            clip_norm=0.5,
            history=0,
            resample_every=SKILL_STEPS,
        ),
        "diayn": lambda: DIAYN(16, hidden, **slow, resample_every=SKILL_STEPS),
        "dads": lambda: DADS(16, hidden, **slow, resample_every=SKILL_STEPS),
        "cic": lambda: CIC(
            skill_dim=64, sources="next_obs", hidden=hidden, feature_dim=64, **slow, resample_every=SKILL_STEPS
        ),
        "becl": lambda: BeCL(16, hidden, (width,), 16, **slow, resample_every=SKILL_STEPS),
        "aps": lambda: APS(hidden=hidden, **slow, resample_every=5),
        "smm": lambda: SMM(
            hidden=hidden, density_hidden=(min(width, 150),) * 2, latent_dim=min(width, 128), epsilon=1e-8
        ),
        # Constraints between neighbours in time hold for a whole episode of one skill, as in their papers.
        "metra": lambda: METRA(number_of_skills=16, hidden=hidden, multiplier_learning_rate=1e-4, **slow),
        "csd": lambda: CSD(number_of_skills=16, hidden=hidden, multiplier_learning_rate=1e-4, **slow),
        "icm": lambda: ICM((width,), **slow),
        "disagreement": lambda: Disagreement(hidden=(width,), **slow),
        "rnd": lambda: RND(hidden, width // 2, **slow),
        "apt": lambda: APT((width,), width // 2, **slow),
        "protorl": lambda: ProtoRL(width // 2, feature_dim=width // 8, hidden=(width // 2,), **slow),
    }
    return made[method]() if method in made else registry()[method]()


def _ddpg(method: str | None, **sizes: int) -> DDPG:
    """The learner; methods whose constraint is about single steps are shown single steps."""
    return DDPG(**sizes, pairs="n-step" if method is None else registry()[method].pairs)  # type: ignore[arg-type]


def _hosted_paper(method: str | None, env: str) -> HostedSettings:
    """URLB's sizes and budget: width and batch 1024, 2 million steps, 100,000 to fine-tune."""
    objective = None if method is None else _hosted_objective(method, env, 1024, 1024, 1024)
    return HostedSettings(objective, _ddpg(method), 2_000_000)


def _hosted_compact(method: str | None, env: str) -> HostedSettings:
    """For a laptop: width and batch 256, SD3's density 128, 200,000 steps, 100,000 to fine-tune."""
    objective = None if method is None else _hosted_objective(method, env, 256, 128, 64)
    return HostedSettings(objective, _ddpg(method, width=256, batch_size=256), 200_000)


def _hosted_smoke(method: str | None, env: str) -> HostedSettings:
    """Seconds, to see that everything runs; its numbers mean nothing."""
    objective = None if method is None else _hosted_objective(method, env, 16, 8, 8)
    backbone = _ddpg(method, width=16, batch_size=32, random_steps=1_000)
    return HostedSettings(objective, backbone, 2_000, 2_000, 1_000, 2)


HOSTED_PRESETS: dict[str, Callable[[str | None, str], HostedSettings]] = {
    "compact": _hosted_compact,
    "paper": _hosted_paper,
    "smoke": _hosted_smoke,
}


def _seen_objective(
    method: str, env: str, width: int, density_width: int, learning_rate: float | None = None
) -> Objective[Any]:
    """The method on what a world model remembers of images: vectors whose entries have mean zero and variance one.

    learning_rate: the method's own if None, or if it has several.
    """
    maze = env.startswith(MAZE_PREFIX)
    made = _hosted_objective(method, env, width, density_width, density_width // 2)
    # Mazes are told apart from the rest as without images: their short episodes are of one of ten skills.
    changes: dict[str, Any] = {"resample_every": None} if maze and made.resample_every else {}
    if maze and "number_of_skills" in vars(made):
        changes["number_of_skills"] = 10
    if "paid_for" in vars(made):
        # An imagined step is paid for arriving: for the state that it leaves, its action would not matter.
        changes["paid_for"] = "next_obs"
    if method == "sd3":
        # Differences in two hundred standardised entries are worth hundreds of nats at the variance of a state.
        # No floor: where the actor climbs the reward, it would take the slope away from skills in another's region.
        changes |= {"latent_dim": 16, "decoder_variance": 4.0, "latent_samples": 0, "reward_scale": 1.0}
        if maze:
            # Skills that rest cover less ground at the plain weight; docs/pixels.md has what heavier ones do.
            changes["bonus_scale"] = 3.0
    if learning_rate is not None and "learning_rate" in vars(made):
        changes["learning_rate"] = learning_rate
    return replace(made, **changes)


def _dreamer(size: str, method: str | None) -> Dreamer:
    return dreamer(size, None if method is None else registry()[method])


def _seen_paper(method: str | None, env: str) -> HostedSettings:
    """The sizes of pixel-based URLB and its budget: 2 million frames, 100,000 to fine-tune, two to an action."""
    objective = None if method is None else _seen_objective(method, env, 1024, 128)
    return HostedSettings(
        objective, _dreamer("paper", method), 1_000_000, 50_000, 5_000, snapshots=(50_000, 250_000, 500_000, 1_000_000)
    )


def _seen_laptop(method: str | None, env: str) -> HostedSettings:
    """What two cores learn in an hour: 20,000 frames of a body, 60,000 steps in a maze; so few updates are larger."""
    objective = None if method is None else _seen_objective(method, env, 256, 64, learning_rate=1e-3)
    backbone = _dreamer("laptop", method)
    if env.startswith(MAZE_PREFIX):
        # A step in a maze costs next to nothing beside an update, and skills part on what they do now.
        return HostedSettings(objective, replace(backbone, update_every=15), 60_000, 10_000, 2_500, 3, (10_000,))
    return HostedSettings(objective, backbone, 10_000, 10_000, 2_500, 3, (10_000,))


def _seen_smoke(method: str | None, env: str) -> HostedSettings:
    """Seconds, to see that everything runs; its numbers mean nothing."""
    objective = None if method is None else _seen_objective(method, env, 16, 8)
    return HostedSettings(objective, _dreamer("smoke", method), 1_500, 1_500, 500, 1)


SEEN_PRESETS: dict[str, Callable[[str | None, str], HostedSettings]] = {
    "laptop": _seen_laptop,
    "paper": _seen_paper,
    "smoke": _seen_smoke,
}


def default_preset(env: str) -> str:
    """What is meant on a host environment where no preset is given."""
    return "laptop" if is_seen(env) else "compact"


def hosted_settings(method: str | None, env: str, preset: str | None = None) -> HostedSettings:
    """The settings of a preset for a method on a host environment; no method is training from scratch.

    Environments that are seen are learned with Dreamer, the others with DDPG.
    """
    if method is not None:
        choose("method", method, registry(), "skillscape methods")
    presets = SEEN_PRESETS if is_seen(env) else HOSTED_PRESETS
    chosen = preset or default_preset(env)
    choose("preset", chosen, presets)
    return presets[chosen](method, env)
