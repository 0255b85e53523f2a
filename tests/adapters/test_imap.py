"""The mail destination and verifier against a real Dovecot, and against servers that break off."""

import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from branches.ports import (
    Answer,
    Baseline,
    Check,
    DestinationQuery,
    ListsArrivals,
    OutcomeVerifier,
    Question,
    Target,
)
from debugger.adapters.destinations.imap import ImapDestination, ImapVerifier, recipient_digest
from debugger.adapters.destinations.imap_lists import NoList, items_of
from tests.adapters.mail_server import PASSWORD, USER, MailServer
from tests.adapters.places import KEY, MARKER, target
from tests.adapters.talks import NAMED, OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.patience import ends

ID = f"<{NAMED}@agents.example.org>"
OTHER_ID = f"<{OTHER.replace(':', '-')}@agents.example.org>"
needs_dovecot = pytest.mark.skipif(shutil.which("dovecot") is None, reason="dovecot is not on this machine")


def mail(
    identity: str = ID, to: str = "Ada <ada@example.org>", subject: str = MARKER, more: str = ""
) -> bytes:
    return (
        f"Message-ID: {identity}\r\nFrom: Desk <desk@example.org>\r\nTo: {to}\r\nSubject: {subject}\r\n{more}"
        f"Date: Mon, 30 Nov 2026 12:00:00 +0000\r\n\r\n{MARKER} {MARKER}\r\n"
    ).encode()


@pytest.fixture(scope="module")
def dovecot() -> Iterator[MailServer]:
    made = MailServer()
    yield made
    made.close()


@pytest.fixture
def desk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MailServer:
    made: MailServer = request.getfixturevalue("dovecot")
    made.empty("INBOX", "Archive", "Sent Items")
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    return made


def place(port: Any, **changes: Any) -> Target:
    options = {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "user_env": "MAIL_USER",
        "password_env": "MAIL_PASSWORD",
        "mailbox": ["INBOX"],
        "message_id": "<{operation_key}@agents.example.org>",
        "absent": True,
        "expected": {"mail": {}, "to_ada": {"recipient": recipient_digest(KEY, "ada@example.org")}},
        "allow": "loopback",
        **changes,
    }
    return target(**{name: value for name, value in options.items() if value is not None})


def ask(where: Target, sent: str | None = None) -> Any:
    return ImapDestination().ask(where, Question(OPERATION, "send_mail", sent))


def check(where: Target, base: str | None, *keys: str, expected: str = "mail") -> Any:
    return ImapVerifier().check(where, expected, base, frozenset(keys))


def test_it_fulfils_its_ports() -> None:
    assert isinstance(ImapDestination(), DestinationQuery)
    assert isinstance(ImapDestination(), ListsArrivals)
    assert isinstance(ImapVerifier(), OutcomeVerifier)
    assert ImapDestination.limits.endswith(".")


@needs_dovecot
def test_it_finds_the_message_of_an_operation_by_its_whole_id(desk: MailServer) -> None:
    desk.put(mail(OTHER_ID))
    desk.put(mail(f"<x{ID[1:-1]}>"))
    desk.put(mail(f"{ID[:-1]}.org>"))
    assert ask(place(desk.plain)).answer is Answer.ABSENT
    desk.put(mail())
    found = ask(place(desk.plain))
    assert found.answer is Answer.PRESENT
    validity, _, uid = found.version.partition(".")
    assert (validity.isdigit(), uid.isdigit()) == (True, True)
    assert found.ref == KEY.digest("ref", ID)
    assert nothing_of(found, MARKER, "ada", "example.org", NAMED)


@needs_dovecot
def test_it_reads_no_body_and_changes_no_flag(desk: MailServer) -> None:
    desk.put(mail())
    ask(place(desk.plain))
    with desk.session() as signed_in:
        signed_in.select("INBOX", readonly=True)
        assert b"\\Seen" not in signed_in.fetch("1", "(FLAGS)")[1][0]
    assert b"BODY" not in (desk.folder / "log").read_bytes()


