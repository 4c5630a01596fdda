"""The page of controld in headless Chromium, under traffic.

All facts are there without JavaScript; with it numbers and drawings move. Explain works by the keyboard alone. Nothing is asked of
other hosts, and the console stays empty. Labels, captions, headings and contrast suit everybody, in both schemes and in narrow
windows, also with many lists and with problems."""

import re
import urllib.request

import pytest

from weir_smoke import needs_programs, order_bypass, read
from until import until
import browser as chromium
import page_rig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), needs_programs("chromium", "chromedriver")]

EVERY_MS = 2000  # control/tell/page/page.js: kEvery_ms

# The least contrast of a visible text with the nearest ground that is not transparent (WCAG 2.1, 1.4.3).
CONTRAST = """
  const parse = (text) => { const n = text.match(/[0-9.]+/g).map(Number); return {rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1}; };
  const linear = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = (rgb) => 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return null;
  };
  const low = [];
  let least = 99, n = 0;
  for (const element of document.querySelectorAll("body *")) {
    const texts = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "") || element.matches("input");
    if (!texts || !element.checkVisibility() || element.closest(".unseen, .skip")) continue;
    const behind = ground(element);
    if (behind === null) { low.push("no ground: " + element.outerHTML.slice(0, 100)); continue; }
    const [one, other] = [luminance(parse(getComputedStyle(element).color).rgb), luminance(behind)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    n++;
    least = Math.min(least, ratio);
    if (ratio < 4.5) low.push(ratio.toFixed(2) + ": " + element.outerHTML.slice(0, 120));
  }
  return {least, n, low};
"""

# Faults of the structure, as texts.
STRUCTURE = """
  const wrong = [];
  const one = (selector) => { const n = document.querySelectorAll(selector).length; if (n !== 1) wrong.push(`${n} times ${selector}`); };
  ["h1", "main", "header", "footer", "nav[aria-label]", "title", "html[lang=en]"].forEach(one);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption || table.caption.textContent.trim() === "") wrong.push("a table without caption");
    for (const head of table.querySelectorAll("th")) {
      if (!["row", "col"].includes(head.getAttribute("scope"))) wrong.push("a th without scope: " + head.outerHTML.slice(0, 80));
    }
    const columns = table.querySelectorAll("thead th").length;
    for (const row of table.tBodies[0].rows) {
      const cells = [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
      if (cells !== columns) wrong.push(`${cells} cells below ${columns} heads: ${row.outerHTML.slice(0, 80)}`);
    }
  }
  for (const input of document.querySelectorAll("input")) if (input.labels.length !== 1) wrong.push("an input without label");
  for (const svg of document.querySelectorAll("svg")) {
    const named = svg.getAttribute("role") === "img" && (svg.getAttribute("aria-label") || "").length > 10;
    if (!named && svg.getAttribute("aria-hidden") !== "true") wrong.push("a drawing without text: " + svg.outerHTML.slice(0, 80));
  }
  for (const section of document.querySelectorAll("section")) {
    if (!document.getElementById(section.getAttribute("aria-labelledby"))) wrong.push("a section without a name: " + section.id);
  }
  for (const link of document.querySelectorAll("nav a, .skip")) {
    if (!document.querySelector(link.getAttribute("href"))) wrong.push("a link to nothing: " + link.href);
  }
  for (const region of document.querySelectorAll(".wide")) if (region.tabIndex !== 0) wrong.push("a region that keys cannot move");
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1]));
  levels.forEach((level, i) => { if (i > 0 && level > levels[i - 1] + 1) wrong.push("a heading is left out"); });
  return wrong;
"""


def get(address):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=60) as answer:
        return answer.read().decode(), answer.headers


def check_quiet(browser, address, when):
    """The console is empty, and no other host was asked."""
    assert browser.console() == [], f"the console, {when}"
    strangers = [url for url in browser.requests() if not url.startswith((address, "data:", "about:", "chrome"))]
    assert strangers == [], f"other hosts that were asked, {when}"


