"""The page, in a real browser."""

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onepass.data.files import column_names, read_chunks
from onepass.errors import DataError

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page is not tested")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="There is no Chromium here (apt-get install chromium): the page is not tested in a browser.",
)
PHONE = {"width": 375, "height": 740}
PATIENT_S = 200


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def page(live: Any, browser: Any) -> Iterator[Any]:
    """The page, loaded; everything that goes wrong in it fails the test."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    faults: list[str] = []
    outside: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    refused = "Failed to load resource"  # what Chromium itself says of an answer that is an error
    page.on(
        "console",
        lambda said: faults.append(said.text) if said.type == "error" and not said.text.startswith(refused) else None,
    )
    page.on("request", lambda request: outside.append(request.url))
    page.set_default_timeout(30_000)
    page.goto(f"http://127.0.0.1:{live.port}/")
    sync_api.expect(page.locator("#state")).to_contain_text("tasks, revision", timeout=30_000)
    yield page
    context.close()
    assert not faults
    assert all(url.startswith((f"http://127.0.0.1:{live.port}/", "blob:")) for url in outside)


def test_a_text_is_labelled_by_keyboard_and_filtered(page: Any) -> None:
    page.locator("#text").fill("late goal wins the match")
    page.locator("#text").press("Control+Enter")
    topic, same = (page.locator("#answers article").filter(has_text=name) for name in ("topic", "same"))
    sync_api.expect(topic).to_have_count(1)
    assert page.locator("article:has-text('topic') .bar").count() == 2
    sync_api.expect(page.locator("#cost")).to_contain_text("2 tasks in one pass. A pass for each")
    assert page.locator("#cost .time").count() == 2 and page.locator("#offered").is_hidden()
    page.locator("#second").fill("senate vote")
    page.get_by_role("button", name="Label it").click()
    sync_api.expect(same).to_have_count(1)
    page.locator("#filter").fill("sport")
    assert page.locator("#answers article:visible").count() == 1


def test_the_tasks_are_shown_before_anything_is_asked_and_an_example_asks(page: Any) -> None:
    sync_api.expect(page.locator("#offered article")).to_have_count(3)
    sync_api.expect(page.locator("#offered article").filter(has_text="topic")).to_contain_text("politics")
    page.locator("#filter").fill("tone")
    assert page.locator("#offered article:visible").count() == 1
    page.locator("#filter").fill("")
    page.locator("#examples button").first.click()
    sync_api.expect(page.locator("#answers article").first).to_be_visible()
    assert page.locator("#text").input_value() and page.locator("#examples").is_hidden()


def test_thresholds_and_abstentions_are_shown(page: Any) -> None:
    unsure = {"label": None, "score": 0.6, "scores": {"a": 0.6, "b": 0.4}, "threshold": 0.8, "version": 1}
    several = {"label": ["x"], "score": 0.7, "scores": {"x": 0.7, "y": 0.2}, "threshold": {"x": 0.5, "y": 0.3}}
    tasks = {
        "unsure": unsure | {"abstained": True, "reason": "below 0.8"},
        "several": several | {"abstained": False, "version": 3},
    }
    answer = {"times": {"queue_ms": 0, "run_ms": 5}, "results": [{"tasks": tasks, "truncated": True, "tokens": 9}]}
    page.route("**/predict", lambda route: route.fulfill(json=answer))
    page.locator("#text").fill("goal")
    page.locator("#text").press("Control+Enter")
    card = page.locator("article.abstained")
    sync_api.expect(card).to_contain_text("abstained: below 0.8")
    sync_api.expect(card.locator(".label")).to_contain_text("no answer")
    assert card.locator(".threshold").count() == 2 and page.locator("#legend").is_visible()
    marks = page.locator("article:has-text('several') .threshold")
    assert marks.evaluate_all("all => all.map((mark) => mark.style.getPropertyValue('--at'))") == ["0.5", "0.3"]
    sync_api.expect(page.locator("#cost")).to_contain_text("The text was cut")


def test_markup_in_a_text_or_a_label_stays_text(page: Any) -> None:
    page.locator("#text").fill("<img src=x onerror=alert(1)>")
    page.locator("#text").press("Control+Enter")
    sync_api.expect(page.locator("#answers article").first).to_be_visible()
    assert page.locator("main img").count() == 0


def test_two_texts_are_compared(page: Any) -> None:
    page.get_by_role("tab", name="Try").focus()
    page.keyboard.press("ArrowRight")
    page.locator("#left").fill("late goal")
    page.locator("#right").fill("senate vote")
    page.get_by_role("button", name="Compare").click()
    sync_api.expect(page.locator("#compared tbody tr").filter(has_text="topic")).to_have_count(1)


def test_a_file_comes_back_labelled(page: Any, tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    texts = ["late goal", 'a "quoted", text', "=1+1", *(f"senate vote {n}" for n in range(70))]
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([n, text] for n, text in enumerate(texts))])
    rows = label(page, source)
    assert page.locator("#download").get_attribute("download") == "mails-labelled.csv"
    assert [row["text"] for row in rows] == [texts[0], texts[1], "'=1+1", *texts[3:]]  # a formula is disarmed
    assert {row["topic"] for row in rows} <= {"politics", "sport"} and float(rows[0]["topic_score"]) > 0


def label(page: Any, source: Path) -> list[dict[str, str]]:
    """The rows of the file that the page makes of one."""
    page.get_by_role("tab", name="File").click()
    page.locator("#csv").set_input_files(source)
    page.get_by_role("button", name="Label all rows").click()
    with page.expect_download() as download:
        page.locator("#download").click()
    return list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))


def test_a_row_or_a_request_that_fails_costs_no_other_row_of_a_file(page: Any, tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    texts = [f"late goal {n}" for n in range(70)]
    source.write_text("\n".join(["text", *texts[:40], "x" * 200_001, *texts[41:]]))
    rows = label(page, source)
    assert [n for n, row in enumerate(rows) if not row["topic"]] == [40] and len(rows) == 70
    sync_api.expect(page.locator("#file-state")).to_contain_text("did not answer: row 41.")
    asked: list[Any] = []
    page.route("**/predict", lambda route: route.abort() if asked else asked.append(route.continue_()))
    assert [row["text"] for row in label(page, source)] == texts[:32]
    sync_api.expect(page.locator("#problem")).to_have_text("The server cannot be reached.")
    sync_api.expect(page.locator("#file-state")).to_contain_text("32 of 70 rows are labelled")


def test_behind_a_proxy_that_puts_a_prefix_before_the_paths_the_page_works(live: Any, browser: Any) -> None:
    site, context = f"http://127.0.0.1:{live.port}", browser.new_context()
    context.route("**/*", lambda route: route.abort())
    context.route(f"{site}/a/b/**", lambda route: route.continue_(url=route.request.url.replace("/a/b/", "/")))
    page = context.new_page()
    page.goto(f"{site}/a/b/")
    page.locator("#text").fill("late goal")
    page.locator("#text").press("Control+Enter")
    sync_api.expect(page.locator("#answers article").first).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="Routes").click()
    sync_api.expect(page.locator("pre").filter(has_text="/predict").first).to_contain_text(f"{site}/a/b/predict")
    page.get_by_role("link", name="Try it").click()
    sync_api.expect(page.locator("#state")).to_contain_text("tasks, revision", timeout=30_000)
    context.close()


def test_a_file_of_another_encoding_is_told(page: Any, tmp_path: Path) -> None:
    (tmp_path / "mails.csv").write_bytes("text\nsp\u00e4tes Tor\n".encode("cp1252"))
    page.get_by_role("tab", name="File").click()
    page.locator("#csv").set_input_files(tmp_path / "mails.csv")
    sync_api.expect(page.locator("#problem")).to_contain_text("mails.csv is not UTF-8")


def test_a_file_that_was_mended_can_be_chosen_again(page: Any, tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    page.get_by_role("tab", name="File").click()
    for text, place, told in (
        ('text\n"late goal\n', "#problem", "a quote is opened here"),
        ('text\n"late goal"\n', "#file-state", "1 rows"),
    ):
        source.write_text(text)
        with page.expect_file_chooser() as chooser:
            page.locator("#csv").click()
        chooser.value.set_files(source)
        sync_api.expect(page.locator(place)).to_contain_text(told)
    page.get_by_role("button", name="Label all rows").click()
    page.locator("#download").wait_for()


def test_the_page_and_the_command_line_cut_a_file_alike(page: Any, tmp_path: Path) -> None:
    read = "async (text) => { const { parse } = await import('/page/csv.js'); return parse(text).header; }"
    for text, header in (
        ("text,label\na,x\n", ["text", "label"]),
        ("text;n, EUR\na;1\n", ["text", "n, EUR"]),
        ("text;n, EUR\na, b;1\n", ["text", "n, EUR"]),
        ('text\t"a, b"\n"x\ny"\t2\n', ["text", "a, b"]),
        ("a;b,c\n1;2,x\n", ["a;b", "c"]),
        ("t\na\n", ["t"]),
    ):
        (tmp_path / "t.csv").write_text(text)
        assert page.evaluate(read, text) == column_names(tmp_path / "t.csv") == header


def test_the_page_and_the_command_line_find_the_same_cells_and_faults(page: Any, tmp_path: Path) -> None:
    read = "async (text) => { const { parse } = await import('/page/csv.js'); return parse(text).rows; }"
    fault = read.replace("return parse(text).rows", "try { parse(text); } catch (error) { return error.message; }")
    for ending, text in (
        ("csv", 'text,n\r\n"a, ""b""\r\nc",1\r\n\r\n"",2\r\n'),
        ("tsv", 'text\tn\n"Open\t1\nquote" here\t2\n'),
        ("tsv", 'text\tn\n"two\nlines"\t1\n"a"\t2\n'),
    ):
        path = tmp_path / f"t.{ending}"
        path.write_text(text, newline="")
        rows = [[row["text"] or "", row["n"]] for chunk in read_chunks(path) for _, row in chunk.rows()]
        assert page.evaluate(read, text) == rows and len(rows) == 2
    for text, told in (
        ('text,n\na,1\n"b,2\nc,3\n', "a quote is opened here and never closed."),
        ('text,n\na,1\n"b" c,2\n', "quotes are wrong"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=told):
            list(read_chunks(path))
        assert f"Line 3: {told}" in page.evaluate(fault, text)


def test_rows_that_were_cut_in_the_wrong_places_are_told_and_left_blank(page: Any, tmp_path: Path) -> None:
    source = tmp_path / "mails.csv"
    source.write_text("id,text\n1,late goal\n2,late goal, again\n3,\n4\n5,senate vote\n")
    page.get_by_role("tab", name="File").click()
    page.locator("#csv").set_input_files(source)
    told = "5 rows, 2 columns. More or fewer cells than the header: row 2, 4."
    sync_api.expect(page.locator("#file-state")).to_contain_text(told)
    rows = label(page, source)
    sync_api.expect(page.locator("#file-state")).to_contain_text("rows are done. Left blank, without a text or with")
    sync_api.expect(page.locator("#file-state")).to_contain_text("cells than the header: row 2, 3, 4.")
    assert [row["text"] for row in rows] == ["late goal", "late goal, again", "", "", "senate vote"]
    assert [bool(row["topic"]) for row in rows] == [True, False, False, False, True]
    page.get_by_role("tab", name="Teach").click()
    source.write_text("text,label\nlate goal,glad\nlate, again,sad\n")
    page.locator("#rows-file").set_input_files(source)
    page.locator("#name").fill("feeling")
    page.get_by_role("button", name="Teach it").click()
    sync_api.expect(page.locator("#problem")).to_contain_text("Row 2 of mails.csv has 3 cells, the header 2.")


def test_a_task_is_taught_and_tried(page: Any, live: Any) -> None:
    page.get_by_role("tab", name="Teach").click()
    page.locator("#name").fill("feeling")
    page.locator("#admin").fill(live.key)
    lines = [f"glad | good match {n}\nsad\tbad vote {n}" for n in range(6)]
    page.locator("#rows").fill("\n".join(lines))
    sync_api.expect(page.locator("#counted")).to_have_text("12 examples: glad 6, sad 6")
    page.get_by_role("button", name="Teach it").click()
    page.locator("#try-taught").click(timeout=1000 * PATIENT_S)
    page.locator("#text").fill("good match")
    page.locator("#text").press("Control+Enter")
    sync_api.expect(page.locator("#answers article:visible h2")).to_contain_text(["feeling"])
    assert any(task["name"] == "feeling" for task in live.get("/tasks")[1]["tasks"])


def test_what_is_sent_already_is_not_sent_again(page: Any) -> None:
    """Else the answer to the first text could come behind that to the second, and a task be taught twice."""
    asked: list[Any] = []
    page.route("**/predict", lambda route: asked.append(route))
    page.locator("#text").fill("late goal")
    page.locator("#text").press("Control+Enter")
    page.locator("#text").press("Control+Enter")
    page.wait_for_timeout(300)
    assert len(asked) == 1
    asked[0].continue_()
    sync_api.expect(page.locator("#answers article").first).to_be_visible()


def test_a_task_that_is_there_is_taught_anew_only_when_that_is_meant(page: Any, live: Any) -> None:
    sent: list[Any] = []
    questions: list[str] = []
    page.route("**/tasks/topic", lambda route: (sent.append(route), route.abort()))
    page.on("dialog", lambda dialog: (questions.append(dialog.message), dialog.dismiss()))
    page.get_by_role("tab", name="Teach").click()
    page.get_by_label("Name of the new task").fill("topic")
    page.get_by_label("Admin key").fill(live.key)
    page.locator("#rows").fill("glad | good match\nsad | bad vote")
    page.get_by_role("button", name="Teach it").click()
    sync_api.expect(page.get_by_role("button", name="Teach it")).to_be_enabled()
    assert len(questions) == 1 and "“topic” is there already" in questions[0]
    assert not sent


def test_a_version_that_took_over_meanwhile_is_named(page: Any, live: Any) -> None:
    archive = live.request("GET", "/tasks/topic/archive")[1]
    assert live.request("PUT", "/tasks/another", archive, {"Content-Type": "application/zip"})[0] == 200
    page.locator("#text").fill("good match")
    page.locator("#text").press("Control+Enter")
    sync_api.expect(page.locator("#answers article:visible h2").filter(has_text="another")).to_have_count(1)
    sync_api.expect(page.locator("#state")).to_contain_text(live.get("/info")[1]["revision"])
    assert live.request("DELETE", "/tasks/another")[0] == 200


def test_it_fits_a_phone_in_the_dark(live: Any, browser: Any) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme="dark", has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{live.port}/")
    page.locator("#text").fill("late goal " * 40)
    page.get_by_role("button", name="Label it").tap()
    sync_api.expect(page.locator("#answers article").first).to_be_visible(timeout=30_000)
    page.evaluate("document.querySelector('#answers h2 span').textContent = 'x'.repeat(64)")  # the longest name
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 29)"
    page.locator("#theme").tap()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    context.close()


def test_the_routes_are_listed(page: Any, live: Any) -> None:
    page.goto(f"http://127.0.0.1:{live.port}/docs")
    sync_api.expect(page.locator("article:has-text('/predict')").first).to_contain_text("curl -X POST")
