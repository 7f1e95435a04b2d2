"""Ranges of settings: what is outside is refused by the name of its flag."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, ReplayConfig
from skillscape.backbones.ppo import PPO
from skillscape.config import EvaluationConfig
from skillscape.errors import UserError
from skillscape.objectives.sd3 import SD3
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE, Range, check_ranges


@pytest.mark.parametrize(
    ("part", "prefix", "flag"),
    [
        (PPO(learning_rate=float("nan")), "backbone", "--backbone.learning-rate must be a finite number"),
        (PPO(discount=float("inf")), "backbone", "--backbone.discount must be a finite number"),
        (PPO(episodes=0), "backbone", "--backbone.episodes must be above zero"),
        (PPO(hidden=(8, 0)), "backbone", "--backbone.hidden must be above zero"),
        (PPO(entropy=-0.1), "backbone", "--backbone.entropy must be zero or more"),
        (
            Dreamer(behaviour=BehaviourConfig(actor_output_l2=-1.0)),
            "backbone",
            "--backbone.behaviour.actor-output-l2 must be zero or more",
        ),
        (
            Dreamer(behaviour=BehaviourConfig(center_momentum=1.5)),
            "backbone",
            "--backbone.behaviour.center-momentum must be between 0 and 1",
        ),
        (SD3(number_of_skills=-1), "objective", "--objective.number-of-skills must be above zero"),
        (SD3(number_of_skills=2**40), "objective", "--objective.number-of-skills must be at most 2147483647"),
        (SD3(clip_norm=-1.0), "objective", "--objective.clip-norm must be above zero"),
        (SD3(floor=float("nan")), "objective", "--objective.floor must be a finite number"),
        (
            Dreamer(replay=ReplayConfig(sequence_length=1)),
            "backbone",
            "--backbone.replay.sequence-length must be at least 2 .*pairs.*, not 1",
        ),
        (
            Dreamer(replay=ReplayConfig(sequence_length=0)),
            "backbone",
            "--backbone.replay.sequence-length must be at least 2 .*, not 0",
        ),
        (
            Dreamer(behaviour=BehaviourConfig(horizon=1)),
            "backbone",
            "--backbone.behaviour.horizon must be at least 2 .*, not 1",
        ),
        (
            Dreamer(behaviour=BehaviourConfig(horizon=-1)),
            "backbone",
            "--backbone.behaviour.horizon must be at least 2 .*, not -1",
        ),
        (EvaluationConfig(every=0), "evaluation", "--evaluation.every must be above zero"),
        (EvaluationConfig(episodes=10**5), "evaluation", "--evaluation.episodes must be between 1 and 10,000"),
    ],
)
def test_settings_out_of_range_are_refused_by_the_name_of_their_flag(part, prefix, flag):
    with pytest.raises(UserError, match=flag):
        check_ranges(part, prefix)


@pytest.mark.parametrize(
    "part",
    [
        SD3(floor=-5.0, clip_norm=None),
        Dreamer(behaviour=BehaviourConfig(horizon=2), replay=ReplayConfig(sequence_length=2)),
        PPO(),
    ],
)
def test_what_is_just_possible_is_in_range(part):
    check_ranges(part)


@dataclass(frozen=True)
class Settings:
    """One field of each kind."""

    positive: Annotated[float, POSITIVE] = 1.0
    not_negative: Annotated[int | None, NON_NEGATIVE] = None
    shares: Annotated[tuple[float, ...], FRACTION] = ()
    own: Annotated[int, Range("at least 2: pairs are learned from", 2)] = 2
    free: float = 0.0
    switch: Annotated[bool, POSITIVE] = False
    text: str = "any"


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(not_negative=0), Settings(shares=(0.0, 1.0)), Settings(free=-1e30), Settings(positive=1e-30)],
)
def test_bounds_none_and_what_has_no_range_are_allowed(settings):
    check_ranges(settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (Settings(positive=0.0), "--positive must be above zero, not 0.0."),
        (Settings(not_negative=-1), "--not-negative must be zero or more, not -1."),
        (Settings(shares=(0.5, 1.5)), "--shares must be between 0 and 1, not 1.5."),
        (Settings(own=1), "--own must be at least 2: pairs are learned from, not 1."),
        (Settings(free=float("nan")), "--free must be a finite number, not nan."),
    ],
)
def test_a_refusal_is_one_sentence_with_flag_range_and_value(settings, sentence):
    with pytest.raises(UserError) as caught:
        check_ranges(settings)
    assert str(caught.value) == sentence


def test_a_flag_may_have_another_name_than_its_field():
    with pytest.raises(UserError, match=r"--a\.env\.noise must be above zero"):
        check_ranges(Settings(positive=0.0), "a", {"positive": "env.noise"})
