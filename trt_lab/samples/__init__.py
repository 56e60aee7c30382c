"""Inputs for a model: seeded samples that make sense for it, and a check of given ones."""

from trt_lab.samples.check import CheckedFeeds, check_feeds
from trt_lab.samples.make import SampleList, make_samples

__all__ = ["CheckedFeeds", "SampleList", "check_feeds", "make_samples"]
