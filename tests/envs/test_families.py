"""The contract of every family of environments."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import toys  # noqa: F401  makes gym/toys:… known
from gymnasium import spaces

from skillscape.envs.base import EnvFamily, HostEnv, JaxEnv
from skillscape.envs.mazes.layouts import Layout, load_layout
from skillscape.envs.registry import families, family_of, host_env, make_env
from skillscape.envs.urlb.camera import rendering_backend
from skillscape.errors import UserError


class Case(NamedTuple):
    """An environment, and the answers of its family."""

    family: str
    env: str
    tasks: tuple[str, ...]
    benchmark: str
    folder: str
    kind: type[JaxEnv | HostEnv]
    layout: str | None = None
    default: str | None = None
    """The default task; None where a task has to be given."""

    @property
    def simulated(self):
        return self.family.startswith("urlb")

    @property
    def of_gymnasium(self):
        return self.family == "locomotion"


WALKER = ("walker_stand", "walker_walk", "walker_run", "walker_flip")
CASES = (
    Case("maze", "maze/square_a", ("reach",), "maze", "square_a", JaxEnv, "square_a", "reach"),
    Case("maze", "maze/square_large", ("reach",), "maze", "square_large", JaxEnv, "square_large", "reach"),
    Case(
        "maze-pixels",
        "maze-pixels/square_tree",
        ("reach",),
        "maze-pixels",
        "square_tree-pixels",
        HostEnv,
        "square_tree",
        "reach",
    ),
    Case("urlb", "walker", WALKER, "urlb", "walker", HostEnv),
    Case("urlb-pixels", "walker-pixels", WALKER, "urlb-pixels", "walker-pixels", HostEnv),
    Case("urlb-pixels", "walker-pixels/reference", WALKER, "urlb-pixels", "walker-pixels-reference", HostEnv),
    Case("gym", "gym/Pendulum-v1", ("gym/Pendulum-v1",), "urlb", "Pendulum-v1", HostEnv, default="gym/Pendulum-v1"),
    Case(
        "gym",
        "gym/toys:Pictured-v0",
        ("gym/toys:Pictured-v0",),
        "urlb-pixels",
        "toys-Pictured-v0",
        HostEnv,
        default="gym/toys:Pictured-v0",
    ),
    Case("locomotion", "ant", ("ant_multi_goals",), "locomotion", "ant", HostEnv, default="ant_multi_goals"),
    Case(
        "locomotion",
        "half_cheetah",
        ("half_cheetah_goal", "half_cheetah_hurdle"),
        "locomotion",
        "half_cheetah",
        HostEnv,
    ),
    Case(
        "playground",
        "playground/PendulumSwingup",
        ("playground/PendulumSwingup",),
        "playground",
        "PendulumSwingup",
        JaxEnv,
        default="playground/PendulumSwingup",
    ),
    Case("gym", "gym/toys:Seen-v0", ("gym/toys:Seen-v0",), "urlb", "toys-Seen-v0", HostEnv, default="gym/toys:Seen-v0"),
)
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=[case.env for case in CASES])


def need(case, *, rendering):
    """Skip what this machine cannot make or render."""
    if case.simulated:
        pytest.importorskip("dm_control")
    if case.family == "playground":
        pytest.skip("tests/test_playground_runs.py makes environments of Playground")
    if case.of_gymnasium:
        pytest.importorskip("mujoco")
        pytest.importorskip("imageio")
    if (case.simulated and case.env != "walker") or (rendering and (case.simulated or case.of_gymnasium)):
        try:
            rendering_backend()
        except UserError as error:
            pytest.skip(str(error))


def test_every_family_has_a_case():
    # Those of skills/ need a run: test_skill_control.py.
    assert {case.family for case in CASES} == {*families()} - {"skills"}
    assert all(name == family.name for name, family in families().items())


@EVERY_CASE
def test_one_family_owns_it(case):
    assert [name for name, family in families().items() if family.owns(case.env)] == [case.family]
    assert family_of(case.env).hint(case.env) is None or case.family == "maze"


@EVERY_CASE
def test_what_the_id_alone_tells(case):
    family = family_of(case.env)
    assert family.tasks(case.env) == case.tasks
    assert family.folder_name(case.env) == case.folder
    assert family.benchmark(case.env) == case.benchmark


@EVERY_CASE
def test_the_validated_task(case):
    family = family_of(case.env)
    assert [family.task(case.env, task) for task in case.tasks] == list(case.tasks)
    if case.default is None:
        with pytest.raises(UserError, match=f"Say which task to learn, .*--task {case.tasks[1]}; {case.env} has"):
            family.task(case.env, None)
    else:
        assert family.task(case.env, None) == case.default
    with pytest.raises(UserError):
        family.task(case.env, "nothing to do")


@EVERY_CASE
def test_it_is_made_with_and_without_a_task(case):
    need(case, rendering=False)
    for task in (None, case.tasks[-1]):
        env = make_env(case.env, task)
        assert isinstance(env, case.kind)
        assert env.spec.is_image == case.benchmark.endswith("pixels")
        host = host_env(case.env, task)
        assert host.spec == env.spec
        obs = host.reset(3)
        assert obs.shape == env.spec.obs_shape
        assert obs.dtype == (np.uint8 if env.spec.is_image else np.float32)
        step = host.step(np.zeros(env.spec.action_dim, np.float32))
        assert (step.obs.shape, step.obs.dtype, step.terminated, step.truncated) == (obs.shape, obs.dtype, False, False)
        np.testing.assert_array_equal(host.reset(3), obs)
        host.close()
    with pytest.raises(UserError):
        make_env(case.env, "nothing to do")


@EVERY_CASE
def test_a_definition_rebuilds_it(case):
    family = family_of(case.env)
    definition = family.definition(case.env)
    if case.layout is None:
        assert definition is None
        assert family.layout(case.env, None) is None
        return
    stored = json.loads(json.dumps(definition))
    assert family.layout(case.env, stored) == family.layout(case.env) == load_layout(case.layout)


@EVERY_CASE
def test_it_can_be_rendered(case):
    if case.family == "gym" and "Seen" not in case.env:
        pytest.skip("needs a package to render, or does not render itself")
    if case.family == "playground":
        with pytest.raises(UserError, match="playground/PendulumSwingup cannot be rendered"):
            family_of(case.env).rendered(case.env)
        return
    need(case, rendering=True)
    rendered = family_of(case.env).rendered(case.env, case.tasks[-1])
    try:
        rendered.env.reset(0)
        first = rendered.render()
        assert (first.ndim, first.shape[2], first.dtype) == (3, 3, np.uint8)
        assert rendered.task == case.tasks[-1]
        assert rendered.steps_per_second > 0
        assert rendered.renderer
        for _ in range(5):
            rendered.env.step(np.ones(rendered.env.spec.action_dim, np.float32))
        assert (rendered.render() != first).any()
    finally:
        rendered.close()


@pytest.mark.parametrize("family", families().values(), ids=families())
def test_the_listing(family):
    rows = family.describe()
    assert rows
    for name, text in rows:
        assert text.endswith((".", ")"))
        placeholder = any(word in name for word in ("NAME", "PATH", "ID", "RUN"))
        assert placeholder or family.owns(name)


def test_the_listing_of_the_domains_keeps_their_sizes_and_tasks():
    listed = dict(families()["urlb"].describe())
    assert list(listed) == ["walker", "quadruped", "jaco"]
    for number in ("24 ", "6 ", "1,000 ", *WALKER):
        assert number in listed["walker"]


def test_names_are_unique():
    assert isinstance(families()["maze"], EnvFamily)
    names = [name for family in families().values() for name, _ in family.describe()]
    assert len(names) == len(set(names))


# A maze of the user's own


@pytest.fixture
def drawing(tmp_path):
    path = tmp_path / "own.txt"
    path.write_text("#####\n#S..#\n#.#.#\n#####\n")
    return path


@pytest.mark.parametrize("family", ["maze", "maze-pixels"])
def test_a_definition_outlives_the_file(drawing, family):
    env_id = f"{family}/{drawing}"
    owner = family_of(env_id)
    definition = json.loads(json.dumps(owner.definition(env_id)))
    before = make_env(env_id, "reach:2,3")
    drawing.unlink()
    with pytest.raises(UserError, match="no maze file"):
        make_env(env_id)
    again = make_env(env_id, "reach:2,3", definition=definition)
    assert again.spec == before.spec
    if isinstance(again, JaxEnv):
        assert again == before
    assert owner.task(env_id, "reach:2,3", definition=definition) == "reach:2,3"
    assert owner.task(env_id, None, definition=definition) == "reach"
    with pytest.raises(UserError, match="no free cell in row 0, column 0"):
        owner.task(env_id, "reach:0,0", definition=definition)
    assert owner.layout(env_id, definition).name == "own"
    rendered = owner.rendered(env_id, definition=definition)
    rendered.env.reset(0)
    assert rendered.render().std() > 0
    assert rendered.task is None


def test_a_damaged_definition_is_refused():
    with pytest.raises(UserError, match="The layout of the maze is damaged"):
        make_env("maze/square_a", definition={"name": "x"})
    assert isinstance(family_of("maze/square_a").layout("maze/square_a", None), Layout)


# Arguments of Gymnasium


def test_arguments_reach_the_constructor():
    env = make_env("gym/toys:Toy-v0", kwargs={"ends": True})
    env.reset(0)
    push = np.ones(2, np.float32)
    assert any(env.step(push).terminated for _ in range(10))
    assert make_env("gym/Pendulum-v1", kwargs={"max_episode_steps": 7}).spec.horizon == 7


def test_arguments_can_decide_what_is_observed(make):
    make()
    family, pictures = families()["gym"], {"observation_space": spaces.Box(0, 255, (64, 64, 3), np.uint8)}
    assert family.benchmark("gym/OwnToy-v0") == "urlb"
    assert family.benchmark("gym/OwnToy-v0", kwargs=pictures) == "urlb-pixels"


def test_positions_can_be_asked_for():
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    plain = make_env("gym/HalfCheetah-v5")
    placed = make_env("gym/HalfCheetah-v5", kwargs={"exclude_current_positions_from_observation": False})
    assert placed.spec.obs_shape[0] == plain.spec.obs_shape[0] + 1


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"wings": 2}, "Pendulum-v1 does not take the keyword argument 'wings': leave it out"),
        ({"render_mode": "human"}, "does not take the keyword argument 'render_mode'"),
        ({"disable_env_checker": False}, "does not take the keyword argument 'disable_env_checker'"),
        ({"not a name": 1}, "does not take the keyword argument 'not a name'"),
        ({"g": [1, 2], "wings": 2}, "'wings'"),
    ],
)
@pytest.mark.parametrize("rendered", [False, True])
def test_unknown_arguments_are_refused(kwargs, message, rendered):
    family = families()["gym"]
    with pytest.raises(UserError, match=message) as caught:
        (family.rendered if rendered else family.make)("gym/Pendulum-v1", kwargs=kwargs)
    assert "\n" not in str(caught.value)


def test_arguments_that_break_an_environment():
    with pytest.raises(UserError, match=r"raised .* when it was made: correct the environment, or give it other"):
        make_env("gym/Pendulum-v1", kwargs={"max_episode_steps": "many"})


@pytest.mark.parametrize("bridge", ["GymV21Environment-v0", "GymV26Environment-v0"])
def test_arguments_that_name_another_environment_are_refused(bridge):
    with pytest.raises(UserError, match="makes another environment from its ID"):
        make_env(f"gym/{bridge}", kwargs={"env_id": "evil:X-v0"})
