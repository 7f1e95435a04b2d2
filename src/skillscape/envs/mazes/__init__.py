"""The point mazes: their geometry, movement through them, and what they look like from above."""
