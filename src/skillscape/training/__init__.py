"""Training loops, runs on disk, checkpoints and logs."""
