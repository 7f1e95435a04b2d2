"""What holds for every backbone: how it is found, what it may be set to, and what it draws from the replay buffer."""

import inspect
import math
import re
from dataclasses import dataclass, fields, is_dataclass

import jax
import numpy as np
import pytest

from skillscape.backbones import register, registry
from skillscape.backbones.base import Backbone, TooShort
from skillscape.backbones.ddpg import DDPG
from skillscape.backbones.dreamer import Dreamer, ReplayConfig
from skillscape.backbones.ppo import PPO
from skillscape.backbones.sac import SAC
from skillscape.config_io import nested, overridden, setting, setting_names
from skillscape.errors import UserError
from skillscape.objectives.extrinsic import Extrinsic
from skillscape.ranges import check_ranges
from skillscape.replay import Replay
from skillscape.types import EnvSpec, Spec

SPEC = EnvSpec(obs_shape=(3,), action_dim=2, horizon=20)
SKILLS = 4
REPLAYED = [name for name, kind in registry().items() if not kind.on_policy]
EVERY_BACKBONE = pytest.mark.parametrize("name", registry())
EVERY_REPLAYED = pytest.mark.parametrize("name", REPLAYED)

# How it is found


def test_the_folder_is_the_registry():
    assert registry() == {"ddpg": DDPG, "dreamer": Dreamer, "ppo": PPO, "sac": SAC}
    assert REPLAYED == ["ddpg", "dreamer", "sac"]


@EVERY_BACKBONE
def test_a_backbone_has_the_name_of_its_file_and_a_label(name):
    kind = registry()[name]
    assert kind.__module__.split(".")[2] == kind.name == name
    assert kind.label.lower() == name


@pytest.fixture
def _registry_as_it_was(monkeypatch):
    monkeypatch.setattr(registry, "_kinds", dict(registry()))


@pytest.mark.usefixtures("_registry_as_it_was")
def test_a_backbone_from_outside_can_be_registered():
    @register
    @dataclass(frozen=True)
    class Lazy(SAC):
        name = "lazy"
        label = "Lazy"

    assert registry()["lazy"] is Lazy


@pytest.mark.usefixtures("_registry_as_it_was")
def test_half_a_backbone_is_refused():
    class Half(Backbone):
        name = "half"

        def init(self, key, env_spec, objective):
            return None

    with pytest.raises(UserError, match=r"Half does not define act, adapt, .*label, learn, log_prob, objective_obs"):
        register(Half)


# What it may be set to

WRONG = {
    "above zero": (0, -1),
    "zero or more": (-1,),
    "between 0 and 1": (-0.5, 1.5),
    "at least 2": (1, 0, -1),
    "at most 100": (101,),
}
FREE = {"value_weight", "min_concentration", "entropy_scale"}
"""Numbers that may have any finite value."""


def settings():
    """Every numeric field of every backbone, with a value of its own type."""
    for name, kind in registry().items():
        for field in setting_names(kind()):
            value = setting(kind(), field)
            if not isinstance(value, (bool, str)):
                yield pytest.param(kind(), field, value, id=f"{name}-{field}")


def with_setting(backbone, field, value):
    """The backbone with another value, in range or not, of a setting by its name with dots."""
    return overridden(backbone, nested([(field, value)]), "backbone")


def said(backbone, field, value):
    with pytest.raises(UserError, match="must be") as caught:
        check_ranges(with_setting(backbone, field, value), "backbone")
    return str(caught.value)


def configs():
    """Every backbone's class and, where its settings are in groups, the class of each group."""
    for kind in registry().values():
        yield kind
        yield from (type(value) for value in vars(kind()).values() if is_dataclass(value))


@pytest.mark.parametrize("kind", list(configs()), ids=lambda kind: kind.__name__)
def test_every_setting_has_a_help_text_that_stands_alone(kind):
    source = "".join(inspect.getsource(base) for base in reversed(kind.__mro__) if is_dataclass(base))
    for field in fields(kind):
        text = re.search(rf'^    {field.name}: .*\n    """(.+?)["\n]', source, re.MULTILINE)
        assert text is not None, field.name
        assert len(text[1].split()) >= 4, (field.name, text[1])
        assert text[1][0].isupper(), (field.name, text[1])
        assert text[1].endswith("."), (field.name, text[1])


