"""Pages on which branches are forked, gated, decided and resumed."""

from django.urls import path

from debugger.web import approvals, branches, content, demo, edits, forks, imports, jobs, policies

urlpatterns = [
    path("import/", imports.imports, name="imports"),
    path("runs/<str:uid>/fork/", forks.fork, name="fork"),
    path("runs/<str:uid>/jobs/", jobs.ask, name="ask_job"),
    path("runs/<str:uid>/messages/<int:seq>/", content.message, name="message"),
    path("runs/<str:uid>/checkpoints/<int:seq>/<str:key>/", content.state, name="state_value"),
    path("branches/<str:uid>/", branches.branch, name="branch"),
    path("branches/<str:uid>/effects/", branches.branch_effects, name="branch_effects"),
    path("branches/<str:uid>/reconcile/", branches.reconcile, name="reconcile"),
    path("branches/<str:uid>/judge/", branches.judge, name="judge"),
    path("branches/<str:uid>/acknowledge/", branches.acknowledge, name="acknowledge"),
    path("branches/<str:uid>/attest/", branches.attest, name="attest"),
    path("branches/<str:uid>/request/", branches.ask_approval, name="ask_approval"),
    path("branches/<str:uid>/withdraw/", branches.withdraw, name="withdraw"),
    path("branches/<str:uid>/resume/", branches.resume, name="resume"),
    path("branches/<str:uid>/edit/", edits.edit, name="edit"),
    path("branches/<str:uid>/governance.json", branches.governance, name="governance"),
    path("branches/<str:uid>/configure/", branches.configure, name="configure"),
    path("branches/<str:uid>/confirm/", branches.confirm, name="confirm"),
    path("branches/<str:uid>/offer/", branches.offer, name="offer"),
    path("branches/<str:uid>/revoke/", approvals.revoke, name="revoke"),
    path("approvals/", approvals.inbox, name="inbox"),
    path("approvals/<str:uid>/", approvals.decision, name="decision"),
    path("approvals/<str:uid>/edits/<int:edit>/", approvals.disclose, name="disclose"),
    path("policies/", policies.policies, name="policies"),
    path("policies/<str:uid>/", policies.change, name="policy_change"),
    path("jobs/<str:uid>/", jobs.job, name="job"),
    path("jobs/<str:uid>/cancel/", jobs.cancel, name="cancel_job"),
    path("demo/sign-in/<str:name>/", demo.sign_in, name="demo_sign_in"),
]
