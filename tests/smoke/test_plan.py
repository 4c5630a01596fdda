"""`controlctl plan`: the shares of the traffic that it tells are those that a reload then brings.

Limits stop a reload with exit code 5 and hold back a feed. Without samples it tells no shares."""

import functools
import http.server
import json
import os
import threading

import pytest

from weir_smoke import Capture, controlctl, moved, start_loop, write
from frames import Ethernet, Frame, V4, number_of, udp

SOURCES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "198.51.100.1")  # as many frames each
ARP = bytes(12) + b"\x08\x06" + bytes(46)
LIMIT = "plan: {max_newly_dropped: 5%}\n"
SAMPLES = 2000


def policy(entries, more=""):
    return f"version: 1\n{more}lists:\n  - {{name: a, action: drop, entries: [{entries}]}}\n  - {{name: feed, action: drop, file: feed}}\n"


def plan(session, path, expect=0, *options):
    return controlctl(session, "plan", *options, *([path] if path else []), expect=expect)


def wait_for_samples(session, path):
    session.wait("samples", lambda: plan(session, path).get("radius", {}).get("samples", 0) >= SAMPLES)


def near(share, expected, what):
    assert share["low"] <= share["value"] <= share["high"], f"{what}: {share}"
    # The interval of 95 % is four standard errors wide. It is wider when the machine stood still: then few samples weigh much.
    assert abs(share["value"] - expected) < 0.02 + 1.2 * (share["high"] - share["low"]), f"{what}: {share}, expected {expected}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def start(session, entries, more=""):
    """Both programs. Half of the packets is judged by no list. The path of the policy."""
    write(session.folder, "feed", "203.0.113.250\n")
    running = write(session.folder, "weir.yaml", policy(entries, more))
    frames = [Frame([Ethernet(), V4(number_of(source), number_of("203.0.113.9")), udp(1, 2)]).bytes for source in SOURCES] * 200
    frames += [ARP] * len(frames)
    start_loop(session, Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames]))
    session.start_controld(running)
    session.wait_enforced()
    wait_for_samples(session, running)
    return running


def wait_until_shown(session, more_than, *options):
    """Until samples show that more than this share would newly be dropped. Few samples do not, when the machine stood still."""
    def is_shown():
        told = json.loads(session.controlctl("plan", *options, "--json")[1])
        return told["radius"]["newly_dropped"]["low"] > more_than

    session.wait(f"samples that show a share of {more_than}", is_shown)


def generation(session):
    return controlctl(session, "status")["generation"]["number"]


@pytest.fixture
def address(session):
    """The address of an HTTP server of the session's folder."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=session.folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def check_radius(radius):
    near(radius["dropped_before"], 0.1, "dropped now")
    near(radius["dropped_after"], 0.2, "dropped then")
    near(radius["newly_dropped"], 0.2, "newly dropped")
    near(radius["newly_passed"], 0.1, "newly passed")
    sources = {talker["address"] for talker in radius["talkers"] if talker["side"] == "src"}
    assert sources == {"192.0.2.1", "192.0.2.2", "192.0.2.3"}, "talkers"
    assert radius["credits"][0]["name"] == "a", "the list that decides"


def test_a_reload_brings_the_shares_of_the_plan(session):
    running = start(session, "192.0.2.1")
    other = write(session.folder, "other.yaml", policy("192.0.2.2, 192.0.2.3, 10.0.0.0/8"))
    told = plan(session, other)
    check_radius(told["radius"])
    assert [(one["kind"], one["what"]) for one in told["concerns"]] == [("reserved", "10.0.0.0/8")], "concerns"
    assert (told["lists"][0]["name"], told["lists"][0]["added"], told["lists"][0]["removed"]) == ("a", 3, 1), "changes of the list"
    assert generation(session) == 1, "a plan publishes nothing"
    code, text, _ = session.controlctl("plan", other)
    assert code == 0, text
    for line in ("a reload would take it", "newly dropped", "192.0.2.2", "of reserved addresses (10.0.0.0/8)", "10.0.0.0/8"):
        assert line in text, f"`{line}` in:\n{text}"

    os.replace(other, running)
    controlctl(session, "reload")
    totals, _ = moved(session)
    near(told["radius"]["dropped_after"], totals["dropped"] / totals["packets"], "after the reload")


def test_a_limit_stops_a_reload_without_force(session):
    running = start(session, "192.0.2.2, 192.0.2.3")
    write(session.folder, "weir.yaml", policy("192.0.2.2, 192.0.2.3, 192.0.2.4", LIMIT))
    wait_until_shown(session, 0.07, running)
    refused = plan(session, running, 5)
    assert (refused["ok"], refused["over_limits"][0]["limit"]) == (False, "max_newly_dropped"), "plan past a limit"
    refused = controlctl(session, "reload", expect=5)
    assert "plan.max_newly_dropped is 5 %" in refused["error"], refused["error"]
    assert generation(session) == 1, "the running policy stays"
    code, _, error = session.controlctl("reload")
    assert code == 5 and "--force" in error, f"{code}: {error}"
    controlctl(session, "reload", "--force")
    assert generation(session) == 2, "by force"


def test_a_limit_holds_back_a_feed(session, address):
    start(session, "192.0.2.2, 192.0.2.3, 192.0.2.4", LIMIT)
    feed = write(session.folder, "next", "203.0.113.250\n198.51.100.1\n")
    wait_until_shown(session, 0.07, "--list", "feed", "--file", feed)
    near(plan(session, None, 5, "--list", "feed", "--file", feed)["radius"]["newly_dropped"], 0.1, "of the file")
    near(plan(session, None, 5, "--list", "feed", "--url", f"{address}/next")["radius"]["newly_dropped"], 0.1, "of the url")
    missing = plan(session, None, 1, "--list", "feed", "--url", f"{address}/none")
    assert "was not fetched" in missing["error"] and "404" in missing["error"], missing["error"]
    os.replace(feed, session.path("feed"))
    session.wait("the feed to be held back", lambda: controlctl(session, "feeds")["feeds"][0]["state"] == "refused")
    assert "would newly be dropped" in json.dumps(controlctl(session, "feeds")), "its error"
    controlctl(session, "feeds", "--accept", "feed")
    _, lists = moved(session)
    assert lists["feed"]["dropped"] > 0, f"packets that list feed drops: {lists}"


def test_without_samples_it_tells_no_shares(session):
    running = start(session, "192.0.2.2")
    write(session.folder, "weir.yaml", policy("192.0.2.2", "plan: {samples: 0}\n"))
    controlctl(session, "reload")
    told = plan(session, running)
    assert "radius" not in told and "plan.samples" in told["why_no_radius"], told
    write(session.folder, "weir.yaml", policy("192.0.2.2", "plan: {recent: 15s}\n"))
    controlctl(session, "reload")
    wait_for_samples(session, running)  # on again


def test_wrong_arguments_and_policies_are_refused(session):
    write(session.folder, "feed", "203.0.113.250\n")
    session.start_controld(write(session.folder, "weir.yaml", policy("192.0.2.1")), targets=False)
    assert plan(session, write(session.folder, "bad.yaml", policy("192.0.2.300")), 1)["errors"] == 1, "a bad policy"
    code, _, error = session.controlctl("plan", session.path("none.yaml"))
    assert code == 1 and "none.yaml" in error, f"{code}: {error}"
    for arguments in ([], ["--list", "feed"], ["--file", "x"], ["--list", "a", "--file", "x", "--url", "http://127.0.0.1/"]):
        assert session.controlctl("plan", *arguments)[0] == 2, f"plan {arguments}"
