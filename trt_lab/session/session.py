"""The only stateful object: model, probes, plan, samples, records and the running job.

It calls the layers to its left in order and computes nothing itself. It knows no UI: whoever
shows it subscribes with `observe` and reads its properties. All of it may be called from several
threads (in a notebook the handlers of a click run beside the cell).
"""

from __future__ import annotations

from trt_lab.options import describe_options
from trt_lab.session.diagnosis import Diagnosis
from trt_lab.session.insight import Insight
from trt_lab.session.quantisation import Quantisation


class Session(Diagnosis, Insight, Quantisation):
    """One model under examination.

    Args:
        model: Path, bytes, ModelProto, onnx_ir.Model, or `zoo:NAME` for a built-in model.
        records: Folder for the records; default a folder of the user's data directory, one for each model.
        executor: Runs the builds instead of a child process of this one (`concurrent.futures.Executor`,
            for instance a Dask client's `get_executor()`).

    Raises:
        ModelError: The model cannot be opened.

    Example:
        >>> lab = Session("zoo:l2norm_overflow")
        >>> lab.use(precision="fp16")
        >>> record = lab.build()
        >>> lab.compare().verdict
        'differs'
    """

    def __repr__(self) -> str:
        engine = f"{describe_options(self._options)}, {len(self._probes)} probes"
        return f"<Session {self._model.name}: {engine}, {len(self._records)} records, {self.status.text}>"
