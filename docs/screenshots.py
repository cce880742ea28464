"""Takes the pictures of the page that docs/serving.md shows: python docs/screenshots.py http://127.0.0.1:8000"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

TEXT = "Gas smell on Mill Street, should we leave the house?"
VIEWS = {
    "desktop": {"viewport": {"width": 1100, "height": 760}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "device_scale_factor": 2},
}

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for name, options in VIEWS.items():
        page = browser.new_context(**options).new_page()
        page.goto(sys.argv[1])
        expect(page.locator("#state")).to_contain_text("tasks")
        page.locator("#text").fill(TEXT)
        page.locator("#text").press("Control+Enter")
        expect(page.locator("#answers article").first).to_be_visible()
        page.locator("#text").press("Control+Enter")  # a second time: the first pass of a process is slower
        page.wait_for_timeout(1000)
        page.screenshot(path=Path(__file__).parent / "images" / f"page-{name}.png")
    browser.close()
