"""The screenshots of the page in these docs: python docs/images/screenshots.py runs/demo"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from onepass.bench.served import ADMIN, KEY, Server

HERE = Path(__file__).parent
TEXT = "Gas smell on Mill Street, should we leave the house?"
ROWS = [
    ("glad", "What a lovely evening, we laughed until midnight"),
    ("glad", "The new library is wonderful, thank you all"),
    ("glad", "So proud of the team after that final"),
    ("angry", "Third time this month that the bus did not come"),
    ("angry", "Nobody answers the phone, this is a disgrace"),
    ("angry", "They closed the pool again without a word"),
]


def opened(browser: Any, server: Server, **options: Any) -> Page:
    page: Page = browser.new_context(**options).new_page()
    page.add_init_script(f"sessionStorage.setItem('onepass-key', '{KEY}')")
    page.goto(f"http://127.0.0.1:{server.port}/")
    expect(page.locator("#state")).to_contain_text("tasks")
    return page


def asked(page: Page) -> Page:
    page.locator("#text").fill(TEXT)
    for _ in range(2):  # the first of a kind is slower
        page.get_by_role("button", name="Label it").click()
        expect(page.get_by_role("button", name="Label it")).to_be_enabled()
    expect(page.locator("#cost")).to_contain_text("one a task")
    page.locator("h1").click()
    page.wait_for_timeout(300)  # for the bars to have grown
    return page


def main(model: Path) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        server = Server(model, Path(place), 2, name="news", **{"abstain-below": 0.5}).wait()
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            desktop = {"viewport": {"width": 1100, "height": 820}}
            page = opened(browser, server, **desktop)
            asked(page).screenshot(path=HERE / "page-desktop.png")
            phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "color_scheme": "dark"}
            asked(opened(browser, server, is_mobile=True, **phone)).screenshot(path=HERE / "page-phone.png")
            page = opened(browser, server, **desktop)
            page.get_by_role("tab", name="Teach").click()
            page.locator("#name").fill("mood")
            page.locator("#admin").fill(ADMIN)
            page.locator("#rows").fill("\n".join(f"{label} | {text}" for label, text in ROWS))
            page.get_by_role("button", name="Teach it").click()
            expect(page.locator("#try-taught")).to_be_visible(timeout=200_000)
            page.screenshot(path=HERE / "page-teach.png")
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
