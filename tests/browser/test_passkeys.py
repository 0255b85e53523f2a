"""Somebody is invited, sets a passkey up with a real browser's authenticator, and signs in with it."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visits import Visit, violations
from tests.worlds import DemoProcess

PASSWORD = "a quiet harbour at dusk"
KEY = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture
def joan(demo: DemoProcess, chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page on a host that browsers take for secure, with a key in the machine; and what went wrong."""
    context = chromium.new_context(base_url=f"http://localhost:{demo.port}", reduced_motion="reduce")
    context.set_default_timeout(40_000)
    strange: list[str] = []
    context.on(
        "console",
        lambda said: strange.append(said.text) if said.type in {"error", "warning"} else None,
    )
    context.on("weberror", lambda error: strange.append(str(error.error)))
    page = context.new_page()
    keys = context.new_cdp_session(page)
    keys.send("WebAuthn.enable", {"enableUI": False})
    keys.send("WebAuthn.addVirtualAuthenticator", {"options": KEY})
    yield page, strange
    context.close()


def invited(visit: Visit) -> str:
    """Return the address of an invitation that an admin made by clicking."""
    page = visit("barbara")
    page.goto("/people/")
    page.get_by_role("checkbox", name="Engineer").check()
    page.get_by_role("button", name="Make the link").click()
    link = page.get_by_role("textbox", name="Link").input_value()
    assert violations(page) == []
    return link[link.index("/invitations/") :]


def test_a_passkey_is_set_up_and_signs_in(joan: tuple[Page, list[str]], visit: Visit) -> None:
    page, strange = joan
    page.goto(invited(visit))
    assert violations(page) == []
    page.get_by_label("Name to sign in with").fill("joan")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password, again").fill(PASSWORD)
    page.get_by_role("button", name="Accept and sign in").click()
    expect(page.locator("summary .who")).to_contain_text("joan")

    page.goto("/accounts/2fa/")
    page.get_by_role("link", name="Add a key").click()
    page.get_by_label("Passwordless").check()
    assert violations(page) == []
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    assert violations(page) == []
    page.goto("/accounts/2fa/webauthn/")
    expect(page.get_by_text("Passkey", exact=True)).to_be_visible()
    assert violations(page) == []

    page.goto("/accounts/logout/")
    page.get_by_role("main").get_by_role("button", name="Sign out").click()
    page.goto("/people/")
    assert "/accounts/login/" in page.url
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("People")
    expect(page.locator("summary .who")).to_contain_text("joan")
    assert strange == []

    trail = visit("barbara")
    trail.goto("/audit/?kind=signed_in")
    newest = trail.locator("tr[data-seq]").filter(has_text="joan").first
    expect(newest).to_contain_text("passkey")
    assert violations(trail) == []


def test_a_key_that_is_not_known_here_says_so_and_signs_nobody_in(
    joan: tuple[Page, list[str]], visit: Visit
) -> None:
    page, _ = joan
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.locator("#passkey-problem")).to_be_visible()
    page.goto("/people/")
    assert "/accounts/login/" in page.url


def test_without_scripts_no_passkey_is_offered(visit: Visit) -> None:
    page: Any = visit(None, scripts=False)
    page.goto("/accounts/login/")
    assert not page.get_by_role("button", name="Sign in with a passkey").is_visible()
    assert page.get_by_role("button", name="Sign in", exact=True).is_visible()