@EVERY_BACKBONE
def test_every_default_is_in_its_range(name):
    check_ranges(registry()[name](), "backbone")
    check_ranges(registry()[name]().task_config(pretrained=True), "backbone")


@pytest.mark.parametrize(("backbone", "field", "value"), list(settings()))
def test_every_number_has_a_range(backbone, field, value):
    flag = f"--backbone.{field.replace('_', '-')} must be "
    # None stands for a number of steps.
    huge = (2**31,) if isinstance(value, tuple) else 2**31 if isinstance(value, int | None) else math.inf
    assert said(backbone, field, huge).startswith(flag)
    if field in FREE:
        check_ranges(with_setting(backbone, field, -1.0), "backbone")
        return
    sentence = said(backbone, field, (8, -1) if isinstance(value, tuple) else -1)
    words = next(words for words in WRONG if words in sentence)
    assert sentence.startswith(f"{flag}{words}")
    for wrong in WRONG[words]:
        assert said(backbone, field, (8, wrong) if isinstance(value, tuple) else wrong)


@pytest.mark.parametrize(
    ("backbone", "field", "value", "sentence"),
    [
        (DDPG(), "tau", 0.0, "--backbone.tau must be above zero, not 0.0."),
        (SAC(), "tau", 1.5, "--backbone.tau must be between 0 and 1, not 1.5."),
        (DDPG(), "discount", 1.01, "--backbone.discount must be between 0 and 1, not 1.01."),
        (PPO(), "hidden", (64, 0), "--backbone.hidden must be above zero, not 0."),
        (Dreamer(), "world.layers", 101, "--backbone.world.layers must be at most 100, not 101."),
        (
            Dreamer(),
            "behaviour.horizon",
            1,
            "--backbone.behaviour.horizon must be at least 2 (an action is judged by the return",
        ),
        (
            Dreamer(),
            "replay.sequence_length",
            1,
            "--backbone.replay.sequence-length must be at least 2 (objectives learn from pairs",
        ),
    ],
)
def test_a_refusal_names_the_flag_and_what_it_must_be(backbone, field, value, sentence):
    assert said(backbone, field, value).startswith(sentence)


# What it draws

SMALL = {
    "ddpg": DDPG(width=8, batch_size=5),
    "sac": SAC(hidden=(8,), batch_size=5),
    "dreamer": Dreamer(replay=ReplayConfig(batch_size=3, sequence_length=4)),
}


def buffer(backbone, lengths=(6, 9, 2, 20)):
    """Truncated episodes of noise, the same every time."""
    generator = np.random.default_rng(0)
    nstep = backbone.schedule.nstep
    replay = Replay(SPEC, SKILLS, capacity=100, nstep=nstep, discount=0.9, seed=3)
    for length in lengths:
        replay.begin(generator.normal(size=3))
        for _ in range(length):
            replay.add(generator.normal(size=2), np.eye(SKILLS)[0], generator.normal(), 1.0, generator.normal(size=3))
        replay.finish()
    return replay


def drawn(name, times, updates=1, **changes):
    replay = buffer(SMALL[name])
    return [SMALL[name].sample(replay, replay.snapshot().episode_index, updates, **changes) for _ in range(times)]


def same(one, other):
    return all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))


@pytest.mark.parametrize("name", ["ddpg", "sac"])
@pytest.mark.parametrize("updates", [1, 3])
def test_transitions_are_those_of_the_buffer_a_batch_for_each_update_of_the_model(name, updates):
    replay = buffer(SMALL[name])
    episode_index = replay.snapshot().episode_index
    for one in drawn(name, 2, updates):
        assert same(one, replay.sample(5 * updates, episode_index))
        assert one.reward.shape == (5 * updates,)
    assert same(drawn(name, 1, updates)[0], drawn(name, 1, updates, skill=np.ones(SKILLS, np.float32))[0])


