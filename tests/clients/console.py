"""Looks at the console with a browser; see scripts/console-check.

    console.py URL CHROMIUM AXE [SCREENSHOTS_DIR]
"""

import re
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from browser import accessible as violations
from browser import check, end, failures, page_at, reach

URL, CHROMIUM, AXE = sys.argv[1:4]
SCREENSHOTS = Path(sys.argv[4]) if len(sys.argv) > 4 else None
LISTS = ["", "/waiting", "/runs", "/threads", "/playground", "/tools", "/agents", "/usage", "/audit", "/access"]
THEMES = ["light", "dark"]


def new_page(browser: Browser, theme: str = "light", width: int = 1280, scripts: bool = True) -> Page:
    return page_at(URL, browser, theme, width, scripts)


def accessible(page: Page, name: str, theme: str = "light") -> None:
    violations(AXE, page, name, theme)


def first(page: Page, path: str, selector: str = "tbody .title a") -> str:
    """Returns the address of the first link on a page."""
    page.goto(URL + path)
    return page.locator(selector).first.get_attribute("href")


def question_page(page: Page, words: str) -> str:
    """Returns the address of the page of an open question."""
    page.goto(f"{URL}/console/waiting")
    form = page.locator(f".question:has-text('{words}') form.no").first
    path = form.get_attribute("action").replace("/console/runs/", "/console/waiting/").removesuffix("/decide")
    return f"{path}?s={quote(form.locator('input[name=s]').get_attribute('value'), safe='')}"


def all_pages(page: Page) -> list[tuple[str, str]]:
    """Returns the name and address of every kind of page."""
    pages = [(path.strip("/") or "overview", f"/console{path}") for path in LISTS]
    for status in ("waiting", "failed", "cancelled"):
        pages.append((f"run-{status}", first(page, f"/console/runs?status={status}")))
    pages.append(("run-child", first(page, "/console/runs?kind=child")))
    run = first(page, "/console/runs?agent=support&status=completed&text=money+back")
    pages += [("run", run)] + [(f"run-{view}", f"{run}?view={view}") for view in ("conversation", "events", "state")]
    pages += [("event", f"{run}/events/2"), ("question", question_page(page, "refund_payment"))]
    pages.append(("thread", first(page, "/console/threads", "tbody th a")))
    pages += [("runs-none", "/console/runs?text=no-such-run"), ("audit-none", "/console/audit?tool=none")]
    pages += [("wrong-filter", "/console/runs?status=lost"), ("wrong-code", "/wrong-code")]
    pages.append(("session-ended", "/session-ended"))
    pages += [("tool", "/console/tools/send_email"), ("code", "/console/codes/denied"), ("missing", "/console/none")]
    pages += [("usage-tools", "/console/usage?by=tool"), ("sign-in", "/sign-in")]
    return pages


def looks(browser: Browser) -> None:
    pages = all_pages(new_page(browser))
    for theme in THEMES:
        page = new_page(browser, theme)
        for name, path in pages:
            expected = {"missing": 404, "wrong-filter": 400}.get(name, 200)
            answer = page.goto(URL + path)
            before = len(failures)
            if answer.status != expected:
                check(False, f"{path} answers {answer.status}")
            accessible(page, name, theme)
            check(len(failures) == before, f"{name} has no violation ({theme})")
            for failure in failures[before:]:
                print("     ", failure)
            if SCREENSHOTS:
                SCREENSHOTS.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=SCREENSHOTS / f"{name}-{theme}.png", full_page=True)
        page.context.close()
    narrow = new_page(browser, width=320)
    for name, path in pages:
        narrow.goto(URL + path)
        width = narrow.evaluate("document.documentElement.scrollWidth")
        check(width <= 320, f"{name} fits 320 px (has {width})")
        if SCREENSHOTS:
            narrow.screenshot(path=SCREENSHOTS / f"{name}-narrow.png", full_page=True)
        # A window of 1280 px at 200 %.
        narrow.set_viewport_size({"width": 640, "height": 450})
        width = narrow.evaluate("document.documentElement.scrollWidth")
        check(width <= 640, f"{name} fits 640 px (has {width})")
        narrow.set_viewport_size({"width": 320, "height": 900})
    narrow.context.close()


def question(page: Page, words: str) -> str:
    """Returns the id of the open question about a tool."""
    return page.locator(f".question:not(.answered):has-text('{words}')").first.get_attribute("id")


