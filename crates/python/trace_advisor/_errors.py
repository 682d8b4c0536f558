"""The exception that all calls raise."""

from __future__ import annotations


class AdvisorError(Exception):
    """Something that the program reports as an error.

    The text is that of the program, with the help below the message. `help` is what to do about it, if there is advice.
    """

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help