@needs_dovecot
def test_what_is_not_found_is_absent_only_where_the_target_says_so(desk: MailServer) -> None:
    found = ask(place(desk.plain, absent=None))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "not_found")


@needs_dovecot
def test_one_id_twice_in_a_mailbox_is_no_answer_and_a_copy_elsewhere_is_the_same(desk: MailServer) -> None:
    desk.put(mail())
    desk.put(mail(more="Bcc: eve@example.org\r\n"), mailbox='"Sent Items"')
    both = place(desk.plain, mailbox=["INBOX", "Sent Items"])
    assert ask(both).answer is Answer.PRESENT
    desk.put(mail(subject="other"), mailbox="Archive")
    assert ask(place(desk.plain, mailbox=["INBOX", "Archive"])).problem == "ambiguous"
    desk.put(mail())
    assert ask(both).problem == "ambiguous"
    assert ask(place(desk.plain, mailbox=["INBOX", MARKER])).problem == "mailbox_absent"


@needs_dovecot
def test_it_compares_the_recipient_and_rebuilds_the_payload(desk: MailServer) -> None:
    desk.put(mail(subject="=?utf-8?q?Gr=C3=BC=C3=9Fe?=", to="ADA@example.org, bob@example.org"))
    ada, eve = recipient_digest(KEY, "Ada@Example.org "), recipient_digest(KEY, "eve@example.org")
    assert ask(place(desk.plain, recipient=ada)).answer is Answer.PRESENT
    assert ask(place(desk.plain, recipient=eve)).answer is Answer.CHANGED
    where = place(desk.plain, payload=["subject", "to"], fields={"to": "to.0"})
    sent = payload({"subject": "Grüße", "to": "ada@example.org"}, "send_mail")
    assert (ask(where, sent).answer, ask(where, sent).fingerprint) == (Answer.PRESENT, sent)
    other = payload({"subject": "Grüße", "to": "bob@example.org"}, "send_mail")
    assert ask(where, other).answer is Answer.CHANGED


@needs_dovecot
@pytest.mark.parametrize("subject", ['a "quoted" \\ one', "(brackets) {12}", "ü" * 40, "NIL", ""])
def test_it_reads_envelopes_whatever_their_subject(desk: MailServer, subject: str) -> None:
    desk.put(mail(subject=subject))
    where = place(desk.plain, payload=["subject"])
    sent = payload({"subject": subject}, "send_mail")
    assert ask(where, sent).answer is Answer.PRESENT


@needs_dovecot
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_it_speaks_tls_to_the_name_it_was_given(desk: MailServer, security: str, host: str) -> None:
    if socket.getaddrinfo(host, 1, type=socket.SOCK_STREAM)[0][4][0] != "127.0.0.1":
        pytest.skip("localhost is another address on this machine")
    desk.put(mail())
    port = desk.tls if security == "tls" else desk.plain
    options = {"security": security, "host": host, "ca_file": str(desk.ca_file)}
    assert ask(place(port, **options)).answer is Answer.PRESENT
    unknown = ask(place(port, security=security, host=host))
    assert (unknown.answer, unknown.problem in {"no_connection", "no_answer"}) == (Answer.UNKNOWN, True)


@needs_dovecot
def test_it_takes_no_wrong_password_for_an_empty_mailbox(
    desk: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "wrong")
    assert ask(place(desk.plain)).problem == "not_authorized"
    monkeypatch.delenv("MAIL_PASSWORD")
    assert ask(place(desk.plain)).problem == "secret_missing"


