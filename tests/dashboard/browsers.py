"""A real browser for tests: the system's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: A slow machine is waited for; what comes at once costs nothing.
WAIT_MS = 120_000

#: Text whose contrast with what is behind it is below what people need to read it (WCAG AA).
FAINT = """() => {
  const parse = (text) => {
    const n = (text.match(/[\\d.]+/g) ?? []).map(Number);
    const k = text.startsWith('color(') ? 255 : 1;
    return [n[0] * k, n[1] * k, n[2] * k, n[3] ?? 1];
  };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] > 0.99) return c;
    }
    return [255, 255, 255, 1];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest('canvas, noscript, script, style, option, svg, :disabled')) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${walker.currentNode.textContent.trim()} (${ratio.toFixed(2)})`);
  }
  return faint;
}"""
#: What can be used and has no name that a screen reader could say.
NAMELESS = """() => [...document.querySelectorAll(
    'button, a[href], input, select, textarea, [tabindex="0"]')]
  .filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label') || e.textContent.trim()
    || e.labels?.length || e.title)).map((e) => e.outerHTML.slice(0, 120))"""
#: How far a page is wider than the screen.
TOO_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextmanager
def open_browser() -> Iterator[Browser]:
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


def open_page(browser: Browser, address: str, **options: Any) -> tuple[Page, list[str]]:
    """A page of its own, and whatever goes wrong in it: errors, violations of its policy, windows
    that pop up."""
    context = browser.new_context(**options)
    context.set_default_timeout(WAIT_MS)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
    page.on(
        "console",
        lambda message: (
            wrong.append(message.text)
            if message.type == "error"
            and "Failed to load resource" not in message.text
            and "net::ERR" not in message.text
            else None
        ),
    )
    page.goto(address)
    return page, wrong
