"""The table of domains and tasks, which must not need dm_control or JAX."""

import subprocess
import sys

import pytest

from skillscape.envs.urlb.tasks import DOMAINS, TASKS, domain_of
from skillscape.errors import UserError


def test_twelve_tasks_in_three_domains():
    assert list(DOMAINS) == ["walker", "quadruped", "jaco"]
    assert len(TASKS) == len(set(TASKS)) == 12
    assert {domain.name: domain.primal_task for domain in DOMAINS.values()} == {
        "walker": "walker_stand",
        "quadruped": "quadruped_walk",
        "jaco": "jaco_reach_top_left",
    }


@pytest.mark.parametrize("domain", DOMAINS.values())
def test_every_task_leads_back_to_its_domain(domain):
    assert domain.primal_task in domain.tasks
    assert len(domain.tasks) == 4
    assert {domain_of(task).name for task in domain.tasks} == {domain.name}


def test_an_unknown_task_gets_the_nearest_one():
    with pytest.raises(UserError, match="did you mean 'walker_walk'"):
        domain_of("walker_wlak")


def test_the_table_imports_neither_dm_control_nor_jax():
    program = "import sys, skillscape.envs.urlb.tasks; sys.exit(bool({'jax', 'dm_control', 'mujoco'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", program], check=True)
