"""The Celery app; its tasks live in `branches.tasks`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")

app = Celery("branchgate")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ("branches.tasks",)
app.set_default()
