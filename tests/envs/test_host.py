"""Environments by their names on the command line."""

import numpy as np
import pytest

from skillscape.envs.host import HOST_ENVS, PIXEL_DOMAINS, make_host
from skillscape.envs.noise import Noisy
from skillscape.envs.urlb.tasks import DOMAINS
from skillscape.errors import UserError


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_domain_without_a_task_is_its_primal_one(domain):
    pytest.importorskip("dm_control")
    still = np.zeros(domain.action_size, np.float32)
    rewards = {}
    for task in (None, domain.primal_task, domain.tasks[-1]):
        env = make_host(domain.name, task)
        assert env.spec == ((domain.obs_size,), domain.action_size, domain.horizon)
        env.reset(3)
        rewards[task] = env.step(still).reward
    assert rewards[None] == rewards[domain.primal_task] != rewards[domain.tasks[-1]]


@pytest.mark.parametrize("task", [None, "gym/Pendulum-v1"])
def test_an_environment_of_gymnasium_is_its_own_task(task):
    assert make_host("gym/Pendulum-v1", task).spec == ((3,), 1, 200)


def test_mazes_are_seen_by_name_or_by_file(tmp_path):
    assert make_host("maze-pixels/square_tree").spec == ((64, 64, 3), 2, 50)
    (tmp_path / "own.txt").write_text("S..\n.#.\n...\n")
    env = make_host(f"maze-pixels/{tmp_path}/own.txt", noise=0.1)
    assert isinstance(env, Noisy)
    assert env.reset(0).dtype == np.uint8


def test_noise_is_added_only_if_asked_for():
    plain, noisy = make_host("gym/Pendulum-v1"), make_host("gym/Pendulum-v1", noise=0.5)
    assert not isinstance(plain, Noisy)
    assert (plain.reset(1) != noisy.reset(1)).all()


@pytest.mark.parametrize("noise", [-0.1, float("nan"), float("inf")])
def test_noise_that_is_no_deviation_is_refused(noise):
    with pytest.raises(UserError, match=r"--env\.noise"):
        make_host("gym/Pendulum-v1", noise=noise)


@pytest.mark.parametrize(
    ("env", "task", "message"),
    [
        ("walker", "quadruped_walk", "quadruped_walk is not a task of walker: those are walker_stand, walker_walk"),
        ("walker", "gym/Pendulum-v1", "gym/Pendulum-v1 is not a task of walker"),
        ("walker", "walker_wlak", "did you mean 'walker_walk'"),
        ("gym/Pendulum-v1", "walker_walk", "gym/Pendulum-v1 has one task"),
        ("wakler", None, "did you mean 'walker'.*`skillscape envs`"),
        ("zebra", None, "known are walker, quadruped, jaco, walker-pixels, .*gym/ID.*`skillscape envs`"),
        ("walker_walk", None, "give walker as the environment and walker_walk as its task"),
        ("Pendulum-v1", None, "did you mean 'gym/Pendulum-v1'"),
        ("gym/Pendulum-v9", None, "Pendulum-v1"),
        ("walker-pixel", None, "did you mean 'walker-pixels'"),
        ("walker-pixels/refrence", None, "did you mean 'walker-pixels'"),
        ("walker/reference", None, "did you mean 'walker'"),
        ("walker-pixels", "quadruped_walk", "not a task of walker-pixels: those are walker_stand, walker_walk"),
        ("maze-pixels/square_q", None, "did you mean 'square_"),
        ("maze-pixels/square_a", "walker_walk", "maze-pixels/square_a has no tasks"),
        ("maze-pixels", None, "did you mean 'maze-pixels/NAME'"),
        ("maze-pixels/nowhere.txt", None, "no maze file nowhere.txt"),
    ],
)
def test_mistakes_are_told(env, task, message):
    with pytest.raises(UserError, match=message):
        make_host(env, task)


def test_the_listing_covers_the_domains_and_keeps_their_sizes():
    listed = dict(HOST_ENVS)
    assert [*DOMAINS, *PIXEL_DOMAINS, "maze-pixels/NAME", "gym/ID"] == list(listed)
    for name, domain in DOMAINS.items():
        for number in (domain.obs_size, domain.action_size, domain.horizon):
            assert f"{number:,} " in listed[name]
