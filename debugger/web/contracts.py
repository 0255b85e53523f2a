"""Topology contracts: which there are, one of them laid out, and a form that publishes another."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from branches.commands.publish_contract import publish_contract
from branches.commands.refusal import Refused
from branches.evidence.canonical import ProfileError, parse_strict
from branches.queries.contract_form import contract_problems
from branches.queries.contract_page import (
    Drafted,
    Undeclared,
    contract_groups,
    contract_page,
    contract_text,
    drafted,
    undeclared_agents,
    workflow_names,
)
from branches.queries.lookups import NotHere, run_named
from branches.queries.topology_view import CONTRACT_LEGEND
from debugger import contracts as templates
from debugger.web.access import PageRequest, member, said_no
from debugger.web.refusals import refusal_words

# A person's spaces and lines count here; the contract's own bytes are bounded by the command.
_MOST_TEXT: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Form:
    """What the form holds: typed, from a pattern, or from a run's observed edges."""

    workflow: str = ""
    text: str = ""
    is_draft: bool = False
    template: str = ""
    run: str = ""
    drafted: Drafted | None = None
    beside: str = ""
    """A pattern that was asked for while something else was written; that stays until a person says so."""
    is_checked: bool = False
    """Whether somebody asked what is wrong with it, and nothing was."""


@member
@require_http_methods(["GET", "POST"])
def contracts(request: PageRequest) -> HttpResponse:
    """Show every contract by workflow with the form; put a pattern into it, check it, or publish it.

    Only publishing writes. The other buttons post the form too, so that nothing that was typed is lost.
    """
    if request.method == "GET":
        return _page(request, _prefilled(request))
    form = _sent(request)
    try:
        if chosen := request.POST.get("replace"):
            return _page(request, _with_pattern(form, chosen, is_replaced=True))
        if "put" in request.POST:
            return _page(request, _with_pattern(form, form.template))
        if "check" in request.POST:
            return _page(request, _checked(form))
        return _publish(request, form)
    except Refused as refused:
        return _page(request, form, refused)


@member
@require_GET
def contract(request: PageRequest, uid: str) -> HttpResponse:
    """Show one contract as matrix and picture; nothing was observed here."""
    context = {
        "page": contract_page(request.workspace, uid),
        "legend": CONTRACT_LEGEND,
        "section": "runs",
    }
    return render(request, "contract.html", context)


def _publish(request: PageRequest, form: Form) -> HttpResponse:
    row = publish_contract(
        workspace=request.workspace,
        publisher=request.user,
        workflow=form.workflow,
        contract=_parsed(form.text),
        is_draft=form.is_draft,
    )
    if row.is_draft:
        words = "Published as a draft: it blesses nothing."
    else:
        words = "Published. Runs that start from now on may name it; no run that has begun adopts it."
    if left := form.drafted and form.drafted.left_out.edges:
        words += f" {left} {'edge' if left == 1 else 'edges'} of the run had been left out of the draft."
    messages.success(request, words)
    if undeclared_agents(request.workspace, form.workflow, _parsed(form.text)) is not None:
        messages.warning(request, "It names agents that its workflow does not declare: they are named below.")
    return redirect("contract", uid=row.uid)


def _sent(request: PageRequest) -> Form:
    """Return what a person sent, with the run that it was drafted from, where that is still there."""
    sent = request.POST
    form = Form(sent.get("workflow", ""), sent.get("contract", ""), "draft" in sent, sent.get("template", ""))
    return _drafted_from(request, form, sent["from"]) if sent.get("from") else form


def _drafted_from(request: PageRequest, form: Form, uid: str) -> Form:
    try:
        return replace(form, run=uid, drafted=drafted(run_named(request.workspace, uid)))
    except NotHere:
        return form


def _prefilled(request: PageRequest) -> Form:
    """Return the form that the address asks for; raises NotHere for a template or run there is none of."""
    if name := request.GET.get("template"):
        if name not in templates.names():
            raise NotHere
        return Form(text=contract_text(templates.contract(name)), template=name)
    if uid := request.GET.get("from"):
        draft = drafted(run_named(request.workspace, uid))
        text = contract_text(draft.contract)
        return Form(draft.workflow, text, is_draft=True, run=uid, drafted=draft)
    return Form()


def _with_pattern(form: Form, name: str, *, is_replaced: bool = False) -> Form:
    """Put a pattern where nothing was written, or where a person says so; else beside it. Raises Refused."""
    if name not in templates.names():
        raise Refused(rule="enum", field="template")
    text = contract_text(templates.contract(name))
    if is_replaced or _is_untouched(form.text):
        return Form(form.workflow, text, form.is_draft, name)
    return replace(form, template=name, beside=text)


def _is_untouched(text: str) -> bool:
    """Return whether nobody typed a text: it is empty, or a pattern as it was put there."""
    lines = text.replace("\r\n", "\n").strip()
    return not lines or any(lines == contract_text(templates.contract(name)) for name in templates.names())


def _checked(form: Form) -> Form:
    """Return the form, checked by its rules. Raises Refused for the first that it breaks."""
    problem = next(contract_problems(_parsed(form.text), "contract"), None)
    if problem is not None:
        raise Refused(rule=problem.rule, field=problem.field)
    return replace(form, is_checked=True)


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = parse_strict(text, max_bytes=_MOST_TEXT)
    except ProfileError as error:
        raise Refused(rule=error.rule, field="contract") from None
    if not isinstance(value, dict):
        raise Refused(rule="type:object", field="contract")
    return value


def _undeclared(request: PageRequest, form: Form, names: tuple[str, ...]) -> Undeclared | None:
    """Return what to warn of while a contract is being written; what cannot be read has no agents."""
    workflow = form.workflow or next(iter(names), "")  # the one that the form shows as chosen
    try:
        return undeclared_agents(request.workspace, workflow, _parsed(form.text))
    except Refused:
        return None


def _page(request: PageRequest, form: Form, refused: Refused | None = None) -> HttpResponse:
    """Render the page; after a refusal with what the person typed, which is nowhere else."""
    names = workflow_names(request.workspace)
    words = None if refused is None else refusal_words(refused)
    if refused is not None and refused.rule.startswith("role:"):
        words = said_no(request, refused)  # anything else is said of the text, not of who wrote it
    context = {
        "groups": contract_groups(request.workspace),
        "workflows": names,
        "templates": templates.names(),
        "form": form,
        "undeclared": _undeclared(request, form, names),
        "refused": refused,
        "words": words,
        "section": "runs",
    }
    return render(request, "contracts.html", context, status=200 if refused is None else 422)
