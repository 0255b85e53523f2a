"""Mailboxes over IMAP, asked for the message that an operation sent, by its Message-ID; no body is read.

Options of a destination: `host`, `port`, `security` ("tls", "starttls", or "none" with `allow` loopback),
`user_env` and `password_env` (environment variables), `mailbox` (list), `message_id` with `{operation_key}`
(a colon of the key written as a hyphen), `recipient` (the HMAC that `recipient_digest` gives), `absent`
(true where every message that was sent stands in these mailboxes at once: without it, what is not found is
unknown), `payload` and `fields` as http_json has them, over `subject`, `from`, `to`, `cc`, `bcc` (lists of
addresses); `allow`, `ca_file`.

Options of a verifier: the same, with one mailbox; `expected` (expected outcome -> {`recipient`, `from`: HMAC
of an address}, possibly empty).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from branches.evidence.domains import NAME, REF
from branches.evidence.keys import HmacKey
from branches.ports import (
    Answer,
    Arrival,
    Baseline,
    Check,
    DestinationAnswer,
    OutcomeCheck,
    Question,
    Target,
)
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations.imap_mailbox import Mailboxes, Message, mailboxes, message_id, session
from debugger.adapters.destinations.keys_in_names import PLACE, Template
from debugger.adapters.destinations.outcomes import NOTHING, judged, wanted_of
from debugger.adapters.destinations.rebuilt import content_of, found, plain_json
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable

_TERMS: Final = frozenset({"recipient", "from"})
_RECIPIENTS: Final = ("to", "cc", "bcc")
_MOST_KEYS: Final = 50


def recipient_digest(key: HmacKey, address: str) -> str:
    """Return the HMAC under which a recipient's address is declared and compared."""
    return key.digest(NAME, address.strip().lower())


class ImapDestination:
    """Asks mailboxes for the message that carries an operation's key."""

    limits = (
        "A message still under way, filtered, deleted or moved looks as if it was never sent, and one that is"
        " there was not necessarily read; its body is not compared."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what the mailboxes hold now; whatever proves nothing is `unknown`."""
        return answer_of(lambda: _answer(target, question))

    def lists(self, target: Target) -> bool:
        """Whether the mailboxes tell the operations' messages apart."""
        return PLACE in str(target.options.get("message_id"))

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return every message that came since a moment; None where not all mailboxes can be read."""
        try:
            template = Template.of(target, "message_id", needs_key=True)
            names = mailboxes(target)
            with session(target) as opened:
                shown = [each for name in names for each in opened.since(name, since)]
        except (Unreachable, TargetUnfit):
            return None
        return [_arrival(target, template, each) for each in shown]


class ImapVerifier:
    """Looks whether an expected message came into a mailbox since the baseline."""

    limits = "It proves that the message was delivered there, not that somebody read it or what it says."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the number of the mailbox's newest message, there or not any more."""
        del expected
        return baseline_of(lambda: _newest(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a message of this run that came after the baseline."""
        return check_of(lambda: _checked(target, expected, baseline_version, operation_keys))


def _answer(target: Target, question: Question) -> DestinationAnswer:
    template = Template.of(target, "message_id", needs_key=True)
    message = _one(target, message_id(template.filled(question.operation_key)))
    if message is None:
        if target.options.get("absent") is not True:
            raise Unreachable("not_found")
        return DestinationAnswer(Answer.ABSENT)
    answer = found(
        target,
        question,
        dict(message.envelope),
        content=content_of(target, dict(message.envelope)),
        version=message.version,
        ref=target.key.digest(REF, str(message.envelope["message_id"])),
    )
    is_theirs = "recipient" not in target.options or text(target, "recipient") in _digests(target, message)
    if is_theirs:
        return answer
    return DestinationAnswer(Answer.CHANGED, answer.fingerprint, answer.version, answer.ref)


def _one(target: Target, identity: str) -> Message | None:
    """Return the message with an id; the same in several mailboxes is one, twice in one of them is not."""
    names = mailboxes(target)
    with session(target) as opened:
        by_mailbox = [opened.by_id(name, identity) for name in names]
    if any(len(each) > 1 for each in by_mailbox):
        raise Unreachable("ambiguous")
    copies = [message for each in by_mailbox for message in each]
    # A sender's copy may still name whom it hides.
    if len({plain_json({**each.envelope, "bcc": []}) for each in copies}) > 1:
        raise Unreachable("ambiguous")
    return copies[0] if copies else None


def _mailbox(target: Target) -> str:
    names = mailboxes(target)
    if len(names) != 1:
        raise TargetUnfit("mailbox", "one")
    return names[0]


def _newest(target: Target) -> str | None:
    name = _mailbox(target)
    with session(target) as opened:
        validity, following = opened.opened(name)
    if following is None:
        raise Unreachable("version_unreadable")
    return f"{validity}.{following - 1}"


def _checked(
    target: Target, expected: str, baseline: str | None, operation_keys: frozenset[str]
) -> OutcomeCheck:
    wanted, template, name = wanted_of(target, expected), Template.of(target, "message_id"), _mailbox(target)
    if not wanted.keys() <= _TERMS:
        raise TargetUnfit("expected", "declared")
    identities = (
        sorted({message_id(template.filled(key)) for key in operation_keys})
        if template.has_key
        else [message_id(template.before)]
    )
    if len(identities) > _MOST_KEYS:
        raise Unreachable("too_many")
    with session(target) as opened:
        shown = _all(opened, name, identities)
    if not shown:
        return NOTHING
    message = max(shown, key=lambda each: each.uid)
    artifact = content_of(target, dict(message.envelope))
    if baseline is not None and not _is_newer(message, baseline):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=message.version, problem="none_newer")
    return judged(_differing(target, message, wanted), artifact=artifact, version=message.version)


def _all(opened: Mailboxes, name: str, identities: Iterable[str]) -> list[Message]:
    return [message for each in identities for message in opened.by_id(name, each)]


def _is_newer(message: Message, baseline: str) -> bool:
    """Whether a message came after the baseline. Raises Unreachable where the mailbox was made anew."""
    validity, _, uid = baseline.partition(".")
    if validity != str(message.validity) or not uid.isdigit():
        raise Unreachable("version_unordered")
    return message.uid > int(uid)


def _differing(target: Target, message: Message, wanted: Mapping[str, Any]) -> list[str]:
    shown = {"recipient": _digests(target, message), "from": _digests(target, message, ("from",))}
    return sorted(term for term, digest in wanted.items() if digest not in shown[term])


def _digests(target: Target, message: Message, fields: Iterable[str] = _RECIPIENTS) -> set[str]:
    addresses = [message.envelope[field] for field in fields]
    return {
        recipient_digest(target.key, str(each))
        for several in addresses
        if isinstance(several, list)
        for each in several
    }


def _arrival(target: Target, template: Template, message: Message) -> Arrival:
    identity = str(message.envelope["message_id"] or f"{message.mailbox}\0{message.version}")
    ref = target.key.digest(REF, identity)
    return Arrival(ref, template.key_in(identity), message.at)
