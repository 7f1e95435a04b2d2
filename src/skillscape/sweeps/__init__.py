"""A grid of pre-training and fine-tuning runs as a dependency graph, on the cores of one machine or on Ray."""