def decides(browser: Browser) -> None:
    # Two tabs: what one answers turns grey in the other.
    mine, other = new_page(browser), new_page(browser)
    for page in (mine, other):
        page.goto(f"{URL}/console/waiting")
        page.wait_for_selector(".question")
    card = question(mine, "refund_payment")
    mine.locator(f"#{card} button[value=once]").click()
    mine.wait_for_selector(f"#{card}.answered")
    check("/waiting" in mine.url and "run=" not in mine.url, "the answer keeps the page")
    other.wait_for_selector(f"#{card}.answered")
    check("said yes" in other.locator(f"#{card}").inner_text(), "the other tab shows the answer without a reload")

    # Keyboard only: reach the second question, write a reason, say no.
    card = question(other, "refund_payment")
    other.locator("body").press("Tab")
    for _ in range(200):
        if other.evaluate("document.activeElement.id") == f"{card}-reason":
            break
        other.keyboard.press("Tab")
    check(other.evaluate("document.activeElement.id") == f"{card}-reason", "the reason is reached by keyboard")
    other.keyboard.type("The cover was bent before.")
    other.keyboard.press("Enter")
    other.wait_for_selector(f"#{card}.answered")
    check("said no" in other.locator(f"#{card}").inner_text(), "the question is answered by keyboard")
    check(other.evaluate("document.activeElement !== document.body"), "the focus stays on the page")
    hidden_tab(other)

    # A form that is shown again with an error is announced and accessible.
    card = question(mine, "ask_customer")
    form = mine.locator(f"#{card} .yes")
    form.get_by_label("City").fill("Bergen")
    form.locator("button[value=answer]").click()
    mine.wait_for_selector(f"#{card} [aria-invalid=true]")
    before = len(failures)
    accessible(mine, "a form with errors")
    mine.goto(f"{URL}/console/tools/deploy")
    tried = mine.locator("section:has(#try-title) form")
    tried.evaluate("form => form.noValidate = true")
    tried.locator("button.primary").click()
    mine.wait_for_selector(".error")
    accessible(mine, "a tool's form with errors")
    check(len(failures) == before, "forms with errors have no violation")

    # Without JavaScript: a form with a field error, and then an answer.
    plain = new_page(browser, scripts=False)
    plain.goto(f"{URL}/console/waiting")
    card = question(plain, "ask_customer")
    plain.locator(f"#{card}").get_by_label("City").fill("Bergen")
    plain.locator(f"#{card} .yes button[value=answer]").click()
    check("Error" in plain.title(), "an answer that does not fit is shown again without JavaScript")
    form = plain.locator(".yes")
    check(form.get_by_label("City").input_value() == "Bergen", "its entries are kept")
    form.get_by_label("Street and number").fill("Quay 4")
    form.locator("button[value=answer]").click()
    check(" answered " in plain.locator(".answered").inner_text(), "it is answered without JavaScript")
    for page in (mine, other, plain):
        page.context.close()


def hidden_tab(page: Page) -> None:
    """A hidden tab closes its stream, and opens it again when it is shown."""
    with page.expect_event("requestfailed", lambda request: "/console/live" in request.url):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
    with page.expect_request(re.compile("/console/live")):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
    check(True, "a hidden tab has no stream")


def keys(browser: Browser) -> None:
    """Filters, tabs, a yes, a cancellation and a message with the keyboard only. A run's page is live."""
    page = new_page(browser)
    page.goto(f"{URL}/console/runs")
    reach(page, "select[name=status]")
    with page.expect_navigation():
        page.keyboard.press("f")
    badges = page.locator("tbody .badge").all_inner_texts()
    check("status=failed" in page.url and all("failed" in badge for badge in badges), "runs are filtered by keyboard")
    reach(page, "tbody .title a")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    reach(page, ".tabs a[href*='view=events']")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    check(page.locator("table.events tbody tr").count() > 1, "a tab is opened by keyboard")

    page.goto(f"{URL}/console/playground?agent=support")
    reach(page, "#message")
    page.keyboard.type("Please refund order N-9003, it was sent twice.")
    reach(page, ".compose button")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.goto(URL + page.locator("#activity .status a").first.get_attribute("href"))
    page.evaluate("window.isKept = true")
    page.wait_for_selector("#run-open .question")
    reach(page, "#run-open button[value=once]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#rows .call:has-text('send_email')")
    page.wait_for_selector("#run-head .badge:has-text('completed')")
    check(page.evaluate("window.isKept === true"), "a run is answered by keyboard and watched without a reload")

    say(page, "Please refund order N-9004, it was sent twice.")
    page.wait_for_selector(".chat .question")
    page.goto(URL + page.locator("#activity .status a").first.get_attribute("href"))
    reach(page, "#cancel-reason")
    page.keyboard.type("The wrong order.")
    reach(page, ".cancel button")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_selector("#run-head .badge:has-text('cancelled')")
    check("The wrong order." in page.locator("main").inner_text(), "a run is cancelled by keyboard")
    page.context.close()


