"""Looks at the console with a browser; see scripts/console-check.

    console.py URL CHROMIUM AXE [SCREENSHOTS_DIR]
"""

import re
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

URL, CHROMIUM, AXE = sys.argv[1:4]
SCREENSHOTS = Path(sys.argv[4]) if len(sys.argv) > 4 else None
LISTS = ["", "/waiting", "/runs", "/threads", "/playground", "/tools", "/agents", "/usage", "/audit", "/access"]
THEMES = ["light", "dark"]
failures: list[str] = []


def check(holds: bool, what: str) -> None:
    print("ok  " if holds else "FAIL", what, flush=True)
    if not holds:
        failures.append(what)


def new_page(browser: Browser, theme: str = "light", width: int = 1280, scripts: bool = True) -> Page:
    context = browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    page = context.new_page()
    page.set_default_timeout(30_000)
    # A browser logs the status of a missing thing, of a form that is shown again, and a lost connection.
    expected = re.compile("status of (404|422)|net::ERR_FAILED")
    is_failure = lambda message: message.type == "error" and not expected.search(message.text)
    page.on("console", lambda message: failures.append(f"console: {message.text}") if is_failure(message) else None)
    page.on("pageerror", lambda error: failures.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith(URL) else failures.append(f"request elsewhere: {request.url}"),
    )
    return page


def all_pages(page: Page) -> list[tuple[str, str]]:
    """Returns the name and address of every kind of page."""
    pages = [(path.strip("/") or "overview", f"/console{path}") for path in LISTS]
    page.goto(f"{URL}/console/runs?status=waiting")
    pages.append(("run-waiting", page.locator("tbody .title a").first.get_attribute("href")))
    page.goto(f"{URL}/console/runs?agent=support&status=completed&text=money+back")
    run = page.locator("tbody .title a").first.get_attribute("href")
    pages += [("run", run)] + [(f"run-{view}", f"{run}?view={view}") for view in ("conversation", "events", "state")]
    page.goto(f"{URL}/console/threads")
    pages.append(("thread", page.locator("tbody th a").first.get_attribute("href")))
    pages += [("tool", "/console/tools/send_email"), ("code", "/console/codes/denied"), ("missing", "/console/none")]
    pages += [("usage-tools", "/console/usage?by=tool"), ("sign-in", "/sign-in")]
    return pages


def looks(browser: Browser) -> None:
    pages = all_pages(new_page(browser))
    axe = Path(AXE).read_text()
    for theme in THEMES:
        page = new_page(browser, theme)
        for name, path in pages:
            expected = 404 if name == "missing" else 200
            answer = page.goto(URL + path)
            before = len(failures)
            if answer.status != expected:
                check(False, f"{path} answers {answer.status}")
            page.evaluate(axe)
            # Only colors differ between the themes.
            only = "" if theme == "light" else ", runOnly: ['color-contrast']"
            found = page.evaluate(f"axe.run(document, {{resultTypes: ['violations']{only}}})")
            for violation in found["violations"]:
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                failures.append(f"{name} {theme}: {violation['id']} ({violation['help']}): {nodes}")
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
    browser.close()
if failures:
    print(f"{len(failures)} failures:", *failures, sep="\n  ")
    sys.exit(1)
print("The console passes.")
