"""Environments: mazes, the Unsupervised RL Benchmark, and Gymnasium's, under two interfaces."""

IMAGE_SIDE = 64
"""Height and width of every image observation, in pixels."""
IMAGE_SHAPE = (IMAGE_SIDE, IMAGE_SIDE, 3)
