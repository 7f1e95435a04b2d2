"""Unsupervised skill discovery in JAX: SD3 and the methods it is compared with.

>>> import skillscape
>>> run = skillscape.pretrain("sd3", env="maze/square_a", out="runs/sd3")
>>> policy = run.policy(skill=3)
>>> action = policy(obs)
"""

import importlib
from typing import TYPE_CHECKING

from skillscape.envs.gymnasium_export import register as _register_mazes
from skillscape.registry import name_module as _name_module

__version__ = "0.1.0"

if TYPE_CHECKING:
    from skillscape.api import (
        evaluate,
        finetune,
        goals,
        load,
        load_seeds,
        pretrain,
        pretraining_config,
        rollouts,
        summarise_runs,
        train,
        training_config,
    )
    from skillscape.backbones.base import Backbone, VectorBackbone
    from skillscape.config import EvaluationConfig, RunConfig
    from skillscape.envs.base import EnvFamily, HostEnv, HostStep, JaxEnv, Timestep
    from skillscape.envs.gymnasium_export import make
    from skillscape.errors import UserError
    from skillscape.evaluation.evaluators import Evaluation
    from skillscape.evaluation.goals import GoalReaching
    from skillscape.evaluation.scoreboard import scoreboard
    from skillscape.export import export_run
    from skillscape.functional import make_train
    from skillscape.nets import MLP
    from skillscape.objectives.base import Objective, Scale
    from skillscape.optim import TrainState, adam, gradient_step
    from skillscape.plugins import register
    from skillscape.skill_env import SkillEnv
    from skillscape.skills import Box, Discrete, NoSkill, SignedBox, SkillSpace, Sphere
    from skillscape.training.callbacks import Callback, TensorBoard, WeightsAndBiases
    from skillscape.training.policy import Policy
    from skillscape.training.run import Run
    from skillscape.types import (
        EnvSpec,
        Experience,
        Metrics,
        RandomKey,
        Rollout,
        Schedule,
        Sequences,
        Spec,
        Transitions,
    )

# Public names by module, loaded on first use, so that `import skillscape` and the plots do not import JAX.
_MODULES = {
    "api": (
        "evaluate",
        "finetune",
        "goals",
        "load",
        "load_seeds",
        "pretrain",
        "pretraining_config",
        "rollouts",
        "summarise_runs",
        "train",
        "training_config",
    ),
    "backbones.base": ("Backbone", "VectorBackbone"),
    "config": ("EvaluationConfig", "RunConfig"),
    "envs.base": ("EnvFamily", "HostEnv", "HostStep", "JaxEnv", "Timestep"),
    "envs.gymnasium_export": ("make",),
    "errors": ("UserError",),
    "evaluation.evaluators": ("Evaluation",),
    "evaluation.goals": ("GoalReaching",),
    "evaluation.scoreboard": ("scoreboard",),
    "export": ("export_run",),
    "functional": ("make_train",),
    "nets": ("MLP",),
    "objectives.base": ("Objective", "Scale"),
    "optim": ("TrainState", "adam", "gradient_step"),
    "plugins": ("register",),
    "skill_env": ("SkillEnv",),
    "skills": ("Box", "Discrete", "NoSkill", "SignedBox", "SkillSpace", "Sphere"),
    "training.callbacks": ("Callback", "TensorBoard", "WeightsAndBiases"),
    "training.policy": ("Policy",),
    "training.run": ("Run",),
    "types": (
        "EnvSpec",
        "Experience",
        "Metrics",
        "RandomKey",
        "Rollout",
        "Schedule",
        "Sequences",
        "Spec",
        "Transitions",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [
    "MLP",
    "Backbone",
    "Box",
    "Callback",
    "Discrete",
    "EnvFamily",
    "EnvSpec",
    "Evaluation",
    "EvaluationConfig",
    "Experience",
    "GoalReaching",
    "HostEnv",
    "HostStep",
    "JaxEnv",
    "Metrics",
    "NoSkill",
    "Objective",
    "Policy",
    "RandomKey",
    "Rollout",
    "Run",
    "RunConfig",
    "Scale",
    "Schedule",
    "Sequences",
    "SignedBox",
    "SkillEnv",
    "SkillSpace",
    "Spec",
    "Sphere",
    "TensorBoard",
    "Timestep",
    "TrainState",
    "Transitions",
    "UserError",
    "VectorBackbone",
    "WeightsAndBiases",
    "adam",
    "evaluate",
    "export_run",
    "finetune",
    "goals",
    "gradient_step",
    "load",
    "load_seeds",
    "make",
    "make_train",
    "pretrain",
    "pretraining_config",
    "register",
    "rollouts",
    "scoreboard",
    "summarise_runs",
    "train",
    "training_config",
]


def __getattr__(name: str) -> object:
    """Load a name from its module on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'skillscape' has no attribute {name!r}")
    return getattr(importlib.import_module(f"skillscape.{_HOME[name]}"), name)


# Gymnasium reads no entry points, so importing this package registers its environments (without importing JAX).
_register_mazes()
# The family skills/RUN loads a policy, so it is above the other families and not in their folder.
_name_module("skillscape.env_families", "skillscape.skill_control")
