"""The figure of the page of controld: how soon a browser shows it."""

import statistics

import browser as chromium
import page_rig
from figure import reported
from rig import Skip, build_release
from session import PROGRAMS, Session

RUNS = 5


def first_paints(build, policy):
    """Milliseconds from the beginning of the navigation, of a browser that knows nothing of the page."""
    with Session(build) as session:
        address = page_rig.start(session, policy)
        session.wait("traffic", lambda: session.call("stats")["packets"] > 50000)
        paints = []
        for _ in range(RUNS):
            with chromium.Browser() as browser:
                browser.open(address)
                paints.append(round(browser.first_paint_ms(), 1))
        return paints


def page(build, _folder):
    if chromium.missing():
        raise Skip(f"{' and '.join(chromium.missing())} not installed: scripts/setup test", missing_here=True)
    build_release(build, PROGRAMS)
    runs = {"1 list": first_paints(build, page_rig.ONE_LIST),
            "256 lists": first_paints(build, page_rig.sample_policy(page_rig.many_lists(251)))}
    note = ", ".join(f"{what}: {statistics.median(paints):.0f} ({min(paints):.0f} to {max(paints):.0f})" for what, paints in runs.items())
    return [reported("rack.page_ms", round(statistics.median(runs["256 lists"])), "ms", note)], runs


MEASUREMENTS = ((("rack.page_ms",), page),)