def test_sequences_are_those_of_the_buffer_however_often_the_model_is_updated():
    replay = buffer(SMALL["dreamer"])
    episode_index = replay.snapshot().episode_index
    for one in drawn("dreamer", 2, updates=3):
        assert same(one, replay.sample_sequences(3, 4, episode_index))


def test_a_world_model_imagines_under_the_skill_that_was_chosen():
    chosen = np.float32([0.1, 0.2, 0.3, 0.4])
    (plain,), (changed,) = drawn("dreamer", 1), drawn("dreamer", 1, skill=chosen)
    assert changed.skill.dtype == np.float32
    np.testing.assert_array_equal(changed.skill, np.broadcast_to(chosen, (3, 4, SKILLS)))
    assert same(plain._replace(skill=changed.skill), changed)


@EVERY_REPLAYED
def test_nothing_is_drawn_before_an_episode_is_complete(name):
    replay = buffer(SMALL[name], lengths=())
    before = replay.snapshot().generator
    assert SMALL[name].sample(replay, replay.snapshot().episode_index, 1) is None
    assert replay.snapshot().generator == before


@pytest.mark.parametrize(
    ("backbone", "lengths", "answer"),
    [
        (DDPG(batch_size=2, nstep=3), (2, 1), TooShort("returns over 3 steps", "nstep", 2)),
        (DDPG(batch_size=2, nstep=3), (2, 3), None),
        (DDPG(batch_size=2, nstep=1), (1,), None),
        (SAC(batch_size=2), (1,), None),
        (
            Dreamer(replay=ReplayConfig(batch_size=2, sequence_length=5)),
            (3, 2),
            TooShort("sequences of 5 states", "replay.sequence_length", 4),
        ),
        (Dreamer(replay=ReplayConfig(batch_size=2, sequence_length=5)), (3, 4), None),
    ],
)
def test_episodes_that_are_too_short_are_not_drawn_from_and_the_setting_to_lower_is_named(backbone, lengths, answer):
    replay = buffer(backbone, lengths)
    assert backbone.too_short(max(lengths)) == answer
    assert (backbone.sample(replay, replay.snapshot().episode_index, 1) is None) == (answer is not None)
    if answer is not None:
        lowered = with_setting(backbone, answer.setting, answer.most)
        assert lowered.too_short(max(lengths)) is None


# Two kinds


def test_ppo_learns_on_policy_from_whole_episodes():
    assert PPO.on_policy
    assert PPO(episodes=7).steps_per_iteration(SPEC) == 140
    assert PPO().too_short(1) is None
    with pytest.raises(TypeError, match="PPO does not learn from replay"):
        PPO().schedule  # noqa: B018
    replay = buffer(SMALL["ddpg"])
    with pytest.raises(TypeError, match="PPO does not learn from replay"):
        PPO().sample(replay, replay.snapshot().episode_index, 1)


@EVERY_REPLAYED
def test_the_others_learn_from_replay_step_by_step(name):
    backbone = registry()[name]()
    assert backbone.steps_per_iteration(SPEC) == 1
    group = "replay." if name == "dreamer" else ""
    assert backbone.schedule.batch_size == setting(backbone, f"{group}batch_size")
    assert backbone.schedule.capacity == setting(backbone, "replay.capacity" if group else "replay_capacity")


@pytest.mark.parametrize("name", ["ddpg", "ppo", "sac"])
def test_backbones_for_vectors_carry_nothing_lend_observations_and_refuse_images(name):
    backbone = registry()[name]()
    assert backbone.initial_carry(7) == ()
    assert backbone.objective_spec(SPEC) == Spec((3,), 2)
    obs = np.ones((5, 3), np.float32)
    agent = backbone.init(jax.random.key(0), SPEC, Extrinsic())
    np.testing.assert_array_equal(backbone.objective_obs(agent, jax.numpy.asarray(obs), jax.numpy.zeros((5, 2))), obs)
    with pytest.raises(UserError, match=f"images, which {backbone.label} does not learn from"):
        backbone.init(jax.random.key(0), EnvSpec((64, 64, 3), 2, 50), Extrinsic())