def check_without_script(session, address, scanner):
    with chromium.Browser(javascript=False) as browser:
        browser.open(f"{address}?key={scanner}")
        text = browser.source()
        status = session.call("status")
        for part in ("All is well", session.path("dataplane.sock"), "enforces", "partners", "scanners", "seen at our own sensors",
                     "feeds/abuse.txt", session.call("history")["generations"][0]["cause"], f"{status['limits']['lists']['used']}</td>",
                     "dropped</strong> by list", f"<code>{scanner}</code>", "feeds/scanners.txt:"):
            assert part in text, f"`{part}` is on the page without JavaScript:\n{text[:3000]}"
        assert re.search(r'data-rate="packets">[0-9.]+ ?[kMG]?<', text), "there is a rate without JavaScript"
        assert '<path class="dropped" d="M' in text, "there is a drawing without JavaScript"
        assert browser.requests().count(address) == 0, "the script does not run"
        check_quiet(browser, address, "without JavaScript")


def check_live(browser, session, address):
    look = "const t = {}; for (const e of document.querySelectorAll('.tiles [data-total]')) t[e.dataset.total] = e.textContent;" \
           "t.path = document.querySelector('#plot-traffic path.passed').getAttribute('d');" \
           "t.band = (document.querySelector('#plot-drops path.band1') || {getAttribute() {}}).getAttribute('d');" \
           "t.row = document.querySelector('[data-list=scanners] [data-total=effect] data').value;" \
           "t.live = document.getElementById('live').textContent; return t;"
    browser.open(address)
    browser.wait("the script", "return document.getElementById('live').textContent !== ''")
    before = browser.run(look)

    def moved_on():
        now = browser.run(look)
        return all(now[name] != before[name] for name in ("row", "path", "packets")) and now

    now = until("numbers and drawings to move", moved_on, turn=0.5)
    assert now["band"] and now["band"].startswith("M"), f"drops are drawn: {now['band']}"
    assert int(now["row"]) <= session.stats()["lists"]["scanners"]["dropped"], "what is shown was counted"
    check_quiet(browser, address, "while it is live")

    order_bypass(session, "on", "for the page")
    browser.wait("bypass to be said", "return document.querySelector('#verdict.problem .headline')?.textContent.includes('Bypass is on')"
                 " && document.title.startsWith('Problem') && document.querySelector('#targets').textContent.includes('bypass on')")
    order_bypass(session, "off", "for the page")
    browser.wait("it to be over", "return document.querySelector('#verdict.good') !== null")


def check_hidden(browser):
    """A hidden window asks nothing."""
    browser.run("window.looks = 0;"
                "Object.defineProperty(document, 'hidden', {get() { window.looks++; return true; }, configurable: true});")
    browser.wait("the script to see that it is hidden", "return window.looks > 0")
    # Two markers: the browser may tell late of requests before the first one. Timers that the script has set come before the second one.
    browser.run_async("const [done] = arguments; fetch('/?hidden').then(() => "
                      f"setTimeout(() => fetch('/?marker').then(done), {2 * EVERY_MS}));")
    asked = []

    def is_marked():
        asked.extend(url.rpartition("/")[2] for url in browser.requests())
        return "?marker" in asked

    until("the browser to tell of the marker", is_marked, turn=0.2)
    while_hidden = asked[asked.index("?hidden") + 1:asked.index("?marker")]
    assert while_hidden == [], f"requests of a hidden window: {while_hidden}"
    browser.run("performance.clearResourceTimings();"
                "Object.defineProperty(document, 'hidden', {value: false}); document.dispatchEvent(new Event('visibilitychange'));")
    browser.wait("the script to go on", "return performance.getEntriesByName(new URL('/', location)).length > 0")
    until("it to go on when it is seen", browser.requests, turn=0.2)


def check_keyboard(browser, address, scanner):
    browser.open(address)
    browser.press(chromium.TAB)
    assert browser.run("return document.activeElement.className") == "skip", "the first stop of Tab is the link to the facts"
    for _ in range(60):
        browser.press(chromium.TAB)
        if browser.run("return document.activeElement.id") == "key":
            break
    assert browser.run("return document.activeElement.id") == "key", "Tab comes to the form"
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen"
    browser.press(f"src {scanner} dst 203.0.113.66 proto tcp dport 4444" + chromium.ENTER)
    answer = browser.wait("the answer", "return document.getElementById('explained')?.textContent")
    assert "dropped by list scanners" in answer and "c2" in answer, f"the answer: {answer}"
    assert browser.url().endswith("#explain"), f"the answer is what is seen: {browser.url()}"
    browser.open(f"{address}?key=%22%3E%3Cscript%3Edocument.title=1%3C/script%3E")
    answer = browser.wait("the refusal", "return document.getElementById('explained')?.textContent")
    assert "No answer" in answer and browser.run("return document.title !== '1'"), f"what is no key: {answer}"


