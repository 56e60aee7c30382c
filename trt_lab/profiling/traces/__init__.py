"""Traces of other tools: written for Perfetto and `chrome://tracing`, read from torch and Nsight Systems."""
