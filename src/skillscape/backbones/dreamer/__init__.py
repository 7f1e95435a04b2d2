"""DreamerV2: a world model learned from sequences, and a policy learned in what it imagines."""

from skillscape.backbones.dreamer.agent import Dreamer

__all__ = ["Dreamer"]
