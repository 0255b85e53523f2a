"""Looks into mailboxes over IMAP: finds messages by Message-ID, reads envelopes and never a body."""

import imaplib
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from pathlib import Path
from typing import Final

from branches.ports import JsonValue, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.destinations.connections import MOST_LIST_BYTES, connect
from debugger.adapters.destinations.imap_lists import Item, NoList, items_of
from debugger.adapters.options import TargetUnfit, local_path, text, text_or, texts
from debugger.adapters.outbound import READ_S, Unreachable
from debugger.adapters.plain_files import is_plain
from debugger.adapters.servers import ends_after

MOST_FOUND: Final = 20
MOST_LISTED: Final = 500
_MOST_MAILBOXES: Final = 20
_PORTS: Final = {"tls": 993, "starttls": 143, "none": 143}
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ID: Final = re.compile(r"<[A-Za-z0-9!#$%&'*+/=?^_`{|}~.@-]{3,240}>")
_ADDRESSES: Final = {"from": 2, "to": 5, "cc": 6, "bcc": 7}
_ENVELOPE_ITEMS: Final = 10


@dataclass(frozen=True, slots=True)
class Message:
    """A message by its place in its mailbox and its envelope."""

    mailbox: str
    validity: int
    uid: int
    at: datetime | None
    envelope: Mapping[str, JsonValue]

    @property
    def version(self) -> str:
        """The mailbox's validity and the message's number in it: a later message has a higher one."""
        return f"{self.validity}.{self.uid}"


def message_id(written: str) -> str:
    """Return a Message-ID that can be asked for. Raises TargetUnfit."""
    if not _ID.fullmatch(written):
        raise TargetUnfit("message_id", "message_id")
    return written


def mailboxes(target: Target) -> list[str]:
    """Return the mailboxes to look into. Raises TargetUnfit."""
    found = texts(target.options.get("mailbox"), "mailbox")
    if not 1 <= len(found) <= _MOST_MAILBOXES or not all(
        re.fullmatch(r"[\x20-\x7e]+", each) for each in found
    ):
        raise TargetUnfit("mailbox", "list:text")
    return found


class Mailboxes:
    """A session in which mailboxes are looked into, and nothing is changed."""

    def __init__(self, session: imaplib.IMAP4) -> None:
        self._session = session

    def by_id(self, mailbox: str, identity: str) -> list[Message]:
        """Return the messages of a mailbox that have a Message-ID."""
        validity, _ = self.opened(mailbox)
        # The search finds parts of a header too: what counts is the whole of it.
        found = self._search("HEADER", "Message-ID", f'"{identity}"')
        if len(found) > MOST_FOUND:
            raise Unreachable("ambiguous")
        shown = self._fetched(mailbox, validity, found)
        return [each for each in shown if each.envelope["message_id"] == identity]

    def since(self, mailbox: str, moment: datetime) -> list[Message]:
        """Return the messages of a mailbox that came since a moment."""
        validity, _ = self.opened(mailbox)
        # A search by date knows no zones: a day more, and the times themselves afterwards.
        day = date.fromordinal(moment.astimezone(UTC).date().toordinal() - 1)
        found = self._search("SINCE", f"{day.day:02}-{_MONTHS[day.month - 1]}-{day.year:04}")
        if len(found) > MOST_LISTED:
            raise Unreachable("too_many")
        shown = self._fetched(mailbox, validity, found)
        return [each for each in shown if each.at is None or each.at >= moment]

    def opened(self, mailbox: str) -> tuple[int, int | None]:
        """Open a mailbox for reading; return its validity and the number its next message gets."""
        quoted = '"' + mailbox.replace("\\", "\\\\").replace('"', '\\"') + '"'
        kind, _ = self._session.select(quoted, readonly=True)
        if kind != "OK":
            raise Unreachable("mailbox_absent")
        validity, following = self._number("UIDVALIDITY"), self._number("UIDNEXT")
        if validity is None:
            raise Unreachable("version_unreadable")
        return validity, following

    def _number(self, word: str) -> int | None:
        _, said = self._session.response(word)
        last = said[-1] if said else None
        return int(last) if isinstance(last, bytes) and last.isdigit() else None

    def _search(self, *terms: str) -> list[int]:
        kind, found = self._session.uid("SEARCH", *terms)
        if kind != "OK" or not found or not isinstance(found[0], bytes):
            raise Unreachable("no_answer")
        return sorted({int(each) for each in found[0].split()})

    def _fetched(self, mailbox: str, validity: int, uids: Sequence[int]) -> list[Message]:
        if not uids:
            return []
        kind, answer = self._session.uid("FETCH", ",".join(map(str, uids)), "(UID INTERNALDATE ENVELOPE)")
        if kind != "OK":
            raise Unreachable("no_answer")
        named = [_named(each) for each in items_of(answer)]
        shown = [_message(mailbox, validity, each) for each in named if b"ENVELOPE" in each]
        if {each.uid for each in shown} != set(uids):  # some went while they were looked at
            raise Unreachable("changing")
        return sorted(shown, key=lambda each: each.uid)


