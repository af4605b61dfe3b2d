"""A browser that looks at the console; see scripts/console-check. Whatever goes wrong is a failure."""

import re
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

failures: list[str] = []


def check(holds: bool, what: str) -> None:
    print("ok  " if holds else "FAIL", what, flush=True)
    if not holds:
        failures.append(what)


def page_at(url: str, browser: Browser, theme: str = "light", width: int = 1280, scripts: bool = True) -> Page:
    """Returns a page in a browser session of its own, for the pages at this address alone."""
    context = browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    return watched(url, context.new_page())


def watched(url: str, page: Page) -> Page:
    """Adds whatever goes wrong on the page to the failures."""
    page.set_default_timeout(30_000)
    # A violation of the policy becomes an error of the console, which is a failure.
    page.add_init_script(
        "addEventListener('securitypolicyviolation', event => console.error('policy', event.blockedURI, event.sample))"
    )
    page.on("dialog", lambda dialog: (failures.append(f"a script ran: {dialog.message}"), dialog.dismiss()))
    # A browser logs the status of a missing thing, of a form that is shown again, and a lost connection.
    expected = re.compile("status of (400|403|404|422)|net::ERR_FAILED")
    is_failure = lambda message: message.type == "error" and not expected.search(message.text)
    page.on("console", lambda message: failures.append(f"console: {message.text}") if is_failure(message) else None)
    page.on("pageerror", lambda error: failures.append(f"error: {error}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith(url) else failures.append(f"request elsewhere: {request.url}"),
    )
    return page


def accessible(axe: str, page: Page, name: str, theme: str = "light") -> None:
    """Adds the violations that axe finds on a page to the failures."""
    page.evaluate(Path(axe).read_text())
    # Only colors differ between the themes.
    only = "" if theme == "light" else ", runOnly: ['color-contrast']"
    found = page.evaluate(f"axe.run(document, {{resultTypes: ['violations']{only}}})")
    for violation in found["violations"]:
        nodes = [node["html"][:160] for node in violation["nodes"][:3]]
        failures.append(f"{name} {theme}: {violation['id']} ({violation['help']}): {nodes}")


def reach(page: Page, selector: str) -> None:
    """Moves the focus with the keyboard to the first element that fits."""
    for _ in range(300):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by keyboard on {page.url}")


def end() -> None:
    if failures:
        print(f"{len(failures)} failures:", *failures, sep="\n  ")
        sys.exit(1)
