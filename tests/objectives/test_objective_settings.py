"""The settings of every objective: one class per file, their ranges, and what they are at each scale."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import typing

import pytest

import skillscape.objectives
from skillscape.errors import UserError
from skillscape.objectives import registry
from skillscape.objectives.base import Objective, Scale
from skillscape.objectives.disagreement import Disagreement
from skillscape.objectives.protorl import ProtoRL
from skillscape.objectives.sd3 import SD3
from skillscape.ranges import Range, check_ranges

SHARED = ("base", "cvae", "density_deviation", "encoders", "history", "latent_steps", "skill_contrast")
"""What several methods are built on, and no method itself."""
FILES = [info.name for info in pkgutil.iter_modules(skillscape.objectives.__path__) if info.name not in SHARED]
EVERY_METHOD = pytest.mark.parametrize("method", registry().values(), ids=registry())
SCALE = Scale(
    benchmark="maze",
    preset="default",
    width=128,
    density_width=64,
    module_width=32,
    number_of_skills=10,
    resample_every=None,
    learning_rate=1e-3,
    epsilon=1e-3,
    replayed=False,
)
# Weights and thresholds of either sign, and counts of which zero and less mean none.
FREE = {
    "bonus_scale",
    "distance_floor",
    "divergence_weight",
    "exploration_ratio",
    "floor",
    "latent_samples",
    "reward_scale",
    "skill_dim",
    "skill_width",
}
MAY_BE_ZERO = {
    "background",
    "bonus_weight",
    "constraint_weight",
    "history",
    "newest_fraction",
    "smallest_cluster",
    "standardize",
}


def ranges(method):
    """Ranges of every field that holds numbers."""
    hints = typing.get_type_hints(method, include_extras=True)
    plain = typing.get_type_hints(method)
    numbers = {int, float, int | None, float | None, tuple[int, ...]}
    return {
        field.name: [entry for entry in getattr(hints[field.name], "__metadata__", ()) if isinstance(entry, Range)]
        for field in dataclasses.fields(method)
        if plain[field.name] in numbers
    }


@pytest.mark.parametrize("file", FILES)
def test_one_class_per_file_with_the_name_of_the_file(file):
    module = importlib.import_module(f"skillscape.objectives.{file}")
    (only,) = (
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Objective) and value.__module__ == module.__name__
    )
    assert only.name == file
    assert registry()[file] is only


def test_the_registry_holds_the_folder_and_nothing_else():
    assert sorted(registry()) == sorted(FILES)
    assert "sd3" in FILES


@pytest.mark.parametrize("method", registry().values(), ids=registry())
def test_settings_survive_json(method):
    fields = dataclasses.asdict(method())
    read = json.loads(json.dumps(fields, allow_nan=False))
    again = {name: tuple(value) if isinstance(value, list) else value for name, value in read.items()}
    assert method(**again) == method()


@EVERY_METHOD
def test_every_number_has_a_range_or_is_free_on_purpose(method):
    assert {name for name, allowed in ranges(method).items() if not allowed} <= FREE


def test_what_is_free_is_a_field_of_some_method():
    assert {field.name for method in registry().values() for field in dataclasses.fields(method)} >= FREE


@EVERY_METHOD
def test_defaults_are_in_their_ranges_and_what_is_below_them_is_refused(method):
    check_ranges(method(), "objective")
    for name, allowed in ranges(method).items():
        if not allowed:
            continue
        low = -1 if name in MAY_BE_ZERO else 0
        wrong = (8, low) if isinstance(getattr(method(), name), tuple) else low
        with pytest.raises(UserError, match=f"--objective.{name.replace('_', '-')} must be .*, not {low}"):
            check_ranges(dataclasses.replace(method(), **{name: wrong}), "objective")


@pytest.mark.parametrize(
    "objective",
    [
        SD3(layers=101),
        SD3(newest_fraction=1.1),
        SD3(standardize=1.1),
        ProtoRL(tau=1.1),
        SD3(floor=float("nan")),
        SD3(latent_samples=2**31),
        Disagreement(hidden=(8, 2**31)),
    ],
)
def test_what_is_above_its_range_is_refused(objective):
    with pytest.raises(UserError, match="must be"):
        check_ranges(objective, "objective")


@EVERY_METHOD
def test_the_defaults_are_the_settings_in_mazes(method):
    assert method.at(SCALE) == method()


def test_a_method_without_settings_at_a_scale_says_so_and_has_no_silent_ones():
    class Newcomer(SD3):
        name = "newcomer"
        at = classmethod(Objective.at.__func__)

    with pytest.raises(UserError, match=r"newcomer has no settings for maze at the preset default; define .* `at`"):
        Newcomer.at(SCALE)


@EVERY_METHOD
def test_what_a_world_model_imagines_is_paid_for_arriving(method):
    settings = vars(method.at(dataclasses.replace(SCALE, benchmark="urlb-pixels")))
    assert settings.get("reward_state", "next_obs") == "next_obs"


def test_a_replay_buffer_needs_no_history_beside_it():
    assert SD3.at(dataclasses.replace(SCALE, replayed=True)) == SD3(history=0)


def test_the_arm_weighs_the_bonus_fifty_times_as_much_in_the_paper_and_the_same_in_its_own_unit():
    scale = dataclasses.replace(SCALE, benchmark="urlb")
    for preset, factor in (("paper", 50), ("compact", 1)):
        arm, walker = (SD3.at(dataclasses.replace(scale, preset=preset, env_id=env)) for env in ("jaco", "walker"))
        assert arm == dataclasses.replace(walker, exploration_ratio=factor * walker.exploration_ratio)


def test_the_paper_preset_keeps_the_published_settings_of_sd3():
    scale = dataclasses.replace(SCALE, benchmark="urlb", preset="paper")
    for found in (SD3.at(scale), SD3.at(dataclasses.replace(scale, benchmark="maze"))):
        assert (found.deviation_weight, found.exploration_ratio, found.floor) == (1.5, 0.04, None)
        assert (found.bonus_scale, found.bonus_unit) == (1.0, "nats")
        assert not found.standardize
        assert found.background == 0