@needs_dovecot
def test_it_passes_only_a_message_of_this_run_that_came_after_the_baseline(desk: MailServer) -> None:
    where = place(desk.plain)
    desk.put(mail(OTHER_ID))
    base = ImapVerifier().baseline(where, "mail").version
    assert base is not None
    assert check(where, base, OPERATION).problem == "nothing_there"
    assert check(where, base, OTHER).problem == "none_newer"
    desk.put(mail())
    passed = check(where, base, OPERATION, OTHER)
    assert (passed.check, passed.fresh) == (Check.PASSED, True)
    assert passed.version != base
    assert check(where, base).problem == "nothing_there"
    desk.empty("INBOX")  # the number of a message that is gone is not given again
    assert ImapVerifier().baseline(where, "mail") == Baseline(passed.version, reachable=True)
    made_anew = check(where, "1.1", OTHER)
    assert made_anew.problem == "nothing_there"
    desk.put(mail())
    unordered = check(where, "1.1", OPERATION)
    assert (unordered.check, unordered.problem) == (Check.UNREACHABLE, "version_unordered")


@needs_dovecot
def test_it_names_the_term_that_was_not_met(desk: MailServer) -> None:
    where = place(desk.plain)
    desk.put(mail(to="eve@example.org"))
    failed = check(where, None, OPERATION, expected="to_ada")
    assert (failed.check, failed.difference) == (Check.FAILED, ("recipient",))
    desk.put(mail(OTHER_ID, more="Cc: ada@example.org\r\n", to="eve@example.org"))
    assert check(where, None, OTHER, expected="to_ada").check is Check.PASSED
    assert check(where, None, OTHER, expected="memo").problem == "target_unfit"
    assert check(place(desk.plain, mailbox=["INBOX", "Archive"]), None, OTHER).problem == "target_unfit"


@needs_dovecot
def test_it_lists_every_message_since_a_moment(desk: MailServer) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    desk.put(mail(), at=now)
    desk.put(mail(f"<{MARKER}@example.org>"), at=now - timedelta(hours=1))
    desk.put(mail(OTHER_ID), at=now - timedelta(days=3))
    desk.put(mail(OTHER_ID), at=now, mailbox="Archive")
    where = place(desk.plain, mailbox=["INBOX", "Archive"])
    listed = ImapDestination().arrivals(where, now - timedelta(hours=2))
    assert listed is not None
    assert [each.operation_key for each in listed] == [OPERATION, None, OTHER]
    assert [each.at for each in listed] == [now, now - timedelta(hours=1), now]
    assert MARKER not in repr(listed)
    assert ImapDestination().arrivals(place(desk.plain, mailbox=["None"]), now) is None
    assert ImapDestination().arrivals(place(1), now) is None
    assert ImapDestination().lists(where)
    assert not ImapDestination().lists(place(1, message_id="<a@b>"))


@pytest.mark.parametrize(
    "options",
    [
        {"message_id": "<fixed@example.org>"},
        {"message_id": "{operation_key}"},
        {"message_id": '<"{operation_key}@x>'},
        {"mailbox": []},
        {"mailbox": "INBOX"},
        {"mailbox": ["IN\r\nBOX"]},
        {"security": "ssl"},
        {"security": "none", "allow": ["127.0.0.0/8"]},
        {"port": "143"},
        {"host": "a b"},
        {"ca_file": "/nowhere", "security": "tls"},
        {"allow": 1},
    ],
)
def test_it_says_unknown_where_its_target_is_unfit(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with server(says(b"* OK\r\n")) as port:
        found = ask(place(**{"port": port, **options}))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "target_unfit")


def test_it_asks_no_address_that_was_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    assert ask(place(9, security="tls", allow=None)).problem == "address_refused"
    assert ask(place(9)).problem == "no_connection"


