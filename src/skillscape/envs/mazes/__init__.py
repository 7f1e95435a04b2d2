"""Point mazes: geometry, dynamics, tasks and rendering."""
