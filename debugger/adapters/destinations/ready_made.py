"""Ready-made targets for http_json: issues at GitHub, GitLab and Gitea, found by what the agent puts on them.

None of the three takes a client's own key for an issue, so that the agent puts two things there itself: a
label that is made of the key, by which the issue is listed (a list, not a search: an index lags behind), and
the line `operation-key: KEY` in the body, which every issue that is listed must carry.

A tracker may drop a label that the writer may not set, and people take labels away: an empty list is then no
absence. `labels_are_kept` says that neither happens here: the writer may label, and nobody takes one off.
"""

from typing import Final
from urllib.parse import quote

from branches.ports import JsonValue

type Options = dict[str, JsonValue]

# A page of more issues with long texts is larger than what is read.
_PAGE: Final = 5


def github_issues(
    owner: str,
    repository: str,
    *,
    auth_env: str | None = None,
    base_url: str = "https://api.github.com",
    labels_are_kept: bool = False,
) -> Options:
    """Return the options of a destination whose tool `create_issue` files an issue at GitHub."""
    issues = f"{base_url}/repos/{quote(owner, safe='')}/{quote(repository, safe='')}/issues"
    return {
        **_issues(auth_env, labels_are_kept, text="body", number="number"),
        "url": f"{issues}?state=all&per_page=2&labels={{operation_label}}",
        "list": {
            "url": (
                f"{issues}?state=all&sort=created&direction=asc&per_page={_PAGE}"
                "&since={since}&page={page}"
            ),
            **_listed(text="body", number="number"),
        },
    }


def gitlab_issues(
    project: str,
    *,
    auth_env: str | None = None,
    base_url: str = "https://gitlab.com",
    labels_are_kept: bool = False,
) -> Options:
    """Return the options of a destination whose tool `create_issue` files an issue at GitLab."""
    issues = f"{base_url}/api/v4/projects/{quote(project, safe='')}/issues"
    return {
        **_issues(auth_env, labels_are_kept, text="description", number="iid"),
        "url": f"{issues}?state=all&scope=all&per_page=2&labels={{operation_label}}",
        "list": {
            "url": (
                f"{issues}?state=all&scope=all&order_by=created_at&sort=asc&per_page={_PAGE}"
                "&created_after={since}&page={page}"
            ),
            **_listed(text="description", number="iid"),
        },
    }


def gitea_issues(
    owner: str,
    repository: str,
    *,
    base_url: str,
    auth_env: str | None = None,
    labels_are_kept: bool = False,
) -> Options:
    """Return the options of a destination whose tool `create_issue` files an issue at Gitea.

    Gitea leaves out a label that it does not know, and lists everything: what carries another key or none
    makes the answer unknown, so that a label must be made before the issue, also for absence to be seen.
    """
    issues = f"{base_url}/api/v1/repos/{quote(owner, safe='')}/{quote(repository, safe='')}/issues"
    return {
        **_issues(auth_env, labels_are_kept, text="body", number="number"),
        "url": f"{issues}?state=all&type=issues&limit=2&labels={{operation_label}}",
        "list": {
            "url": f"{issues}?state=all&type=issues&limit={_PAGE}&since={{since}}&page={{page}}",
            **_listed(text="body", number="number"),
        },
    }


def newest_issue(destination: Options, expected: JsonValue) -> Options:
    """Return the options of a verifier of the newest issue, for the tracker of a ready-made destination.

    `expected` is what http_json takes: expected outcome -> {selector: value}, over one issue.
    """
    listed = destination["list"]
    if not isinstance(listed, dict):
        raise TypeError("destination: list")
    base = str(destination["url"]).partition("?")[0]
    is_gitlab = listed["operation_key"] == "description"
    newest = "order_by=created_at&sort=desc" if is_gitlab else "sort=created&direction=desc"
    size = "limit=5&type=issues" if "type=issues" in str(destination["url"]) else "per_page=5"
    options: Options = {
        "latest_url": f"{base}?state=all&{newest}&{size}",
        "items": ".",
        "version": listed["ref"],
        "operation_key": listed["operation_key"],
        "artifact": ["title", str(listed["operation_key"])],
        "expected": expected,
    }
    return {**options, **({"auth_env": destination["auth_env"]} if "auth_env" in destination else {})}


def _issues(auth_env: str | None, labels_are_kept: bool, *, text: str, number: str) -> Options:
    options: Options = {
        "items": ".",
        "operation_key": text,
        "payload": {"create_issue": ["title"]},
        "ref": number,
    }
    if labels_are_kept:
        options["empty"] = "absent"
    return options if auth_env is None else {**options, "auth_env": auth_env}


def _listed(*, text: str, number: str) -> Options:
    return {"operation_key": text, "at": "created_at", "ref": number}
