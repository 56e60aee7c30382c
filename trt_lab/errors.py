"""All errors of trt-lab.

Every message names the file, node or tensor it is about and says what to do.
Only `cli` prints them and only `widgets` shows them; both show `str(error)` and
never a traceback. Vendor exceptions are translated once, where they arise, with
`raise … from`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trt_lab.types import LogLine


class TrtLabError(Exception):
    """Base of every error that trt-lab raises on purpose."""


class ModelError(TrtLabError):
    """A model that cannot be read, or that is not valid."""


class EditError(TrtLabError):
    """An edit that the model does not allow: no such tensor, inside a subgraph, …"""


class InputError(TrtLabError):
    """Samples that do not fit the model: wrong names, shapes or types."""


class RecordError(TrtLabError):
    """A record, golden or tensor file that cannot be read or written."""


class CompareError(TrtLabError):
    """Two sides that cannot be compared."""


class UsageError(TrtLabError):
    """A request that makes no sense here: unknown backend, golden missing, …"""


class BackendError(TrtLabError):
    """Base of what goes wrong in a backend.

    Attributes:
        log: What the backend told before it failed, for the record.
    """

    log: tuple[LogLine, ...] = ()


class BackendUnavailableError(BackendError):
    """The backend cannot build or run on this machine; the message is its reason."""


class BuildError(BackendError):
    """The backend refused the model or failed while building."""


class RunError(BackendError):
    """The engine failed while running."""


class WorkerCrashedError(BackendError):
    """The child process died (signal, abort, out of memory). The next build works."""


class CancelledError(TrtLabError):
    """The user cancelled. Not a failure."""
