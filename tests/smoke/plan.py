"""What a change would do to the traffic of a real data plane: the shares that `controlctl plan` tells are those that a reload then
brings, limits stop a reload with exit code 5, a feed past a limit is held back, and nothing is told when samples are off."""

import functools
import http.server
import json
import os
import threading

from weir_smoke import (BUILD, Capture, Session, check, controlctl, equal, moved, start_loop, write)
from frames import Ethernet, Frame, V4, number_of, udp

SOURCES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "198.51.100.1")  # as many frames each
FRAMES = [Frame([Ethernet(), V4(number_of(source), number_of("203.0.113.9")), udp(1, 2)]).bytes for source in SOURCES] * 200
ARP = bytes(12) + b"\x08\x06" + bytes(46)
SAMPLES = 2000


def policy(entries, more=""):
    return f"version: 1\n{more}lists:\n  - {{name: a, action: drop, entries: [{entries}]}}\n  - {{name: feed, action: drop, file: feed}}\n"


def plan(session, path, expect=0, *options):
    return controlctl(session, "plan", *options, *([path] if path else []), expect=expect)


def wait_for_samples(session, path):
    session.wait("samples", lambda: plan(session, path).get("radius", {}).get("samples", 0) >= SAMPLES)


def near(share, expected, what):
    check(share["low"] <= share["value"] <= share["high"], f"{what}: {share}")
    # Of its interval of 95 % the width is four standard errors: where the machine stood still for a moment a few samples weigh
    # much, and it is wide.
    check(abs(share["value"] - expected) < 0.02 + 1.2 * (share["high"] - share["low"]), f"{what}: {share}, expected {expected}")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


with Session(BUILD) as session:
    write(session.folder, "feed", "203.0.113.250\n")
    running = write(session.folder, "weir.yaml", policy("192.0.2.1"))
    other = write(session.folder, "other.yaml", policy("192.0.2.2, 192.0.2.3, 10.0.0.0/8"))
    frames = FRAMES + [ARP] * len(FRAMES)  # half of the traffic is judged by no list
    start_loop(session, Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames]))
    session.start_controld(running)
    session.wait_enforced()
    wait_for_samples(session, other)

    told = plan(session, other)
    radius = told["radius"]
    near(radius["dropped_before"], 0.1, "dropped now")
    near(radius["dropped_after"], 0.2, "dropped then")
    near(radius["newly_dropped"], 0.2, "newly dropped")
    near(radius["newly_passed"], 0.1, "newly passed")
    equal({talker["address"] for talker in radius["talkers"] if talker["side"] == "src"}, {"192.0.2.1", "192.0.2.2", "192.0.2.3"},
          "who is concerned")
    equal(radius["credits"][0]["name"], "a", "whose list")
    equal([(one["kind"], one["what"]) for one in told["concerns"]], [("reserved", "10.0.0.0/8")], "concerns")
    equal((told["lists"][0]["name"], told["lists"][0]["added"], told["lists"][0]["removed"]), ("a", 3, 1), "what changes")
    equal(controlctl(session, "status")["generation"]["number"], 1, "nothing is published")
    code, text, _ = session.controlctl("plan", other)
    equal(code, 0, text)
    for line in ("a reload would take it", "newly dropped", "192.0.2.2", "of reserved addresses (10.0.0.0/8)", "10.0.0.0/8"):
        check(line in text, f"`{line}` in:\n{text}")

    # What it told is what a reload brings.
    os.replace(other, running)
    controlctl(session, "reload")
    totals, _ = moved(session)
    near(radius["dropped_after"], totals["dropped"] / totals["packets"], "after the reload")

    # A limit stops a reload, and --force goes on.
    limit = "plan: {max_newly_dropped: 5%}\n"
    write(session.folder, "weir.yaml", policy("192.0.2.2, 192.0.2.3, 192.0.2.4", limit))
    refused = plan(session, running, 5)
    equal((refused["ok"], refused["over_limits"][0]["limit"]), (False, "max_newly_dropped"), "plan past a limit")
    refused = controlctl(session, "reload", expect=5)
    check("plan.max_newly_dropped is 5 %" in refused["error"], refused["error"])
    equal(controlctl(session, "status")["generation"]["number"], 2, "what runs stays")
    code, _, error = session.controlctl("reload")
    check(code == 5 and "--force" in error, f"{code}: {error}")
    controlctl(session, "reload", "--force")
    equal(controlctl(session, "status")["generation"]["number"], 3, "by force")

    # A feed past the limit is held back by itself; accepted, it is taken. Asked before, it is told.
    feed = write(session.folder, "next", "203.0.113.250\n198.51.100.1\n")
    would = plan(session, None, 5, "--list", "feed", "--file", feed)
    near(would["radius"]["newly_dropped"], 0.1, "of the next feed")
    handler = functools.partial(Quiet, directory=session.folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        near(plan(session, None, 5, "--list", "feed", "--url", f"{address}/next")["radius"]["newly_dropped"], 0.1, "as it is fetched")
        missing = plan(session, None, 1, "--list", "feed", "--url", f"{address}/none")
        check("was not fetched" in missing["error"] and "404" in missing["error"], missing["error"])
        server.shutdown()
    os.replace(feed, session.path("feed"))
    session.wait("the feed to be held back", lambda: controlctl(session, "feeds")["feeds"][0]["state"] == "refused")
    check("would newly be dropped" in json.dumps(controlctl(session, "feeds")), "why")
    controlctl(session, "feeds", "--accept", "feed")
    totals, lists = moved(session)
    check(lists["feed"]["dropped"] > 0, f"the feed is taken: {lists}")

    # Wrong, and off.
    bad = write(session.folder, "bad.yaml", policy("192.0.2.300"))
    equal(plan(session, bad, 1)["errors"], 1, "a bad policy")
    code, _, error = session.controlctl("plan", session.path("none.yaml"))
    check(code == 1 and "none.yaml" in error, f"{code}: {error}")
    for arguments in ([], ["--list", "feed"], ["--file", "x"], ["--list", "a", "--file", "x", "--url", "http://127.0.0.1/"]):
        equal(session.controlctl("plan", *arguments)[0], 2, f"plan {arguments}")
    write(session.folder, "weir.yaml", policy("192.0.2.2", "plan: {samples: 0}\n"))
    controlctl(session, "reload")
    told = plan(session, running)
    check("radius" not in told and "plan.samples" in told["why_no_radius"], f"samples are off: {told}")
    write(session.folder, "weir.yaml", policy("192.0.2.2", "plan: {recent: 15s}\n"))
    controlctl(session, "reload")
    wait_for_samples(session, running)  # on again
