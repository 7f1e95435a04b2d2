"""Rollouts, measures and statistics."""
