"""Topology contracts: which there are, one of them laid out, and a form that publishes another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from branches.commands.publish_contract import publish_contract
from branches.commands.refusal import Refused
from branches.evidence.canonical import ProfileError, parse_strict
from branches.queries.contract_page import (
    contract_groups,
    contract_page,
    contract_text,
    drafted,
    workflow_names,
)
from branches.queries.lookups import NotHere, run_named
from debugger import contracts as templates
from debugger.web.access import PageRequest, member
from debugger.web.refusals import refusal_words

# A person's spaces and lines count here; the contract's own bytes are bounded by the command.
_MOST_TEXT: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Form:
    """What the form holds: typed, from a template, or from a run's observed edges."""

    workflow: str = ""
    text: str = ""
    is_draft: bool = False
    template: str = ""
    run: str = ""
    left_out: int = 0


@member
@require_http_methods(["GET", "POST"])
def contracts(request: PageRequest) -> HttpResponse:
    """Show every contract by workflow with the form, or publish one."""
    if request.method == "GET":
        return _page(request, _prefilled(request))
    sent = request.POST
    form = Form(sent.get("workflow", ""), sent.get("contract", ""), "draft" in sent)
    try:
        row = publish_contract(
            workspace=request.workspace,
            publisher=request.user,
            workflow=form.workflow,
            contract=_parsed(form.text),
            is_draft=form.is_draft,
        )
    except Refused as refused:
        return _page(request, form, refused)
    messages.success(
        request,
        "Published as a draft: it blesses nothing."
        if row.is_draft
        else "Published. Runs that start from now on may name it; no run that has begun adopts it.",
    )
    return redirect("contract", uid=row.uid)


@member
@require_GET
def contract(request: PageRequest, uid: str) -> HttpResponse:
    """Show one contract as matrix and picture; nothing was observed here."""
    context = {
        "page": contract_page(request.workspace, uid),
        "cell_words": {"unseen": "allowed"},
        "section": "runs",
    }
    return render(request, "contract.html", context)


def _prefilled(request: PageRequest) -> Form:
    """Return the form that the address asks for; raises NotHere for a template or run there is none of."""
    if name := request.GET.get("template"):
        if name not in templates.names():
            raise NotHere
        return Form(text=contract_text(templates.contract(name)), template=name)
    if uid := request.GET.get("from"):
        draft = drafted(run_named(request.workspace, uid))
        text = contract_text(draft.contract)
        return Form(draft.workflow, text, is_draft=True, run=uid, left_out=draft.left_out)
    return Form()


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = parse_strict(text, max_bytes=_MOST_TEXT)
    except ProfileError as error:
        raise Refused(rule=error.rule, field="contract") from None
    if not isinstance(value, dict):
        raise Refused(rule="type:object", field="contract")
    return value


def _page(request: PageRequest, form: Form, refused: Refused | None = None) -> HttpResponse:
    """Render the page; after a refusal with what the person typed, which is nowhere else."""
    context = {
        "groups": contract_groups(request.workspace),
        "workflows": workflow_names(request.workspace),
        "templates": templates.names(),
        "form": form,
        "refused": refused,
        "words": None if refused is None else refusal_words(refused),
        "section": "runs",
    }
    return render(request, "contracts.html", context, status=200 if refused is None else 422)
