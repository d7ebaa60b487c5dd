"""What can go wrong besides the input."""


class WorkerError(Exception):
    """A process has ended before its work, or with an error of its own."""
