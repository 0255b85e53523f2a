"""Importing: which threads there are, and a job that reads one into the record."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from branches.commands.ask_for_job import ask_as_person
from branches.commands.refusal import Refused
from branches.queries.import_page import stores
from branches.queries.job_kinds import IMPORT
from debugger.web.access import PageRequest, member, refuse


@member
@require_http_methods(["GET", "POST"])
def imports(request: PageRequest) -> HttpResponse:
    """Show the stores and their threads, or ask for an import."""
    found = stores(request.workspace)
    if request.method == "GET":
        return render(request, "import.html", {"stores": found, "section": "runs"})
    subject = request.POST.get("subject", "")
    offered = {row.subject: row for store in found for row in store.threads}
    if subject not in offered:
        messages.error(request, "Refused: there is no such thread in the stores.")
        return redirect("imports")
    try:
        job = ask_as_person(
            person=request.user,
            workspace=request.workspace,
            kind=IMPORT,
            run=None,
            subject=subject,
            total=offered[subject].thread.checkpoints,
        )
    except Refused as refused:
        refuse(request, refused)
        return redirect("imports")
    return redirect("job", uid=job.uid)
