"""The only stateful object: model, probes, plan, samples, records and the running job."""

from trt_lab.activity import Status
from trt_lab.session.session import Session
from trt_lab.session.subject import Change

__all__ = ["Change", "Session", "Status"]
