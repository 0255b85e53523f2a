"""The matrix of who may what: every route, and the roles to which it opens. No row, no pass."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver, reverse

from branches.commands.admit import grant_role, issue_token
from branches.commands.ask_for_job import ask_for_job
from branches.commands.edit_content import edit_message
from branches.commands.groups import make_group
from branches.commands.invite_person import invite_person
from branches.commands.propose_change import propose_role
from branches.commands.publish_contract import publish_contract
from branches.commands.request_approval import request_approval
from branches.commands.webhooks import add_webhook
from branches.models import Edit, Job, JobKind, Person, PolicyChange, Role, Run
from branches.queries.chains import latest
from debugger import contracts
from tests.branches.noticed import HOOK, place
from tests.branches.test_branch_life import settle
from tests.builders import World, failed_run
from tests.plugins import FakeWorld
from tests.web.cast import forked

ROLES: Final = tuple(role.value for role in Role)
ALL: Final = frozenset(ROLES)
WRITERS: Final = ALL - {"viewer", "auditor"}
_PLACE: Final = re.compile(r"\{[a-z_]+\}")
SCOPES: Final = {"destination_owner": "tickets"}


@dataclass
class Places:
    """A workspace with one person of each role, and one thing of each sort, made when it is asked for."""

    world: World
    outside: FakeWorld

    @cached_property
    def people(self) -> dict[str, Person]:
        """One person of each role, who holds that role alone."""
        made = {}
        for role in ROLES:
            made[role] = Person.objects.create_user(f"{role}-{self.world.workspace.name}")
            grant_role(
                person=made[role],
                workspace=self.world.workspace,
                role=Role(role),
                scope=SCOPES.get(role, ""),
            )
        return made

    @cached_property
    def author(self) -> Person:
        """A policy admin beside the one whose way is tried."""
        grant_role(person=self.world.rosa, workspace=self.world.workspace, role=Role.POLICY_ADMIN)
        return self.world.rosa

    @cached_property
    def run(self) -> str:
        return self._run.uid

    @cached_property
    def _run(self) -> Run:
        return failed_run(self.world)

    @cached_property
    def _branch(self) -> Run:
        branch = forked(self.world, self._run)
        settle(self.world, branch, self.outside)
        return branch

    @cached_property
    def branch(self) -> str:
        return self._branch.uid

    @cached_property
    def edit(self) -> int:
        return self._edit.pk

    @cached_property
    def _edit(self) -> Edit:
        return edit_message(
            person=self.world.ada,
            branch=self._branch,
            target=self.world.hmac("message", "brief"),
            text="publish it",
            edit_class="add_detail",
        )

    @cached_property
    def request(self) -> str:
        assert self._edit
        return request_approval(person=self.world.ada, branch=self._branch).uid

    @cached_property
    def digest(self) -> str:
        return self._branch.requests.latest("id").subject_digest if self.request else ""

    @cached_property
    def job(self) -> str:
        return self._job.uid

    @cached_property
    def _job(self) -> Job:
        return ask_for_job(
            workspace=self.world.workspace,
            kind=JobKind.PROBE_STATE,
            run=self._branch,
            subject="browser",
            asked_by=self.world.ada.uid,
        )

    @cached_property
    def contract(self) -> str:
        return publish_contract(
            workspace=self.world.workspace,
            publisher=self.world.ada,
            workflow="desk",
            contract=contracts.contract("concurrent"),
            is_draft=False,
        ).uid

    @cached_property
    def _change(self) -> PolicyChange:
        assert self.people
        document = {"person": self.world.ada.uid, "role": "approver", "scope": "", "until": None}
        return propose_role(person=self.author, workspace=self.world.workspace, document=document)

    @cached_property
    def change(self) -> str:
        return self._change.uid

    @cached_property
    def change_digest(self) -> str:
        return self._change.digest

    @cached_property
    def group(self) -> str:
        return make_group(workspace=self.world.workspace, name="safety").uid

    @cached_property
    def invitation(self) -> str:
        roles = [{"role": "viewer", "scope": ""}]
        return invite_person(person=self.author, workspace=self.world.workspace, roles=roles)[0].uid

    @cached_property
    def token(self) -> str:
        return issue_token(workspace=self.world.workspace, name="a machine", scopes=["read"])[0].uid

    @cached_property
    def webhook(self) -> str:
        place(notifier="webhook", url="https://pager.example.org/")
        return add_webhook(
            person=self.author, workspace=self.world.workspace, target=HOOK, kinds=["requested"]
        )[0].uid

    @cached_property
    def ada(self) -> str:
        return self.world.ada.uid

    @cached_property
    def workspace(self) -> str:
        return self.world.workspace.uid

    @cached_property
    def message_seq(self) -> int:
        found = latest(self._run.pk, "message")
        assert found is not None
        return found.seq

    @cached_property
    def checkpoint_seq(self) -> int:
        found = latest(self._run.pk, "checkpoint")
        assert found is not None
        return found.seq

    def filled(self, form: dict[str, str]) -> dict[str, str]:
        """Return a form in which `{name}` stands for something of this workspace."""
        return {key: self.fill(value) for key, value in form.items()}

    def fill(self, text: str) -> str:
        return str(getattr(self, text[1:-1])) if _PLACE.fullmatch(text) else text


@dataclass(frozen=True)
class Row:
    """A page: whom it opens to by GET, whom by POST (None: not that way), and a form that would do."""

    get: frozenset[str] | None = ALL
    post: frozenset[str] | None = None
    names: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] = field(default_factory=dict)

    @property
    def is_of_one_thing(self) -> bool:
        """Whether its address, or its form, names something that belongs to one workspace."""
        named = {*self.names.values(), *self.form.values()}
        return any(_PLACE.fullmatch(each) and not each.endswith("digest}") for each in named)

    def address(self, name: str, places: Places) -> str:
        return reverse(name, kwargs={key: _typed(places.fill(value)) for key, value in self.names.items()})


def _typed(text: str) -> str | int:
    return int(text) if text.isdigit() else text


def _of(sort: str, **more: str) -> dict[str, str]:
    return {"uid": f"{{{sort}}}", **more}


ENGINEER: Final = frozenset({"engineer"})
APPROVER: Final = frozenset({"approver"})
REVIEWER: Final = frozenset({"reviewer"})
ADMIN: Final = frozenset({"policy_admin"})
WATCH: Final = frozenset({"policy_admin", "auditor"})


def _acts(who: frozenset[str], sort: str, **form: str) -> Row:
    return Row(get=None, post=who, names=_of(sort), form=form)


PAGES: Final[dict[str, Row]] = {
    "runs": Row(),
    "find": Row(),
    "run": Row(names=_of("run")),
    "run_window": Row(names=_of("run")),
    "run_map": Row(names=_of("run")),
    "run_jump": Row(names=_of("run", mark="checkpoint")),
    "audits": Row(names=_of("run")),
    "recover": _acts(ENGINEER, "run"),
    "route": _acts(ENGINEER, "run", deadline="2030-01-01T00:00", owner="{ada}"),
    "connect": Row(),
    "connect_workflow": Row(get=None, post=ENGINEER, form={"declaration": "a: b"}),
    "connect_token": Row(get=None, post=ENGINEER, form={"runtime": "langgraph", "name": "mine"}),
    "contracts": Row(post=ENGINEER, form={"workflow": "desk", "contract": "{}"}),
    "contract": Row(names=_of("contract")),
    "compare": Row(names=_of("run")),
    "conclude": _acts(REVIEWER, "run", conclusion="refuted"),
    "run_receipts": Row(names=_of("run")),
    "verify_receipts": Row(get=None, post=ALL, names=_of("run")),
    "export_receipts": Row(names=_of("run")),
    "branches": Row(),
    "configuration": Row(names=_of("branch")),
    "outcomes": Row(),
    "receipts": Row(),
    "states": Row(),
    "help": Row(),
    "imports": Row(post=ENGINEER, form={"subject": "store|t"}),
    "fork": Row(post=ENGINEER, names=_of("run")),
    "ask_job": _acts(ENGINEER, "run", kind="probe_state", subject="browser"),
    "message": Row(names=_of("run", seq="{message_seq}")),
    "state_value": Row(names=_of("run", seq="{checkpoint_seq}", key="agent_memory")),
    "branch": Row(names=_of("branch")),
    "branch_effects": Row(names=_of("branch")),
    "reconcile": _acts(ENGINEER, "branch"),
    "judge": _acts(ENGINEER, "branch"),
    "acknowledge": _acts(ENGINEER, "branch"),
    "attest": _acts(ENGINEER, "branch", run="{run}", through="1"),
    "ask_approval": _acts(ENGINEER, "branch"),
    "withdraw": Row(get=None, post=ENGINEER, names=_of("branch"), form={"request": "{request}"}),
    "resume": _acts(ENGINEER, "branch"),
    "edit": Row(post=ENGINEER, names=_of("branch")),
    "governance": Row(names=_of("branch")),
    "configure": _acts(ENGINEER, "branch"),
    "confirm": _acts(REVIEWER, "branch"),
    "offer": _acts(ENGINEER, "branch"),
    "revoke": _acts(APPROVER, "branch", reason="reviewed_delta"),
    "inbox": Row(),
    "decision": Row(
        post=APPROVER,
        names=_of("request"),
        form={"decision": "approved", "reason_approved": "reviewed_delta", "digest": "{digest}"},
    ),
    "disclose": Row(get=None, post=WRITERS, names=_of("request", edit="{edit}")),
    "policies": Row(post=ADMIN, form={"policy": "a: b"}),
    "policy_change": _acts(ADMIN, "change", decision="approved", digest="{change_digest}"),
    "job": Row(names=_of("job")),
    "cancel_job": _acts(ENGINEER, "job"),
    "people": Row(),
    "give_role": Row(get=None, post=ADMIN, form={"person": "{ada}", "role": "auditor"}),
    "withdraw_role": Row(get=None, post=ADMIN, form={"person": "{ada}", "role": "engineer"}),
    "make_group": Row(get=None, post=ADMIN, form={"name": "others"}),
    "membership": _acts(ADMIN, "group", person="{ada}", act="join"),
    "invite": Row(get=None, post=ADMIN, form={"role": "viewer", "days": "7"}),
    "withdraw_invitation": _acts(ADMIN, "invitation"),
    "remove_person": _acts(ADMIN, "ada"),
    "tokens": Row(get=WATCH, post=ADMIN, form={"name": "mine", "scope": "read", "days": "30"}),
    "end_token": _acts(ADMIN, "token"),
    "notices": Row(),
    "choose_mail": Row(get=None, post=ALL, form={"email": "me@example.org", "by_mail": "on"}),
    "add_webhook": Row(get=None, post=ADMIN, form={"target": "pager", "kind": "requested"}),
    "end_webhook": _acts(ADMIN, "webhook"),
    "trail": Row(get=WATCH),
    "export_trail": Row(get=WATCH),
    "switch_workspace": Row(get=None, post=ALL, form={"workspace": "{workspace}"}),
}

OTHER_DOORS: Final = {
    # The link's secret is the right; nobody has to be signed in.
    "invitation",
    # Whoever is signed in confirms that it is them; one click counts in the demo alone.
    "sign_in_again",
    # There in the demo alone, from the loopback.
    "demo_sign_in",
}
OPEN_ACCOUNT: Final = {
    "account_login", "account_logout", "account_inactive", "account_signup", "account_confirm_login_code",
    "account_confirm_email", "account_email_verification_sent", "account_reset_password",
    "account_reset_password_done", "account_reset_password_from_key",
    "account_reset_password_from_key_done", "mfa_authenticate", "mfa_login_webauthn",
    "socialaccount_login_cancelled", "socialaccount_login_error", "socialaccount_signup",
    "openid_connect_login", "openid_connect_callback",
}  # fmt: skip
"""Doors: what comes before somebody is signed in."""
OWN_ACCOUNT: Final = {
    "account_reauthenticate", "account_request_reauthentication_code",
    "account_confirm_reauthentication_code", "account_email", "account_change_password",
    "account_set_password", "mfa_index", "mfa_reauthenticate", "mfa_activate_totp", "mfa_deactivate_totp",
    "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_download_recovery_codes",
    "mfa_list_webauthn", "mfa_add_webauthn", "mfa_reauthenticate_webauthn", "mfa_remove_webauthn",
    "mfa_edit_webauthn", "socialaccount_connections",
}  # fmt: skip
"""Pages of one's own account, whatever one's roles."""


def routes(resolver: Any = None, before: str = "") -> Iterable[tuple[str, str | None]]:
    """Yield every route of the project with its name, but those of the API."""
    for each in (resolver or get_resolver("debugger.urls")).url_patterns:
        route = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from routes(each, route)
        elif isinstance(each, URLPattern) and not route.startswith(("api/", "v1/", "accounts/social/")):
            yield route, each.name
