"""Takes the pictures of the console for the documentation; see scripts/console-check.

    screenshots.py URL CHROMIUM DIRECTORY
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

URL, CHROMIUM, DIRECTORY = sys.argv[1:4]
RUN = "/console/runs?agent=support&status=completed&text=money+back"
# The name of each picture, its theme, and its height in pixels.
PICTURES = [("console-run", "light", 720), ("console-waiting", "dark", 720)]


def address(page, name: str) -> str:
    if name == "console-waiting":
        return f"{URL}/console/waiting"
    page.goto(URL + RUN)
    return URL + page.locator("tbody .title a").first.get_attribute("href")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    for name, theme, height in PICTURES:
        context = browser.new_context(color_scheme=theme, viewport={"width": 1280, "height": height})
        page = context.new_page()
        page.goto(address(page, name))
        page.wait_for_load_state("load")
        if name == "console-waiting":
            # Permission questions say most.
            page.locator(".question:has-text('deploy')").first.evaluate("card => scrollTo(0, card.offsetTop - 24)")
        file = Path(DIRECTORY) / f"{name}.png"
        page.screenshot(path=file)
        size = file.stat().st_size
        print(f"{file}: {size} bytes")
        if size > 150_000:
            sys.exit(f"{file} is larger than 150,000 bytes")
        context.close()
    browser.close()
