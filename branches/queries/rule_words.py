"""A rule of a policy in words: how many of which role, and of how many groups."""

from typing import Final

from branches.rules.quorum import Rule

_ROLES: Final = {
    "approver": ("approver", "approvers"),
    "destination_owner": ("owner of {destination}", "owners of {destination}"),
    "reviewer": ("reviewer", "reviewers"),
    "policy_admin": ("policy admin", "policy admins"),
}


def rule_words(rule: Rule, destination: str = "each destination") -> str:
    """Return what a rule asks for; one about owners names the destination."""
    one, many = _ROLES[rule.role]
    role = (one if rule.people == 1 else many).format(destination=destination)
    groups = f", of {rule.groups} different groups" if rule.groups > 1 else ""
    return f"{rule.people} {role}{groups}"
