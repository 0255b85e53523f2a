"""Talks to the server: receipts may wait, but a question to a gate that gets no answer means no."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

_ON_THE_WAY: Final = frozenset({"recorders/challenge", "recorders/continue"})
"""What a client asks on its way to being paired: an answer that it is not leads nowhere from there."""
_TIMEOUT: Final = httpx.Timeout(10.0, connect=5.0)


class GateUnreachable(Exception):
    """No answer, or one that says the server is not well: nothing may be concluded from it."""


class GateRefused(Exception):
    """The server said no; `rule` is a closed word and `field` a dotted path, or None."""

    def __init__(self, status: int, rule: str, field: str | None = None) -> None:
        super().__init__(f"refused with {status}: {rule}")
        self.status = status
        self.rule = rule
        self.field = field


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line of a batch (counted from 0 here, from 1 by the server) that the server will never take."""

    line: int
    field: str | None
    rule: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch."""

    accepted: int
    duplicates: int
    refused: tuple[RefusedLine, ...]


class Client:
    """One server, one token; safe to use from several threads."""

    def __init__(self, server: str, token: str) -> None:
        self._http = httpx.Client(
            base_url=server.rstrip("/") + "/api/v1/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT,
        )
        self.on_not_paired: Callable[[], None] | None = None
        """What may be done where nobody paired with the token, before it is asked once more."""

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def pair(self, name: str, box_key: str, runtime: Mapping[str, str]) -> dict[str, Any]:
        """Register this recorder's public key (base64); the same key again gives the same answer."""
        return self._post("recorders/pair", {"name": name, "box_key": box_key, "runtime": dict(runtime)})

    def challenge(self, recorder: str) -> str:
        """Return what this recorder has to open to go on under the client's token (base64)."""
        return str(self._post("recorders/challenge", {"recorder": recorder})["sealed"])

    def go_on(self, recorder: str, proof: str) -> None:
        """Go on as this recorder under the client's token; `proof` is what the challenge held (base64)."""
        self._post("recorders/continue", {"recorder": recorder, "proof": proof})

    def workflow(self, name: str, version: str) -> dict[str, Any]:
        """Return the published declaration of a workflow with its digest."""
        return self._ask("GET", f"workflows/{name}/{version}")

    def deliver(self, lines: Sequence[bytes]) -> Delivery:
        """Send a batch. Raises GateUnreachable, or GateRefused when none of it was looked at."""
        body = gzip.compress(b"\n".join(lines) + b"\n", compresslevel=1)
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        response = self._send("POST", "receipts", content=body, headers=headers)
        answer = _json(response)
        if response.status_code not in {200, 207, 422} or "refused" not in answer:
            raise _refusal(response, answer)
        refused = tuple(
            RefusedLine(int(each["line"]) - 1, each.get("field"), str(each.get("rule", "unknown")))
            for each in answer["refused"]
        )
        return Delivery(int(answer.get("accepted", 0)), int(answer.get("duplicates", 0)), refused)

    def work(self, wait: int) -> dict[str, Any]:
        """Hold a long poll of `wait` seconds; returns permits, content requests and branches to stop."""
        timeout = httpx.Timeout(wait + 10.0, connect=5.0)
        return self._ask("GET", "recorder/work", params={"wait": wait}, timeout=timeout)

    def edits(self, permit: str) -> list[dict[str, Any]]:
        """Return the permit's edits, sealed to this recorder."""
        return list(self._ask("GET", f"permits/{permit}/edits")["edits"])

    def redeem(self, permit: str, recorder: str, attempt: str) -> dict[str, Any]:
        """Use the permit; the same attempt may ask again. Raises GateRefused with the rule that said no."""
        return self._post(f"permits/{permit}/redeem", {"recorder": recorder, "attempt": attempt})

    def decline(self, permit: str, recorder: str, rule: str) -> None:
        """Tell the server that a permit is not used, and which check said so."""
        self._post(f"permits/{permit}/decline", {"recorder": recorder, "rule": rule})

    def lease(self, branch: str, attempt: str) -> dict[str, Any]:
        """Ask whether the branch may take its next step."""
        return self._post(f"branches/{branch}/lease", {"attempt": attempt})

    def recoveries(self, run: str) -> list[dict[str, Any]]:
        """Return the decisions on a run's hand-overs that may be carried out."""
        return list(self._ask("GET", f"runs/{run}/recoveries")["recoveries"])

    def receipts(self, run: str, *, from_seq: int = 1) -> list[dict[str, Any]]:
        """Return a run's receipts from a seq on, oldest first. Raises GateUnreachable and GateRefused."""
        response = self._send("GET", f"runs/{run}/receipts", params={"from_seq": from_seq})
        if response.status_code >= 400:
            raise _refusal(response, _json(response))
        try:
            return [json.loads(line) for line in response.content.splitlines() if line]
        except ValueError:
            raise GateUnreachable("not our server's answer") from None

    def report_conformance(self, report: Mapping[str, Any]) -> None:
        """Say what of the conformance suite this recorder kept."""
        self._post("recorders/conformance", report)

    def answer_content(self, request: str, answer: Mapping[str, str]) -> None:
        """Answer a request for content with sealed bytes (base64), or with a problem."""
        self._post(f"content/{request}", dict(answer))

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("POST", path, json=body)

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        response = self._send(method, path, **options)
        answer = _json(response)
        if response.status_code >= 400:
            raise _refusal(response, answer)
        return answer

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = self._sent(method, path, **options)
        if self.on_not_paired is None or path in _ON_THE_WAY or not _is_unpaired(response):
            return response
        self.on_not_paired()
        return self._sent(method, path, **options)

    def _sent(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise GateUnreachable(type(error).__name__) from None
        if response.status_code >= 500 or response.status_code == 429:
            raise GateUnreachable(f"status {response.status_code}")
        return response


def _is_unpaired(response: httpx.Response) -> bool:
    return response.status_code == 409 and _refusal(response, _json(response)).rule == "not_paired"


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = json.loads(response.content or b"{}")
    except ValueError:
        raise GateUnreachable("not our server's answer") from None
    if not isinstance(answer, dict):
        raise GateUnreachable("not our server's answer")
    return answer


def _refusal(response: httpx.Response, answer: Mapping[str, Any]) -> GateRefused:
    error = answer.get("error")
    said = error if isinstance(error, dict) else answer
    return GateRefused(response.status_code, str(said.get("rule", "unknown")), said.get("field"))
