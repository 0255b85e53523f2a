"""Pages on which runs, branches, outcomes and receipts are read."""

from django.urls import path

from debugger.web import (
    audits,
    branch_list,
    compare,
    configuration,
    connect,
    contracts,
    outcomes,
    receipts,
    reference,
    runs,
)

urlpatterns = [
    path("", runs.runs, name="runs"),
    path("find", runs.find, name="find"),
    path("runs/<str:uid>/", runs.run, name="run"),
    path("runs/<str:uid>/window/", runs.run_window, name="run_window"),
    path("runs/<str:uid>/map/", runs.run_map, name="run_map"),
    path("runs/<str:uid>/next/<str:mark>/", runs.run_jump, name="run_jump"),
    path("runs/<str:uid>/audits/", audits.audits, name="audits"),
    path("runs/<str:uid>/audits/recover/", audits.recover, name="recover"),
    path("runs/<str:uid>/audits/route/", audits.route, name="route"),
    path("connect/", connect.connect, name="connect"),
    path("connect/workflow/", connect.publish, name="connect_workflow"),
    path("connect/token/", connect.token, name="connect_token"),
    path("contracts/", contracts.contracts, name="contracts"),
    path("contracts/<str:uid>/", contracts.contract, name="contract"),
    path("runs/<str:uid>/compare/", compare.compare, name="compare"),
    path("runs/<str:uid>/conclude/", compare.conclude_family, name="conclude"),
    path("runs/<str:uid>/receipts/", receipts.run_receipts, name="run_receipts"),
    path("runs/<str:uid>/receipts/verify/", receipts.verify, name="verify_receipts"),
    path("runs/<str:uid>/receipts.ndjson", receipts.export, name="export_receipts"),
    path("branches/", branch_list.branches, name="branches"),
    path("branches/<str:uid>/configuration/", configuration.configuration, name="configuration"),
    path("outcomes/", outcomes.outcomes, name="outcomes"),
    path("receipts/", receipts.receipts, name="receipts"),
    path("states/", reference.states, name="states"),
    path("help/", reference.shortcuts, name="help"),
]
