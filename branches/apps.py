"""Django's view of the package: the record is guarded after every migration and checked at start."""

from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import post_migrate


class BranchesConfig(AppConfig):
    name = "branches"
    verbose_name = "Branchgate record"

    def ready(self) -> None:
        from branches.append_only import check_guards, reinstall_guards
        from branches.database_rules import check_rules, reinstall_rules

        post_migrate.connect(reinstall_guards, sender=self, dispatch_uid="branches.reinstall_guards")
        post_migrate.connect(reinstall_rules, sender=self, dispatch_uid="branches.reinstall_rules")
        register(check_guards, "database")
        register(check_rules, "database")