class Script:
    """A server that answers each command by its place, and may say something else at one of them."""

    WORDS = ("CAPABILITY", "LOGIN", "EXAMINE", "SEARCH", "FETCH")

    def __init__(self, at: str, said: bytes) -> None:
        self.at, self.said = at, said

    def __call__(self, connection: Any) -> None:
        connection.sendall(b"* OK here\r\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                tag = line.split()[0]
                word = next((each for each in self.WORDS if each.encode() in line.upper()), "")
                if word == self.at:
                    connection.sendall(self.said.replace(b"TAG", tag))
                    if not self.said.endswith(b"\r\n"):
                        return
                    continue
                connection.sendall(self.answer(word) + tag + b" OK done\r\n")

    def answer(self, word: str) -> bytes:
        return {
            "CAPABILITY": b"* CAPABILITY IMAP4rev1\r\n",
            "EXAMINE": b"* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 9] x\r\n",
            "SEARCH": b"* SEARCH 8\r\n",
            "FETCH": b"",
        }.get(word, b"")


@pytest.mark.parametrize(
    ("at", "said", "problem"),
    [
        ("CAPABILITY", b"", "no_answer"),
        ("LOGIN", b"", "no_answer"),
        ("LOGIN", b"TAG NO x\r\n", "not_authorized"),
        ("EXAMINE", b"TAG NO x\r\n", "mailbox_absent"),
        ("EXAMINE", b"TAG OK x\r\n", "version_unreadable"),
        ("SEARCH", b"", "no_answer"),
        ("SEARCH", b"* SEARCH a b\r\nTAG OK x\r\n", "no_answer"),
        ("SEARCH", b"TAG BAD x\r\n", "no_answer"),
        ("SEARCH", b"* SEARCH " + b" ".join(b"%d" % n for n in range(50)) + b"\r\nTAG OK x\r\n", "ambiguous"),
        ("FETCH", b"TAG OK x\r\n", "changing"),
        ("FETCH", b"* 1 FETCH (UID 8 ENVELOPE (NIL))\r\nTAG OK x\r\n", "no_answer"),
        ("FETCH", b"* 1 FETCH (UID 8 ENVELOPE (((((((((((((\r\nTAG OK x\r\n", "no_answer"),
        ("FETCH", b"* 1 FETCH (UID 8 ENVELOPE {99999999}\r\nx", "too_large"),
        ("FETCH", b"* 1 FETCH (UID 8 ENVELOPE {10}\r\nx", "no_answer"),
        ("FETCH", b"* 1 FETCH (UID 8 INTERNALDATE", "no_answer"),
    ],
)
def test_a_server_that_breaks_off_or_talks_nonsense_is_unknown(
    at: str, said: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with server(Script(at, said)) as port:
        found = ask(place(port))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, problem)


@pytest.mark.parametrize(
    "talk",
    [stalls(), stalls(b"* OK here\r\n"), drips(b"* OK "), drips(b"* OK here\r\n* CAPABILITY ")],
)
def test_a_server_that_stalls_is_left_at_the_deadline(talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with server(talk) as port, ends():
        found = ask(place(port))
    assert (found.answer, found.problem in {"timeout", "no_answer"}) == (Answer.UNKNOWN, True)


@needs_dovecot
def test_a_server_ended_in_the_middle_is_unknown(desk: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = MailServer()
    gone.put(mail())
    where = place(gone.plain)
    assert ask(where).answer is Answer.PRESENT
    gone.close()
    assert ask(where).problem == "no_connection"
    assert check(where, None, OPERATION).check is Check.UNREACHABLE
    assert ImapVerifier().baseline(where, "mail") == Baseline(None, False, "no_connection")


@pytest.mark.parametrize("answer", [[b"1 (UID 8"], [b'1 (UID "8)'], [b")"], [7], [b"1 " + b"(" * 20]])
def test_it_reads_no_list_that_does_not_end(answer: list[Any]) -> None:
    with pytest.raises(NoList):
        items_of(answer)


def test_it_reads_nested_lists_quotes_and_literals() -> None:
    answer = [(b'1 (UID 8 ENVELOPE ("a \\"b\\"" NIL {3}', b'x"y'), b" (a (b))))"]
    assert items_of(answer) == [[b"UID", b"8", b"ENVELOPE", [b'a "b"', None, b'x"y', [b"a", [b"b"]]]]]
