"""Serve everything from one command: web, worker and clock under one supervisor."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from branches.queries.lookups import is_anybody_admitted
from debugger.startup import prepare
from debugger.supervisor import PortBusy, Supervisor, check_port, web_program, worker_program


class Command(BaseCommand):
    help = "Migrate, then run the web server, a worker and its clock until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--web-processes", type=int, default=1, help="More than one needs Redis.")

    def handle(self, *_args: Any, **options: Any) -> None:
        host, port = options["host"], options["port"]
        if options["web_processes"] > 1 and not settings.BRANCHGATE_EXCHANGE_URL:
            raise CommandError("web-processes: more than one needs Redis, where live content meets")
        try:
            check_port(host, port)
        except PortBusy as busy:
            raise CommandError(str(busy)) from None
        prepare()
        with Supervisor() as supervisor:
            supervisor.start(web_program(host, port, processes=options["web_processes"]))
            supervisor.start(worker_program())
            self.stdout.write(words_of_start(host, port))
            code = supervisor.wait()
        if code:
            raise CommandError("a program ended by itself", returncode=code)


def words_of_start(host: str, port: int) -> str:
    """Return where it serves, and how the first person gets in where there is none."""
    said = f"Branchgate serves on http://{host}:{port}/ (Ctrl-C stops it)"
    if is_anybody_admitted():
        return said
    return f"{said}\nNobody can sign in yet. In another terminal: manage.py admit NAME --role engineer"
