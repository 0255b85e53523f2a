"""The whole path, clicked: from a run that failed to a branch whose destination verified it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from playwright.sync_api import Locator, Page

from tests.browser.pictures import keep_picture
from tests.browser.visits import Visit
from tests.worlds import DemoProcess

type Tracks = tuple[str, str]

STAGES: Final[list[Tracks]] = [
    ("Restore uncertain", "No receipt"),  # forked, four of five keys measured
    ("Restore uncertain", "No receipt"),  # a message edited
    ("Restore uncertain", "No receipt"),  # a state value edited
    ("Effects unreconciled", "No receipt"),
    ("Needs approval", "No receipt"),
    ("Waiting for approval", "No receipt"),
    ("Ready to resume", "No receipt"),
    ("Sealed", "Verified"),
]
# Kept on the page itself, so that a reload would lose it.
WATCH_TRACKS = """() => {
  window.stayed = true;
  window.seen = [];
  const look = () => {
    const words = [...document.querySelectorAll(".tracks .badge")].map((badge) => badge.innerText.trim());
    if (words.length === 2 && words.join() !== (window.seen.at(-1) ?? []).join()) window.seen.push(words);
  };
  look();
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
}"""


def press(button: Locator) -> None:
    """Send a form or follow a link, and wait for the page that answers."""
    page = button.page
    with page.expect_navigation():
        button.click()
    if "/sign-in/again/" in page.url:
        # Five minutes after the sign-in a decision takes one more click, and then goes on by itself.
        with page.expect_navigation():
            page.get_by_role("button", name="Continue as").click()


def tracks(page: Page) -> Tracks:
    """Return the words of both tracks: permission to resume, outcome at the destination."""
    labels = page.locator(".tracks .lab").all_inner_texts()
    words = page.locator(".tracks .track > .badge").all_inner_texts()
    said = page.locator("main").inner_text()
    assert [label.upper() for label in labels] == ["PERMISSION TO RESUME", "OUTCOME AT DESTINATION"], said
    return words[0].strip(), words[1].strip()


@dataclass
class Journey:
    """Ada's, Grace's and Barbara's way through one branch; without scripts they reload by themselves."""

    demo: DemoProcess
    visit: Visit
    scripts: bool
    stages: list[Tracks] = field(default_factory=list)
    moved: list[Tracks] = field(default_factory=list)
    request: str = ""

    def __post_init__(self) -> None:
        self.ada = self.visit("ada", scripts=self.scripts)
        self.grace = self.visit("grace", scripts=self.scripts)
        self.barbara = self.visit("barbara", scripts=self.scripts)

    @property
    def branch(self) -> str:
        """The id of the branch that Ada is on."""
        return self.ada.url.partition("/branches/")[2].partition("/")[0]

    def until(self, holds: Callable[[], bool], what: str, *, seconds: float = 300) -> None:
        """Wait until the page says it; with scripts it has to get there by itself."""
        deadline = time.monotonic() + seconds
        while not holds():
            said = f"{what} did not come; the page says {tracks(self.ada)}"
            assert time.monotonic() < deadline, f"{said}\n{self.demo.output()}"
            self.ada.wait_for_timeout(250)
            if not self.scripts:
                self.ada.reload()

    def reach(self, permission: str, outcome: str) -> None:
        self.until(lambda: tracks(self.ada) == (permission, outcome), f"{permission}, {outcome}")
        self.stages.append((permission, outcome))

    def fork(self) -> None:
        """Fork at the checkpoint that the page suggests, and wait for what can be measured at once."""
        self.ada.goto(f"/runs/{self.demo.run}/")
        press(self.ada.get_by_role("link", name="Fork…"))
        assert "suggested" in self.ada.locator("section[aria-labelledby=repeats] header").inner_text()
        repeats = self.ada.locator("tr[data-repeat]")
        assert {"create_ticket", "send_mail"} <= {row.get_attribute("data-repeat") for row in repeats.all()}
        self.ada.get_by_label("Why").select_option("false_success")
        self.ada.get_by_label("What will change").select_option("add_detail")
        self.ada.get_by_label("Hypothesis").fill("The brief names a section that the desk lacks.")
        press(self.ada.get_by_role("button", name="Fork branch"))
        assert "Branch forked." in self.ada.locator("#messages").inner_text()
        self.until(lambda: "4 of 5 keys" in self.ada.locator("#gate-2 h3").inner_text(), "the four probes")
        self.reach("Restore uncertain", "No receipt")

    def edit(self) -> None:
        """Read the brief as the recorder shows it now, name the right section, and record the edit."""
        press(self.ada.get_by_role("link", name="Edit a message or value…"))
        row = self.ada.get_by_role("row").filter(has_text="orchestrator").first
        press(row.get_by_role("link", name="Choose"))
        text = self.ada.get_by_label("New text")
        assert "front-page" in text.input_value()
        text.fill(text.input_value().replace("front-page", "reports"))
        self.ada.get_by_label("Kind of edit").select_option("add_detail")
        press(self.ada.get_by_role("button", name="Record the edit"))
        assert "Add detail by ada" in self.ada.locator("#edits").inner_text()
        self.reach("Restore uncertain", "No receipt")

    def edit_value(self) -> None:
        """Read how the report is signed as the recorder shows it now, and sign it otherwise."""
        press(self.ada.get_by_role("link", name="Edit a message or value…"))
        press(self.ada.get_by_role("link", name="List the values of agent memory"))
        messages = self.ada.get_by_role("row").filter(has_text="edit it message by message")
        assert "messages" in messages.inner_text()
        press(self.ada.get_by_role("row").filter(has_text="byline").get_by_role("link", name="Choose"))
        text = self.ada.get_by_label("New value")
        assert "research desk" in text.input_value()
        self.visit.expects(422)
        text.fill("not JSON")
        press(self.ada.get_by_role("button", name="Record the edit"))
        assert "text has to be JSON" in self.ada.get_by_role("alert").inner_text()
        assert text.input_value() == "not JSON"
        keep_picture(self.ada, "branch-edit", height=1000)
        text.fill('"The research and verification desks"')
        press(self.ada.get_by_role("button", name="Record the edit"))
        assert "agent memory value" in self.ada.locator("#edits").inner_text()
        self.reach("Restore uncertain", "No receipt")

    def probe(self) -> None:
        press(self.ada.locator("#key-approval_queue").get_by_role("button", name="Probe"))
        self.reach("Effects unreconciled", "No receipt")

    def settle(self) -> None:
        """Ask every destination; accept what it proves, skip what cannot be undone."""
        press(self.ada.get_by_role("button", name="Ask all destinations"))
        said = self.ada.locator("#gate-3 tbody td:nth-child(3)")
        self.until(lambda: not any("Not asked" in text for text in said.all_inner_texts()), "the answers")
        keep_picture(self.ada, "branch-effects", height=1200)
        accepts = self.ada.locator("#gate-3").get_by_role("button", name="Accept")
        while accepts.count():
            press(accepts.first)
            assert "Recorded" in self.ada.locator("#messages").inner_text()
        press(self.ada.locator("#gate-3").get_by_role("button", name="Skip"))
        self.reach("Needs approval", "No receipt")

    def ask(self) -> None:
        press(self.ada.get_by_role("button", name="Ask for approval"))
        self.reach("Waiting for approval", "No receipt")

    def decide(self) -> None:
        """Grace and Barbara decide from their inboxes, each on exactly what she is shown."""
        self._open_request(self.grace)
        self.request = self.grace.url.strip("/").rpartition("/")[2]
        self._look_at_an_edit()
        keep_picture(self.grace, "decision")
        press(self.grace.get_by_role("button", name="Approve as shown"))
        assert "You have decided" in self.grace.locator("main").inner_text()
        assert tracks(self.grace) == ("Approved in part", "No receipt")
        self._open_request(self.barbara)
        press(self.barbara.get_by_role("button", name="Approve as shown"))
        assert "This request is approved." in self.barbara.locator("main").inner_text()
        assert tracks(self.barbara) == ("Ready to resume", "No receipt")

    def _open_request(self, page: Page) -> None:
        page.goto("/")
        press(page.get_by_role("navigation", name="Main").get_by_role("link", name="Approvals"))
        row = page.get_by_role("row").filter(has=page.locator(f'a[href*="{self.branch}"]'))
        press(row.get_by_role("link", name="Decide"))

    def _look_at_an_edit(self) -> None:
        """Have an edit shown live by the recorder: the text is there once, and who saw it stays."""
        press(self.grace.get_by_role("button", name="Show it live").first)
        assert "research and verification desks" in self.grace.locator("#shown").inner_text() or (
            "reports" in self.grace.locator("#shown").inner_text()
        )
        press(self.grace.get_by_role("link", name="Back to the decision"))
        assert "shown to grace" in self.grace.locator("main").inner_text()

    def resume(self) -> None:
        """Resume; from here on nobody touches the page until the destination has verified the branch."""
        self.ada.reload()
        self.reach("Ready to resume", "No receipt")
        press(self.ada.get_by_role("button", name="Resume branch"))
        if self.scripts:
            self.ada.evaluate(WATCH_TRACKS)
        self.reach("Sealed", "Verified")
        if self.scripts:
            assert self.ada.evaluate("window.stayed"), "the page was loaded again"
            self.moved = [tuple(words) for words in self.ada.evaluate("window.seen")]
        keep_picture(self.ada, "branch-verified", height=1200)
        keep_picture(self.ada, "branch-verified-dark", theme="dark", height=1200)

    def walk(self) -> None:
        """Go the whole way."""
        for step in (
            self.fork,
            self.edit,
            self.edit_value,
            self.probe,
            self.settle,
            self.ask,
            self.decide,
            self.resume,
        ):
            step()
