"""Edits: one pass a file, old model in, new model out."""
