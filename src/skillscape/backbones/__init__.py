"""Backbones: ways to learn to act."""
