"""Loads Celery with Django, so that `debugger/__init__.py` can stay empty."""

from django.apps import AppConfig


class DebuggerConfig(AppConfig):
    name = "debugger"
    verbose_name = "Branchgate"

    def ready(self) -> None:
        from branches import tasks  # noqa: F401 - importing it registers the tasks
        from debugger import celery  # noqa: F401 - importing it makes the app current
        from debugger.web import sign_ins  # noqa: F401 - importing it hears of sign-ins
