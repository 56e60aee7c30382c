"""Widgets: one a file, each holds traits and messages and forwards. `workbench` puts them together."""
