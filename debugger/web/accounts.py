"""Accounts: nobody makes their own; how somebody confirms that it is them; what lies encrypted."""

from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount
from cryptography.fernet import Fernet
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from branches.evidence import keys
from branches.queries.lookups import PersonRow
from debugger.web.confirmation import is_recent
from debugger.web.invited import is_invited
from debugger.web.second_factor import is_one_click

PROVIDER: Final = "oidc"
"""The one provider there is, where the environment names it."""


class ClosedAccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Sign-in only; there is no open sign-up, only invitations."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth's name
        return False

    def is_reauthentication_required(self, *, app: str, **_more: Any) -> bool:  # noqa: ARG002 - allauth's name
        """Whoever signed in just now has proved who they are, by whatever way."""
        return not is_recent(context.request)

    def get_reauthentication_methods(self, user: PersonRow) -> list[dict[str, Any]]:
        """Add signing in again, for those who have neither a password nor a second factor here."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if user.is_authenticated and signs_in_again(context.request, user):
            again = {"id": "again", "description": "Sign in again", "url": reverse("sign_in_again")}
            methods.append(again)
        return methods


def signs_in_again(request: HttpRequest, person: PersonRow) -> bool:
    """Return whether somebody can prove who they are by the door they came in by."""
    return is_one_click(request, person) or is_linked(person)


def is_linked(person: PersonRow) -> bool:
    """Return whether somebody signs in with the provider."""
    return bool(SocialAccount.objects.filter(user=person, provider=PROVIDER).exists())


class InvitedSocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """The provider says who somebody is; whether they may come in is said here."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:  # noqa: ARG002 - allauth's name
        """A new account of the provider comes in only with an invitation that is open."""
        return is_invited(request)

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:  # noqa: ARG002 - allauth's name
        """Forget what the provider tells beside who it is: nobody is known by an e-mail address."""
        sociallogin.email_addresses = []
        sociallogin.account.extra_data = {}
        if sociallogin.account.pk:
            sociallogin.account.save(update_fields=["extra_data"])

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> PersonRow:
        """Take the name that the provider suggests, and nothing else of what it tells."""
        made: PersonRow = super().populate_user(request, sociallogin, {"username": data.get("username")})
        return made


class SealedMFAAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Secrets of second factors lie encrypted in the database."""

    def encrypt(self, text: str) -> str:
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _box().decrypt(encrypted_text.encode()).decode()


def _box() -> Fernet:
    import base64

    return Fernet(base64.urlsafe_b64encode(keys.derive_key(settings.BRANCHGATE_MASTER_KEY, "second-factor")))
