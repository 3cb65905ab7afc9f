"""The page in headless Chromium: sizes, colours, mouse, keyboard, downloads, print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import EXECUTABLE, Chromium

from harness.report.page import render

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium"),
]
CELL = "#table01_bfcl td[tabindex]"
DIALOG = "document.getElementById('provenance')"


@pytest.fixture(scope="module")
def path(results) -> Path:
    found = results / "report" / "index.html"
    found.parent.mkdir(exist_ok=True)
    found.write_text(render(results), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_the_window_and_every_picture_is_decoded(browser, path, width, dark):
    browser.open(path, width=width, dark=dark)
    assert browser.value("innerWidth") == width
    assert browser.value("document.documentElement.scrollWidth") <= width
    browser.value("Promise.all([...document.images].map((item) => { item.loading = 'eager'; return item.decode(); }))")
    assert browser.value("[...document.images].every((item) => item.naturalWidth > 0)")
    assert browser.value("document.images.length") == 3
    assert browser.value("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    assert not [event for event in browser.events if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(browser, path, dark):
    """Contrast of at least 4.5 (WCAG 2.1, AA) for text, secondary text, links and badges."""
    browser.open(path, dark=dark)
    ratios = browser.value(
        """(() => {
          const channel = (x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
          const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number);
            return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
          const ground = light(getComputedStyle(document.body).backgroundColor);
          const names = ['body', 'a', 'figcaption', '.reason', '.badge.holds', '.badge.insufficient', '.published'];
          return names.map((name) => {
            const ink = light(getComputedStyle(document.querySelector(name)).color);
            return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05); });
        })()"""
    )
    assert min(ratios) >= 4.5


def test_nothing_is_asked_of_the_network(browser, path):
    browser.open(path)
    urls = [event["params"]["request"]["url"] for event in browser.events if event["method"].endswith("BeSent")]
    assert [url for url in urls if not url.startswith(("file:", "data:"))] == []


def test_hover_shows_where_a_number_is_from(browser, path):
    browser.open(path)
    browser.hover(CELL)
    assert browser.value(f"document.querySelector('{CELL}').matches(':hover')")
    title = browser.value(f"document.querySelector('{CELL}').title")
    assert "Qwen2.5-1.5B: base, Live acc" in title
    assert "published 9.33" in title
    assert "ours: not run" in title


def test_click_and_keyboard_open_the_same_and_escape_closes_it(browser, path):
    browser.open(path)
    browser.click(CELL)
    assert browser.value(f"{DIALOG}.open")
    shown = browser.value(f"{DIALOG}.querySelector('pre').textContent")
    assert shown == browser.value(f"document.querySelector('{CELL}').title")
    browser.press("Escape")
    assert not browser.value(f"{DIALOG}.open")
    for key in ("Enter", " "):
        browser.value(f"document.querySelector('{CELL}').focus()")
        browser.press(key)
        assert browser.value(f"{DIALOG}.open")
        browser.press("Escape")
        assert browser.value(f"document.activeElement === document.querySelector('{CELL}')")


def test_tab_reaches_the_skip_link_first_and_goes_on_through_the_cells(browser, path):
    browser.open(path)
    browser.press("Tab")
    assert browser.value("document.activeElement.className") == "skip"
    assert browser.value("document.activeElement.getBoundingClientRect().left") >= 0
    browser.value(f"document.querySelector('{CELL}').focus()")
    browser.press("Tab")
    assert browser.value(f"document.activeElement === document.querySelectorAll('{CELL}')[1]")
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_every_download_is_there(browser, path):
    browser.open(path)
    links = browser.value("[...document.querySelectorAll('a[download]')].map((item) => item.getAttribute('href'))")
    assert len(links) == 3 * 4 + 3 * 4
    missing = [link for link in links if not (path.parent / link).resolve().is_file()]
    assert missing == []


def test_links_within_the_page_lead_somewhere(browser, path):
    browser.open(path)
    lost = browser.value(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map((item) => item.getAttribute('href').slice(1))"
        ".filter((name) => !document.getElementById(name))"
    )
    assert lost == []


def test_print_shows_what_is_folded_and_cuts_nothing_off(browser, path, tmp_path):
    browser.open(path)
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.value("dispatchEvent(new Event('beforeprint'))")
    assert browser.value("[...document.querySelectorAll('details:not(.runs)')].every((item) => item.open)")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.call("Emulation.setDeviceMetricsOverride", width=720, height=960, deviceScaleFactor=1, mobile=False)
    assert browser.value("document.documentElement.scrollWidth") <= 720
    browser.call("Emulation.setEmulatedMedia", media="")
    browser.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
