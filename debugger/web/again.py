"""Signing in again to confirm that it is them: with the provider, or with one click in the demo."""

from urllib.parse import urlsplit

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.login import record_authentication
from allauth.account.internal.flows.reauthentication import STATE_SESSION_KEY, resume_request
from allauth.account.utils import get_next_redirect_url
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from debugger.web.access import sign_in_first
from debugger.web.accounts import is_linked
from debugger.web.second_factor import is_one_click


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_again(request: HttpRequest) -> HttpResponseBase:
    """Offer the door somebody came in by; one click in the demo goes on with the form that was posted."""
    if not request.user.is_authenticated:
        return sign_in_first(request)
    one_click = is_one_click(request, request.user)
    if request.method == "POST":
        if not one_click:
            raise PermissionDenied
        record_authentication(request, request.user, method="one_click")
        return resume_request(request) or redirect("runs")
    context = {
        "one_click": one_click,
        "provider": settings.BRANCHGATE_OIDC_NAME
        if settings.BRANCHGATE_OIDC_ISSUER and is_linked(request.user)
        else "",
        "next": get_next_redirect_url(request),
        "back": _page_of_form(request),
    }
    return render(request, "sign_in_again.html", context)


def _page_of_form(request: HttpRequest) -> str:
    """Return where to go after the provider: to the page of a posted form, which has to be sent again."""
    wanted = get_next_redirect_url(request) or "/"
    if STATE_SESSION_KEY not in request.session:
        return str(wanted)
    came_from = urlsplit(request.META.get("HTTP_REFERER", ""))
    is_ours = came_from.netloc == request.get_host() and get_adapter(request).is_safe_url(came_from.path)
    return came_from.path if is_ours else "/"
