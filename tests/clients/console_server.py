"""Signs in to the console of a real server with a browser, and answers a real component's question;
see scripts/console-check.

    console_server.py URL KEY CHROMIUM AXE
"""

import re
import sys

from playwright.sync_api import Browser, Page, sync_playwright

from browser import accessible, check, end, failures, page_at, reach, watched

URL, KEY, CHROMIUM, AXE = sys.argv[1:5]
# The words of a component's question, which are text wherever they are shown.
QUESTION = "<img src=https://evil.test/a.png> ![b](https://evil.test/b.png) [c](https://evil.test/c) \x1b[31mOpen?"


def sign_in(page: Page, path: str) -> None:
    """Opens a page without a session, signs in with the key, and comes back to the page."""
    page.goto(URL + path)
    check("/sign-in" in page.url, f"{path} needs a session")
    page.get_by_label("Code or key").fill(KEY)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(URL + path)


def signs_in(browser: Browser) -> None:
    plain = page_at(URL, browser, scripts=False)
    plain.goto(f"{URL}/console/runs")
    plain.get_by_label("Code or key").fill("tg_wrong")
    plain.get_by_role("button", name="Sign in").click()
    check(plain.locator("#code-error").count() == 1, "a wrong code is refused")
    plain.context.close()

    plain = page_at(URL, browser, scripts=False)
    sign_in(plain, "/console/runs")
    [cookie] = plain.context.cookies()
    check(cookie["httpOnly"] and cookie["sameSite"] == "Strict", "the cookie is not for scripts and other sites")
    plain.context.close()


def answers(browser: Browser) -> None:
    """A person calls a component that asks. It is answered in the inbox with the keyboard, and the
    page of the run follows."""
    inbox = page_at(URL, browser)
    sign_in(inbox, "/console/waiting")
    inbox.evaluate("window.isKept = true")
    caller = watched(URL, inbox.context.new_page())
    caller.goto(f"{URL}/console/tools/request_approval")
    caller.locator("section:has(#try-title)").get_by_label("question").fill(QUESTION)
    caller.get_by_role("button", name="Call").click()
    caller.wait_for_selector("#run-open .question")
    caller.evaluate("window.isKept = true")

    asked = inbox.wait_for_selector(".question:not(.answered):has-text('Open?')")
    card = f"#{asked.get_attribute('id')}"
    check(inbox.evaluate("window.isKept === true"), "the question appears in the open inbox")
    before = len(failures)
    accessible(AXE, inbox, "the inbox")
    check(len(failures) == before, "the inbox has no violation")
    for page in (inbox, caller):
        made = page.locator("main img, main a[href^='https:']").count()
        check(made == 0 and "\x1b" not in page.locator("main").inner_text(), "the question is text only")
    reach(inbox, f"{card} .yes input[type=radio]")
    inbox.keyboard.press("Space")
    reach(inbox, f"{card} .yes button[value=answer]")
    inbox.keyboard.press("Enter")
    inbox.wait_for_selector(f"{card}.answered")
    caller.wait_for_selector("#run-head .badge:has-text('completed')")
    check(caller.evaluate("window.isKept === true"), "the run's page shows the end without a reload")
    caller.goto(f"{caller.url.split('?')[0]}?view=events")
    decided = caller.locator("table.events tr:has-text('call_decided')").first
    check(decided.count() == 1, "the decision is in the record")

    # The session ends: another tab has to sign in again.
    caller.get_by_role("button", name=re.compile("Sign out")).click()
    caller.wait_for_url(re.compile("/sign-in"))
    inbox.reload()
    check("/sign-in" in inbox.url, "a session that was ended is over in every tab")
    inbox.context.close()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    signs_in(browser)
    answers(browser)
    browser.close()
end()
print("The console of the server passes.")