@contextmanager
def session(target: Target) -> Iterator[Mailboxes]:
    """Sign in at the checked address and out again. Raises Unreachable and TargetUnfit."""
    user, password = _secret(target, "user_env"), _secret(target, "password_env")
    raw, host, tls = _connected(target)
    with raw, ends_after(raw.fileno(), READ_S) as is_cut:
        try:
            with _opened(raw, host) as signed_in:
                if tls is not None:
                    signed_in.starttls(tls)
                _sign_in(signed_in, user, password)
                yield Mailboxes(signed_in)
        except (Unreachable, TargetUnfit):
            raise
        except (imaplib.IMAP4.error, NoList, OSError, ValueError, LookupError):
            raise Unreachable("timeout" if is_cut.is_set() else "no_answer") from None
        if is_cut.is_set():
            raise Unreachable("timeout")


@contextmanager
def _opened(raw: socket.socket, host: str) -> Iterator["_Session"]:
    """Speak IMAP over a connection, and say goodbye where all went well."""
    signed_in = _Session(raw, host)
    try:
        yield signed_in
        with suppress(imaplib.IMAP4.error, OSError, Unreachable):
            signed_in.logout()
    finally:
        with suppress(OSError):
            signed_in.shutdown()


def _sign_in(signed_in: imaplib.IMAP4, user: str, password: str) -> None:
    try:
        signed_in.login(user, password)
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error:
        raise Unreachable("not_authorized") from None


def _connected(target: Target) -> tuple[socket.socket, str, ssl.SSLContext | None]:
    """Return the connection, the name it is for, and what is still to be encrypted with."""
    security, host = text_or(target, "security", "tls"), text(target, "host")
    port = target.options.get("port", _PORTS.get(security))
    if security not in _PORTS or isinstance(port, bool) or not isinstance(port, int):
        raise TargetUnfit("security", "tls_starttls_none")
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]*[A-Za-z0-9])?", host):
        raise TargetUnfit("host", "name")
    if security == "none" and target.options.get("allow") != "loopback":
        raise TargetUnfit("security", "loopback")
    try:
        allowed = Allowed.of(target.options.get("allow"))
        context = None
        if security != "none":
            context = ssl.create_default_context(cafile=_ca_file(target))
    except (ValueError, OSError):
        raise TargetUnfit("ca_file", "readable") from None
    raw = connect(host, port, allowed, context if security == "tls" else None)
    return raw, host, context if security == "starttls" else None


def _ca_file(target: Target) -> Path | None:
    """Return the file of certificates to believe. Raises TargetUnfit, for a pipe too."""
    if "ca_file" not in target.options:
        return None
    if not is_plain(path := local_path(target, "ca_file")):
        raise TargetUnfit("ca_file", "readable")
    return path


def _secret(target: Target, option: str) -> str:
    secret = os.environ.get(text(target, option), "")
    if not re.fullmatch(r"[\x20-\x7e]+", secret):
        raise Unreachable("secret_missing")
    return secret


class _Session(imaplib.IMAP4):
    """IMAP over a connection that is there already, of which only so much is read."""

    def __init__(self, raw: socket.socket, host: str) -> None:
        self._raw = raw
        self._left = MOST_LIST_BYTES
        super().__init__(host, timeout=READ_S)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        del timeout
        return self._raw

    def read(self, size: int) -> bytes:
        """Read a literal, if it may still come."""
        if size > self._left:
            raise Unreachable("too_large")
        return self._counted(super().read(size))

    def readline(self) -> bytes:
        """Read a line, if it may still come."""
        return self._counted(super().readline())

    def _counted(self, found: bytes) -> bytes:
        self._left -= len(found)
        if self._left < 0:
            raise Unreachable("too_large")
        return found


def _named(items: list[Item]) -> dict[bytes, Item]:
    pairs = zip(items[::2], items[1::2], strict=True)
    return {name.upper(): value for name, value in pairs if isinstance(name, bytes)}


def _message(mailbox: str, validity: int, named: dict[bytes, Item]) -> Message:
    uid, at, envelope = named.get(b"UID"), named.get(b"INTERNALDATE"), named[b"ENVELOPE"]
    if not isinstance(uid, bytes) or not isinstance(envelope, list) or len(envelope) != _ENVELOPE_ITEMS:
        raise NoList("envelope")
    moment = _moment(at) if isinstance(at, bytes) else None
    return Message(mailbox, validity, int(uid), moment, _envelope(envelope))


def _moment(written: bytes) -> datetime | None:
    with suppress(ValueError, UnicodeDecodeError):
        return datetime.strptime(written.decode("ascii").strip(), "%d-%b-%Y %H:%M:%S %z")
    return None


def _envelope(items: list[Item]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "subject": _decoded(items[1]),
        "message_id": _plain(items[9]),
    }
    for name, place in _ADDRESSES.items():
        found[name] = _addresses(items[place])
    return found


def _addresses(items: Item) -> list[JsonValue]:
    """Return the addresses of a field in small letters, sorted; the names beside them are left out."""
    found: set[str] = set()
    for each in items if isinstance(items, list) else []:
        if isinstance(each, list) and len(each) == 4 and each[2] is not None and each[3] is not None:
            found.add(f"{_plain(each[2])}@{_plain(each[3])}".lower())
    return [*sorted(found)]


def _plain(item: Item) -> str | None:
    return item.decode("utf-8", "replace").strip() if isinstance(item, bytes) else None


def _decoded(item: Item) -> str | None:
    written = _plain(item)
    if written is None:
        return None
    with suppress(HeaderParseError, LookupError, UnicodeError, ValueError):
        return str(make_header(decode_header(written)))
    return written