def stays_text(browser: Browser) -> None:
    """Text of a model, a tool and a component makes no element, and loads nothing."""
    page = new_page(browser)
    run = first(page, "/console/runs?agent=stranger&status=completed")
    paths = ["", "/waiting", "/runs", "/threads", "/tools", "/agents", "/audit", "/tools/leaflet"]
    pages = [f"/console{path}" for path in paths] + [run, f"{run}/events/1", f"{run}/events/4"]
    pages += [f"{run}?view={view}" for view in ("conversation", "events", "state")]
    pages += ["/console/thread?id=ada%2Fhostile", "/console/playground?agent=stranger&thread=hostile-open"]
    pages.append(question_page(page, "leaflet"))

    def holds(name: str) -> None:
        made = page.locator("img, iframe, svg[onload], a[href^='javascript:'], body style, body script")
        links = page.locator("a[href]").evaluate_all("links => links.map(link => link.href)")
        elsewhere = [link for link in links if not link.startswith(URL)]
        shown = page.locator("body").inner_text()
        hidden = [hex(ord(c)) for c in "\x1b\x07\u202e\u2066\u200b\U000e0041" if c in shown]
        check(made.count() == 0 and not elsewhere and not hidden, f"{name} shows text only {elsewhere}{hidden}")

    for path in pages:
        page.goto(URL + path)
        for details in page.locator("details").all():
            details.evaluate("details => details.open = true")
        holds(path.split("?s=")[0])
    page.goto(URL + run)
    check("<script>alert(1)</script>" in page.locator("main").inner_text(), "the text itself is shown")

    # The same text in the pieces of a reply and in the elements of a live page.
    page.goto(f"{URL}/console/playground?agent=stranger")
    page.get_by_label("Message").fill("<img src=https://evil.test/r.png>")
    page.get_by_role("button", name="Send").click()
    page.wait_for_selector(".chat .question")
    holds("a live conversation")
    page.locator(".chat .question button[value=no]").click()
    page.wait_for_selector("#activity .badge:has-text('completed')")
    holds("a live conversation that has ended")

    # The check notices what the policy blocks.
    before = len(failures)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'alert(6)'}))")
    page.wait_for_timeout(200)
    reported = failures[before:]
    del failures[before:]
    check(any("policy" in failure for failure in reported), "a violation of the policy is noticed")
    page.context.close()


def say(page: Page, words: str) -> None:
    """Sends the first message of a conversation in the playground."""
    page.goto(f"{URL}/console/playground?agent=support")
    page.get_by_label("Message").fill(words)
    page.get_by_role("button", name="Send").click()


def plays(browser: Browser) -> None:
    page = new_page(browser)
    say(page, "Please refund order N-9001, it was sent twice.")
    page.wait_for_selector(".chat .question button[value=once]")
    check(True, "a question appears inline without a reload")
    page.locator(".chat .question button[value=once]").click()
    page.wait_for_selector(".live-text:not(:empty)")
    check(True, "the reply appears while it is written")
    page.wait_for_selector(".said.model:has-text('I refunded')")
    check(page.locator(".live-text").inner_text() == "", "the whole reply takes the place of its pieces")
    page.context.close()

    watching, page = new_page(browser), new_page(browser)
    watching.goto(f"{URL}/console/runs")
    say(page, "Is the red ink in stock?")
    watching.wait_for_selector("#runs tr:has-text('Is the red ink')")
    watching.wait_for_selector("#runs tr:has-text('Is the red ink'):has-text('completed')")
    check(True, "a new run appears and ends in an open list")
    for one in (watching, page):
        one.context.close()


def keeps_a_no(browser: Browser) -> None:
    """A "no" whose connection is lost is sent again, and stays a "no"."""
    page = new_page(browser)
    say(page, "Please refund order N-9002, it was sent twice.")
    page.wait_for_selector(".chat .question button[value=once]")
    page.goto(f"{URL}/console/waiting")
    card = question(page, "N-9002")
    page.route("**/decide", lambda route: route.abort(), times=1)
    page.locator(f"#{card} button[value=no]").click()
    page.wait_for_selector(f"#{card}.answered")
    check("said no" in page.locator(f"#{card}").inner_text(), "a no whose connection is lost stays a no")
    page.context.close()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    looks(browser)
    decides(browser)
    plays(browser)
    keeps_a_no(browser)
    keys(browser)
    stays_text(browser)
    browser.close()
end()
print("The console passes.")
