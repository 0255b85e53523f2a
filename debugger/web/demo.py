"""One-click sign-in of the demo people: only in the demo, only from the loopback interface."""

import ipaddress

from allauth.account.internal.flows.login import record_authentication
from django.conf import settings
from django.contrib.auth import get_user_model, login, logout
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

PEOPLE = {"ada": "engineer", "grace": "approver", "barbara": "approver", "rosa": "reviewer"}


def is_demo(request: HttpRequest) -> bool:
    """Return whether one-click sign-in is allowed here: a forwarded request never counts as local."""
    address = request.META.get("REMOTE_ADDR", "")
    forwarded = any(
        name in request.META for name in ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")
    )
    try:
        local = ipaddress.ip_address(address).is_loopback
    except ValueError:
        local = False
    return settings.BRANCHGATE_DEMO and local and not forwarded


@require_POST
def sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """Sign in as one of the demo's cast."""
    if not is_demo(request) or name not in PEOPLE:
        raise Http404
    person = get_user_model().objects.filter(username=name).first()
    if person is None:
        raise Http404
    if request.user.is_authenticated and request.user.pk != person.pk:
        logout(request)
    # Before it, so that whoever hears of the sign-in knows how it was done.
    record_authentication(request, person, method="one_click")
    login(request, person, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("inbox" if PEOPLE[name] == "approver" else "runs")
