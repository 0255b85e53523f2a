"""A real SMTP server on this machine: it keeps the mails it takes, and refuses when it is told to."""

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

from aiosmtpd.controller import Controller

from debugger.supervisor import free_port


class Mailbox:
    """What came, and what is said to whoever writes: `refusal` is said instead of taking a mail."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.recipients: list[list[str]] = []
        self.refusal = ""
        self.port = 0

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.refusal:
            return f"{self.refusal} {address} is not wanted"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(message_from_bytes(envelope.content))
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"

    def mailers(self) -> dict[str, Any]:
        """Return the setting by which Django mails here."""
        options = {"host": "127.0.0.1", "port": self.port, "timeout": 10}
        return {"default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": options}}


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    made.port = free_port()
    controller = Controller(made, hostname="127.0.0.1", port=made.port)
    controller.start()
    try:
        yield made
    finally:
        controller.stop(no_assert=True)
