"""DreamerV2: a world model learned from sequences, and a policy learned in what it imagines."""

from skillscape.backbones.dreamer.agent import Dreamer
from skillscape.backbones.dreamer.config import BehaviourConfig, ObjectiveConfig, ReplayConfig, WorldConfig

__all__ = ["BehaviourConfig", "Dreamer", "ObjectiveConfig", "ReplayConfig", "WorldConfig"]
