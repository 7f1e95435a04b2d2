"""Figures. Nothing here imports JAX."""
