"""Who decides proved within the last minutes who they are; a form that was posted too late is not lost."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from allauth.account import app_settings
from allauth.account.internal.flows.login import get_authentication_records
from allauth.core.exceptions import ReauthenticationRequired
from django.http import HttpRequest


def is_recent(request: HttpRequest) -> bool:
    """Return whether this person signed in, or confirmed that it is them, within the last minutes."""
    records = get_authentication_records(request, request.user)
    since = time.time() - app_settings.REAUTHENTICATION_TIMEOUT
    return any(since < record["at"] <= time.time() for record in records)


def confirmed[**P, R](view: Callable[P, R]) -> Callable[P, R]:
    """Take a POST only from somebody who proved just now who they are.

    Anybody else is sent to do so; the middleware keeps the form meanwhile and takes it up again after it.
    """

    @wraps(view)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        request = cast("Any", args[0])
        if request.method == "POST" and not is_recent(request):
            raise ReauthenticationRequired
        return view(*args, **kwargs)

    return asked
