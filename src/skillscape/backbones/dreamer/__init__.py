"""DreamerV2: a world model learned from sequences, and a policy learned in what it imagines."""
