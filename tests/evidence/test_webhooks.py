"""Messages that destinations push are believed only with a signature that holds, and in time."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from branches.evidence.versions import is_newer
from branches.evidence.webhooks import WebhookInvalid, secret_of, sign, verify

# The values of the convention's own published example.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = datetime.fromtimestamp(1614265330, UTC)
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def headers(**changed: str) -> dict[str, str]:
    given = {"webhook-id": MESSAGE, "webhook-timestamp": "1614265330", "webhook-signature": SIGNATURE}
    return {**given, **{name.replace("_", "-"): value for name, value in changed.items()}}


def refusal(given: dict[str, str], *, body: bytes = BODY, now: datetime = AT) -> str:
    with pytest.raises(WebhookInvalid) as refused:
        verify(given, body, secret_of(SECRET), now)
    return refused.value.rule


def test_it_verifies_the_conventions_own_example() -> None:
    assert sign(secret_of(SECRET), MESSAGE, AT, BODY) == SIGNATURE
    assert verify(headers(), BODY, secret_of(SECRET), AT) == MESSAGE


def test_one_of_several_signatures_has_to_hold() -> None:
    several = f"v1,{base64.b64encode(b'x' * 32).decode()} v2,other {SIGNATURE}"
    assert verify(headers(webhook_signature=several), BODY, secret_of(SECRET), AT) == MESSAGE


@pytest.mark.parametrize(
    ("off", "rule"), [(299, None), (301, "webhook_too_old"), (-301, "webhook_too_early")]
)
def test_it_is_believed_for_five_minutes_before_and_after(off: int, rule: str | None) -> None:
    now = AT + timedelta(seconds=off)
    if rule is None:
        assert verify(headers(), BODY, secret_of(SECRET), now) == MESSAGE
    else:
        assert refusal(headers(), now=now) == rule


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"webhook_id": ""}, "webhook_id"),
        ({"webhook_id": "a.b"}, "webhook_id"),
        ({"webhook_id": "x" * 129}, "webhook_id"),
        ({"webhook_timestamp": "now"}, "webhook_timestamp"),
        ({"webhook_timestamp": "-1"}, "webhook_timestamp"),
        ({"webhook_timestamp": "1614265331"}, "webhook_signature"),
        ({"webhook_id": "msg_other"}, "webhook_signature"),
        ({"webhook_signature": ""}, "webhook_signature"),
        ({"webhook_signature": SIGNATURE.replace("v1,", "v1a,")}, "webhook_signature"),
        ({"webhook_signature": SIGNATURE.removeprefix("v1,")}, "webhook_signature"),
        ({"webhook_signature": " ".join(["v1,x"] * 16 + [SIGNATURE])}, "webhook_signature"),
    ],
)
def test_whatever_was_signed_otherwise_is_refused_by_rule(changed: dict[str, str], rule: str) -> None:
    assert refusal(headers(**changed)) == rule


def test_another_body_and_every_flipped_byte_of_it_are_refused() -> None:
    for place in range(len(BODY)):
        changed = bytearray(BODY)
        changed[place] ^= 1
        assert refusal(headers(), body=bytes(changed)) == "webhook_signature"


@pytest.mark.parametrize(("text", "rule"), [("whsec_***", "secret_form"), ("whsec_YQ==", "secret_short")])
def test_a_secret_that_is_none_or_short_signs_nothing(text: str, rule: str) -> None:
    with pytest.raises(WebhookInvalid) as refused:
        secret_of(text)
    assert refused.value.rule == rule


@pytest.mark.parametrize(
    ("version", "baseline", "newer"),
    [
        ("8", "7", True),
        ("7", "7", False),
        ("10", "9", True),
        ("1.10", "1.9", True),
        ("1.9", "1.10", False),
        ("abc", "abb", None),
        ("8", "v7", None),
        ("2026-11-30", "2026-11-29", None),
    ],
)
def test_only_dotted_numbers_have_an_order(version: str, baseline: str, newer: bool | None) -> None:
    assert is_newer(version, baseline) is newer
