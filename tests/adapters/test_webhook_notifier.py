"""Notices by webhook: signed for whoever knows the secret, sent to the registered address alone."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import standardwebhooks

from branches.evidence.keys import HmacKey
from branches.evidence.webhooks import WebhookInvalid, verify
from branches.ports import NoticeMessage, Target
from branches.registry import find, names
from debugger.adapters import outbound
from tests.adapters.hooks import Receiver, receiver
from tests.patience import ends

SECRET = b"a secret of thirty-two bytes ...."
BODY = b'{"type": "branchgate.requested"}'


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def sent(url: Any, **options: Any) -> str | None:
    target = Target("hook", {"url": url, "allow": "loopback", **options}, HmacKey("0" * 8, b"k" * 32))
    message = NoticeMessage("dlv_" + "a" * 24, datetime.now(UTC), BODY, SECRET)
    return find("notifiers", "webhook").deliver(target, message)


def test_the_webhook_is_found_by_its_port() -> None:
    assert names("notifiers") == ("webhook",)


def test_it_is_one_signed_post_that_our_own_check_believes(hook: Receiver) -> None:
    assert sent(hook.url) is None
    [came] = hook.came
    assert (came.method, came.path, came.body) == ("POST", "/hook", BODY)
    assert came.headers["content-type"] == "application/json"
    assert verify(came.headers, came.body, SECRET, datetime.now(UTC)) == "dlv_" + "a" * 24
    with pytest.raises(WebhookInvalid):
        verify(came.headers, came.body, b"another" + SECRET, datetime.now(UTC))


def test_the_conventions_own_library_believes_it_too_and_nothing_changed(hook: Receiver) -> None:
    sent(hook.url)
    [came] = hook.came
    known = standardwebhooks.Webhook("whsec_" + base64.b64encode(SECRET).decode())
    assert known.verify(came.body, came.headers) == json.loads(BODY)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        known.verify(came.body + b" ", came.headers)
    stranger = standardwebhooks.Webhook("whsec_" + base64.b64encode(SECRET[::-1]).decode())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        stranger.verify(came.body, came.headers)


@pytest.mark.parametrize("status", [199 + 1, 202, 204, 299])
def test_every_word_of_thanks_is_taken_for_one(hook: Receiver, status: int) -> None:
    hook.status = status
    assert sent(hook.url) is None


@pytest.mark.parametrize("status", [300, 400, 401, 404, 410, 429, 500, 503])
def test_whatever_else_is_answered_did_not_take_it(hook: Receiver, status: int) -> None:
    hook.status = status
    assert sent(hook.url) == "not_taken"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_nowhere(hook: Receiver, status: int) -> None:
    with receiver() as elsewhere:
        hook.status, hook.location = status, elsewhere.url
        assert sent(hook.url) == "not_taken"
        assert elsewhere.came == []


def test_a_private_address_is_reached_only_where_the_target_allows_it(hook: Receiver) -> None:
    assert sent(hook.url, allow=None) == "address_refused"
    assert sent(hook.url, allow=["10.0.0.0/8"]) == "address_refused"
    assert hook.came == []
    assert sent(hook.url, allow=["127.0.0.0/8"]) is None


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://0.0.0.0/"])
def test_a_clouds_secrets_are_never_asked_whatever_is_allowed(url: str) -> None:
    assert sent(url, allow=["0.0.0.0/0", "::/0"]) == "address_refused"


def test_a_slow_receiver_is_not_waited_for(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(outbound, "READ_S", 0.3)
    hook.hold = threading.Event()
    with ends():
        assert sent(hook.url) == "timeout"


def test_a_receiver_that_is_gone_is_said_to_be(hook: Receiver) -> None:
    hook.close()
    assert sent(hook.url) == "no_connection"


@pytest.mark.parametrize(
    "options", [{"url": None}, {"url": 7}, {"url": "file:///etc/passwd", "allow": 3}, {"allow": ["x"]}]
)
def test_a_target_that_is_none_is_unfit(hook: Receiver, options: dict[str, Any]) -> None:
    assert sent(**{"url": hook.url, **options}) == "target_unfit"
    assert hook.came == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://a@127.0.0.1/", "http://127.0.0.1\\@b/", "x"])
def test_an_address_that_could_mean_two_things_is_none(url: str) -> None:
    assert sent(url) == "url_form"
