"""Pages on which people and machines are let in, and where an auditor reads what they did."""

from django.urls import path

from debugger.web import again, invitations, notices, people, tokens, trail

urlpatterns = [
    path("people/", people.people, name="people"),
    path("people/roles/give/", people.give, name="give_role"),
    path("people/roles/withdraw/", people.withdraw, name="withdraw_role"),
    path("people/groups/", people.make_group, name="make_group"),
    path("people/groups/<str:uid>/", people.membership, name="membership"),
    path("people/invitations/", invitations.invite, name="invite"),
    path("people/invitations/<str:uid>/withdraw/", invitations.withdraw, name="withdraw_invitation"),
    path("people/<str:uid>/remove/", people.remove, name="remove_person"),
    path("invitations/<str:secret>/", invitations.invitation, name="invitation"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<str:uid>/end/", tokens.end, name="end_token"),
    path("notices/", notices.notices, name="notices"),
    path("notices/mail/", notices.mail, name="choose_mail"),
    path("notices/webhooks/", notices.add, name="add_webhook"),
    path("notices/webhooks/<str:uid>/end/", notices.end, name="end_webhook"),
    path("audit/", trail.trail, name="trail"),
    path("audit/export.ndjson", trail.export, name="export_trail"),
    path("workspace/", people.switch, name="switch_workspace"),
    path("sign-in/again/", again.sign_in_again, name="sign_in_again"),
]
