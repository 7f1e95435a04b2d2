"""Families of environments. This folder is their registry: a file holds the final classes of its families."""
