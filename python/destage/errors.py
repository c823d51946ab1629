"""What can go wrong. Every exception of the package is a :class:`DestageError`.

The tree mirrors the simulator's own errors: what the command line ends with exit code 2 is an
:class:`OptionError`, what it ends with exit code 1 is one of the others.
"""


class DestageError(Exception):
    """Anything that went wrong in destage. The message is one line and says what to do."""


class OptionError(DestageError, ValueError):
    """An option, policy, workload or goal that does not exist or is out of range."""


class InputError(DestageError):
    """A trace, spec or dataset that cannot be read; the message names file and place."""


class RunError(DestageError):
    """A run that was begun and could not be finished."""


class RefusedError(RunError):
    """The controller refused a request, such as one past the end of the volume."""


class NoRequestsError(RunError):
    """The load had no request at all."""


class PolicyError(RunError):
    """A policy written in Python broke its contract."""


class MissingExtraError(DestageError, ImportError):
    """An optional package is needed that is not installed; the message says how to get it."""
