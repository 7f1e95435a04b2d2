"""Environments."""

IMAGE_SIDE = 64
"""Height and width of every image observation."""
IMAGE_SHAPE = (IMAGE_SIDE, IMAGE_SIDE, 3)
