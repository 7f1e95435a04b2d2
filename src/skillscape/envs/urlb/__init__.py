"""The twelve tasks of the Unsupervised RL Benchmark, from states and from images."""