def check_looks(browser, address, what):
    """In both schemes and all widths."""
    for dark in (False, True):
        browser.media(dark, reduced_motion=True)
        browser.open(address)
        found = browser.run(CONTRAST)
        assert found["n"] > 50 and not found["low"], f"contrast of {what}, dark {dark}: {found}"
        assert browser.run("return getComputedStyle(document.documentElement).scrollBehavior") == "auto", "nothing moves"
    browser.media()
    assert browser.run(STRUCTURE) == [], f"structure of {what}"
    for width in (360, 768, 1280):
        browser.size(width, 800)
        browser.open(address)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True, f"{what} fits into {width} pixels"
    browser.size(1280, 900)


def check_document(address):
    """Nothing of others runs, and no address of traffic is there."""
    html, headers = get(address)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy, f"Content-Security-Policy: {policy}"
    for pattern in (r"<script(?! src=\"/page.js\" defer></script>)", r"\sstyle=", r"\son\w+=", "https?://"):
        assert not re.search(pattern, html), f"{pattern} is not on the page"
    assert "198.19." not in html and "2001:db8:1" not in html, "no address of traffic is on the page"


def check_checks(browser):
    """An unreadable text and a table without caption are found."""
    browser.run("document.querySelector('footer p').style.color = '#999'; document.querySelector('caption').remove();")
    assert browser.run(CONTRAST)["low"] and browser.run(STRUCTURE), "faults made for the test"


def check_problems(browser, session, address):
    """A refused feed, and targets and controld that are away, are on the page."""
    page_rig.spoil_feed(session)
    session.wait("the feed to be refused", lambda: session.call("status")["refused"])
    check_looks(browser, address, "a page with a warning")
    text = browser.run("return document.body.textContent")
    assert "The feed of list scanners is refused" in text and "max_shrink" in text, "the refused feed"
    session.kill("dataplane")
    session.wait("the target to be away", lambda: not session.call("status")["targets"][0]["connected"])
    check_looks(browser, address, "a page with a problem")
    assert "is away" in browser.run("return document.querySelector('.headline').textContent"), "the target that is away"
    check_quiet(browser, address, "all along")

    browser.open(address)
    browser.wait("the script", "return document.getElementById('live').textContent !== ''")
    session.kill("controld")
    browser.wait("that controld is away",
                 "return document.querySelector('#verdict.problem .headline').textContent.includes('controld does not answer')")


def test_the_page_tells_everybody_the_facts(session):
    address = page_rig.start(session)
    feed = read(session.path("feeds/scanners.txt")).decode().splitlines()
    scanner = next(line.split()[0] for line in feed if line.startswith("198.19."))
    session.wait("traffic", lambda: session.call("stats")["packets"] > 50000)
    # A rate takes two looks, and a line of a drawing two rates.
    session.wait("three looks at it", lambda: '<path class="passed" d="M' in get(address)[0])

    check_document(address)
    check_without_script(session, address, scanner)
    with chromium.Browser() as browser:
        check_live(browser, session, address)
        check_hidden(browser)
        check_keyboard(browser, address, scanner)
        check_looks(browser, address, "the page")
        check_looks(browser, f"{address}?key={scanner}", "an explanation")
        check_checks(browser)
        check_problems(browser, session, address)


def test_a_page_of_255_lists_stays_small_and_readable(session):
    address = page_rig.start(session, page_rig.sample_policy(page_rig.many_lists(250)))
    session.wait("two looks", lambda: re.search('data-rate="packets">[0-9]', get(address)[0]))
    html = len(get(address)[0])
    assert html < 400_000, f"bytes of the page: {html}"
    with chromium.Browser() as browser:
        check_looks(browser, address, "255 lists")
        assert browser.run("return document.querySelectorAll('[data-list]').length") == 255, "lists on the page"
        browser.wait("the script", "return document.getElementById('live').textContent !== ''")
        check_quiet(browser, address, "with 255 lists")
