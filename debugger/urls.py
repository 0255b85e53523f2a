"""Where everything lives."""

from django.urls import include, path
from django.views.defaults import page_not_found

from debugger.api.routes import api
from debugger.api.traces import traces

urlpatterns = [
    path("api/v1/", api.urls),
    # Where the protocol itself expects it, so that a stock exporter needs no path of ours.
    path("v1/traces", traces, name="otlp_traces"),
    # No mail is sent yet, so no page may promise one.
    path("accounts/password/reset/", page_not_found, {"exception": None}),
    path("accounts/", include("allauth.urls")),
    path("", include("debugger.web.branch_urls")),
    path("", include("debugger.web.run_urls")),
    path("", include("debugger.web.workspace_urls")),
]
