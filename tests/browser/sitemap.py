"""Every route of the product: the pages that are visited, and why the others are none."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True, slots=True)
class Stop:
    """One page to look at: as whom, where, and the status it answers with.

    `path` may name what the fixture `places` knows: {run}, {verified}, {message} …
    """

    person: str | None
    path: str
    status: int

    @property
    def name(self) -> str:
        return f"{self.person or 'nobody'} {self.path}"


def _stops(path: str, *people: str | None, status: int = 200) -> list[Stop]:
    return [Stop(person, path, status) for person in people]


PAGES: Final[dict[str, list[Stop]]] = {
    "runs": [
        *_stops("/", "ada", "grace", "rosa"),
        *_stops("/?show=needs-me", "ada"),
        *_stops("/?show=failed", "ada"),
        *_stops("/?show=false-success", "ada"),
        *_stops("/?show=uncertain", "ada"),
    ],
    "find": [
        *_stops("/find?q=nothing-is-called-that", "ada"),
        *_stops("/find", "ada"),
        *_stops("/find?q=br_", "ada"),
    ],
    "run": [*_stops("/runs/{run}/", "ada", "rosa"), *_stops("/runs/{verified}/", "ada")],
    "compare": [
        *_stops("/runs/{run}/compare/", "rosa", "ada"),
        *_stops("/runs/{run}/compare/?branch={verified}&only=differences", "rosa"),
    ],
    "run_receipts": [
        *_stops("/runs/{run}/receipts/", "rosa"),
        *_stops("/runs/{verified}/receipts/?at=20", "rosa"),
    ],
    "audits": [*_stops("/runs/{run}/audits/", "ada", "rosa"), *_stops("/runs/{verified}/audits/", "ada")],
    "contracts": [
        *_stops("/contracts/", "ada", "rosa"),
        *_stops("/contracts/?template=concurrent", "ada"),
        *_stops("/contracts/?from={run}", "ada"),
    ],
    "contract": [*_stops("/contracts/{contract}/", "ada"), *_stops("/contracts/{draft}/", "rosa")],
    "branches": _stops("/branches/", "ada"),
    "configuration": [
        *_stops("/branches/{unsettled}/configuration/", "ada", "rosa"),
        *_stops("/branches/{verified}/configuration/", "ada"),
    ],
    "outcomes": [*_stops("/outcomes/", "rosa"), *_stops("/outcomes/?show=false", "rosa")],
    "receipts": _stops("/receipts/", "rosa"),
    "states": _stops("/states/", "ada"),
    "help": _stops("/help/", "ada"),
    "imports": _stops("/import/", "ada", "rosa"),
    "fork": [*_stops("/runs/{run}/fork/", "ada"), *_stops("/runs/{verified}/fork/", "ada")],
    "message": _stops("/runs/{run}/messages/{message}/", "ada"),
    "state_value": _stops("/runs/{run}/checkpoints/{checkpoint}/agent_memory/", "ada"),
    "branch": [
        *_stops("/branches/{unsettled}/", "ada", "grace"),
        *_stops("/branches/{asked}/", "ada", "grace"),
        *_stops("/branches/{verified}/", "ada", "rosa"),
    ],
    "branch_effects": [
        *_stops("/branches/{unsettled}/effects/", "ada"),
        *_stops("/branches/{verified}/effects/", "ada"),
    ],
    "edit": [
        *_stops("/branches/{unsettled}/edit/", "ada", "rosa"),
        *_stops("/branches/{unsettled}/edit/?message={brief}", "ada"),
        *_stops("/branches/{unsettled}/edit/?key=agent_memory", "ada"),
        *_stops("/branches/{unsettled}/edit/?key=agent_memory&value={byline}", "ada"),
    ],
    "inbox": _stops("/approvals/", "grace", "ada"),
    "decision": [
        *_stops("/approvals/{open}/", "grace", "ada"),
        *_stops("/approvals/{closed}/", "grace", "rosa"),
    ],
    "policies": _stops("/policies/", "barbara", "ada"),
    "connect": _stops("/connect/", "ada", "rosa"),
    "notices": _stops("/notices/", "barbara", "ada"),
    "people": _stops("/people/", "barbara", "ada", "rosa"),
    "tokens": [*_stops("/tokens/", "barbara", "rosa"), *_stops("/tokens/", "ada", status=403)],
    "trail": [
        *_stops("/audit/", "barbara", "rosa"),
        *_stops("/audit/?kind=signed_in&check=1", "rosa"),
        *_stops("/audit/", "ada", status=403),
    ],
    "invitation": [
        *_stops("/invitations/{invitation}/", None, "ada"),
        *_stops("/invitations/{taken_back}/", None, status=410),
    ],
    "sign_in_again": _stops("/sign-in/again/", "ada"),
    "job": _stops("/jobs/{job}/", "ada"),
    "account_login": _stops("/accounts/login/", None),
    "account_logout": _stops("/accounts/logout/", "ada"),
    "account_inactive": _stops("/accounts/inactive/", None),
    "account_signup": _stops("/accounts/signup/", None),
    "account_reauthenticate": _stops("/accounts/reauthenticate/", "ada"),
    "account_request_reauthentication_code": _stops("/accounts/reauthenticate/code/", "ada"),
    "account_confirm_reauthentication_code": _stops("/accounts/reauthenticate/code/confirm/", "ada"),
    "account_email": _stops("/accounts/email/", "ada"),
    "account_email_verification_sent": _stops("/accounts/confirm-email/", None),
    "account_confirm_email": _stops("/accounts/confirm-email/unknown/", None),
    "account_change_password": _stops("/accounts/password/change/", "ada"),
    "account_set_password": _stops("/accounts/password/set/", "ada"),
    "account_reset_password": _stops("/accounts/password/reset/", None, status=404),
    "account_confirm_login_code": _stops("/accounts/login/code/confirm/", None),
    "account_reset_password_from_key_done": _stops("/accounts/password/reset/key/done/", None),
    "account_reset_password_from_key": _stops("/accounts/password/reset/key/1-unknown/", None),
    "account_reset_password_done": _stops("/accounts/password/reset/done/", None),
    "mfa_index": _stops("/accounts/2fa/", "ada"),
    "mfa_authenticate": _stops("/accounts/2fa/authenticate/", None),
    "mfa_reauthenticate": _stops("/accounts/2fa/reauthenticate/", "ada"),
    "mfa_activate_totp": _stops("/accounts/2fa/totp/activate/", "ada"),
    "mfa_deactivate_totp": _stops("/accounts/2fa/totp/deactivate/", "ada", status=404),
    "mfa_view_recovery_codes": _stops("/accounts/2fa/recovery-codes/", "ada", status=404),
    "mfa_generate_recovery_codes": _stops("/accounts/2fa/recovery-codes/generate/", "ada"),
    "mfa_download_recovery_codes": _stops("/accounts/2fa/recovery-codes/download/", "ada", status=404),
    "mfa_list_webauthn": _stops("/accounts/2fa/webauthn/", "ada"),
    "mfa_add_webauthn": _stops("/accounts/2fa/webauthn/add/", "ada"),
    "mfa_reauthenticate_webauthn": _stops("/accounts/2fa/webauthn/reauthenticate/", "ada"),
    "mfa_remove_webauthn": _stops("/accounts/2fa/webauthn/keys/1/remove/", "ada", status=404),
    "mfa_edit_webauthn": _stops("/accounts/2fa/webauthn/keys/1/edit/", "ada", status=404),
    "mfa_login_webauthn": _stops("/accounts/2fa/webauthn/login/", None),
    # No provider is named in the demo.
    "openid_connect_login": _stops("/accounts/oidc/oidc/login/", None, status=404),
    "openid_connect_callback": _stops("/accounts/oidc/oidc/login/callback/", None, status=404),
    "socialaccount_login_cancelled": _stops("/accounts/3rdparty/login/cancelled/", None),
    "socialaccount_login_error": _stops("/accounts/3rdparty/login/error/", None, status=401),
    "socialaccount_signup": _stops("/accounts/3rdparty/signup/", None),
    "socialaccount_connections": _stops("/accounts/3rdparty/", "ada"),
}
ACTS: Final = {
    "ask_job", "reconcile", "judge", "acknowledge", "attest", "ask_approval", "withdraw", "resume",
    "configure", "offer", "confirm", "revoke", "cancel_job", "demo_sign_in", "conclude", "verify_receipts",
    "recover", "route", "give_role", "withdraw_role", "make_group", "membership", "invite",
    "withdraw_invitation", "remove_person", "end_token", "switch_workspace",
    "policy_change", "connect_workflow", "connect_token", "disclose", "choose_mail",
    "add_webhook", "end_webhook",
}  # fmt: skip
FRAGMENTS: Final = {"run_window", "run_jump"}
DOWNLOADS: Final = {"governance", "export_receipts", "run_map", "export_trail"}
# Django's older names for routes above; allauth keeps them without a name.
_UNNAMED: Final = "accounts/social/"
# For machines. Its one page, the docs, is the Swagger UI as django-ninja ships it: its markup is not ours.
_MACHINES: Final = ("api/", "v1/")


def routes(resolver: Any = None, before: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield every route with its name, but the machines' and the unnamed older ones."""
    for each in (resolver or get_resolver("debugger.urls")).url_patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, route)
        elif isinstance(each, URLPattern) and not route.startswith((*_MACHINES, _UNNAMED)):
            yield route, each.name
