"""controlctl top: rates, stages, bursts, latency and ports of an interval, as JSON and as text; targets that are away, lists that
left the policy."""

import json
import os
import pty
import re
import subprocess
import termios
import time

import pytest

from weir_smoke import BUILD, make_samples, read, read_capture, start_loop, write
from until import until

pytestmark = pytest.mark.alone

ATTEMPTS = 10  # intervals, of which one has to be undisturbed
STAGES = ("rx", "parse", "lookup", "verdict", "tx")


def near(found, expected, what, tolerance=0.05):
    assert abs(found - expected) <= tolerance * abs(expected), f"{what}: found {found}, expected about {expected}"


def top(session, *arguments):
    code, out, err = session.controlctl("top", *arguments)
    assert (code, err) == (0, ""), f"controlctl top {' '.join(arguments)}"
    return out


def check_worker(worker):
    # Counters are read one after the other while the worker goes on: equal but for some bursts.
    near(sum(n * count for n, count in enumerate(worker["burst_sizes"])), worker["packets"], "frames in bursts")
    near(worker["mpps"], worker["packets"] / worker["seconds"] / 1e6, "Mpps of the worker", 1e-6)
    assert worker["sample_one_in"] == 1, "sampling"
    assert 0.9 < worker["busy"] <= 1, f"a worker with frames for ever is busy: {worker['busy']}"
    # Every pass is timed, so the frames of the histogram are those of the bursts, but for those on their way.
    latencies = worker["histograms"]["latency_cycles"]
    near(sum(count for _, count in latencies), worker["packets"], "frames with a latency")
    near(sum(upper * count for upper, count in worker["histograms"]["pass_cycles"]) / worker["tsc_hz"],
         worker["seconds"] * worker["busy"], "time in passes", 0.3)
    costs = worker["cycles_per_packet"]
    for stage in STAGES:
        assert costs[stage] > 0, f"stage {stage} costs: {costs}"
    near(sum(costs[stage] for stage in STAGES), costs["total"], "cycles a packet", 1e-6)
    # A pass counts when it ends: where others have the core in the middle of one, some of it is of the interval before.
    assert costs["total"] * worker["packets"] <= 1.3 * worker["seconds"] * worker["tsc_hz"], "stages fit into the time"
    for times in (worker["latency_us"], worker["pass_us"]):
        assert 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"], f"percentiles rise: {times}"


def check_measured(target):
    assert target["state"] == "measured", "state of the target"
    near(target["passed_mpps"] + target["dropped_mpps"], target["mpps"], "passed and dropped", 0.01)
    workers, ports = target["workers"], target["ports"]
    assert [worker["worker"] for worker in workers] == [0], "workers"
    check_worker(workers[0])
    assert [(port["name"], port["link_up"]) for port in ports] == [("net_pcap0", True)], "ports"
    assert ports[0]["rx_mpps"] > 0 and ports[0]["tx_mpps"] > 0, "the port moves"
    lists = [entry["dropped_pps"] for entry in target["lists"]]
    assert lists == sorted(lists, reverse=True), "lists, those that drop most first"
    assert lists[0] > 0, "a list drops"


def measured(session):
    """(target, target that is away) of an interval. Counters are read one after the other: they disagree when the reader is stopped
    for a tenth of a second between two. Then another interval is checked."""
    for attempt in range(1, ATTEMPTS + 1):
        here, away = json.loads(top(session, "--once", "--json", "--interval", "2"))["targets"]
        try:
            check_measured(here)
        except AssertionError:
            if attempt == ATTEMPTS:
                raise
        else:
            return here, away


def on_terminal(session):
    """The output of `top` on a terminal in three intervals."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "top", "--interval", "0.2", "--socket",
                                session.path("controld.sock")], stdin=theirs, stdout=theirs, stderr=theirs)
    text = b""
    while text.count(b"\x1b[H") < 3:
        text += os.read(ours, 1 << 16)
    os.write(ours, b"q")
    assert process.wait(60) == 0, "q ends it"
    assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    os.close(theirs)
    os.close(ours)
    return text.decode()


def reload_on_terminal(session):
    """The output of `reload` on a terminal while it waits for a target that is away."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "reload", "--socket", session.path("controld.sock")],
                               stdout=subprocess.DEVNULL, stderr=theirs)
    assert process.wait(60) == 3, "one target is away"
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(ours, 1 << 16)
        except OSError:  # all is read
            break
    os.close(ours)
    return text.decode()


@pytest.fixture
def capture(session):
    make_samples(session.folder, flows=1000, frames=5000)
    return read_capture(session.path("capture.pcap"))


@pytest.fixture
def loop(session, capture):
    """A session under traffic. Its policy names a target that is away, too."""
    start_loop(session, capture, config="telemetry: {sample_one_in: 1}\n")
    with open(session.path("weir.yaml"), "a", encoding="utf-8") as policy:
        policy.write(f"targets:\n  - dataplane: {session.path('dataplane.sock')}\n  - dataplane: {session.path('nobody.sock')}\n")
    session.start_controld(session.path("weir.yaml"), targets=False)
    session.wait("traffic", lambda: session.call("stats")["packets"] > 50000)
    return session


def test_an_interval_is_measured(loop):
    here, away = measured(loop)
    assert here["seconds"] >= 2, "the interval is as long as --interval"
    assert (away["state"], away["socket"]) == ("away", loop.path("nobody.sock")), "the other target"
    assert away["last_error"], "the other target's error"


def test_the_text_fits_80_columns_and_has_no_escape_codes(loop):
    text = top(loop, "--once", "--interval", "0.5")
    assert "\x1b" not in text, "escape codes in a pipe"
    for word in ("pps", "net_pcap0", "scanners", "AWAY"):
        assert word in text, f"`{word}` is in:\n{text}"
    rows = [line for line in text.splitlines() if "AWAY" not in line]
    assert max(map(len, rows)) <= 80, f"columns of:\n{text}"
    wide = top(loop, "--once", "--interval", "0.5", "--wide")
    for word in ("lookup", "p99.9", "net_pcap0"):
        assert word in wide, f"`{word}` is in:\n{wide}"


def test_a_terminal_is_redrawn_in_place(loop):
    screen = on_terminal(loop)
    assert screen.startswith("\x1b[2J\x1b[H") and screen.count("\x1b[2J") == 1, f"screen: {screen!r}"


def test_a_list_that_left_the_policy_is_not_shown(loop):
    write(loop.folder, "weir.yaml", read(loop.path("weir.yaml")).decode().replace("name: scanners", "name: renamed"))
    screen = reload_on_terminal(loop)
    assert re.search(r"\r\x1b\[Kcontrold: acknowledge, \d+ s", screen) and "\r\x1b[Ktarget" in screen.replace("\r\n", "\n"), (
        f"progress: {screen!r}")
    text = top(loop, "--once", "--interval", "0.5")
    assert "renamed" in text and "scanners" not in text, f"the lists of the policy are in:\n{text}"
    assert "scanners (former)" in loop.controlctl("stats")[1], "stats marks a former list"


def test_a_new_data_plane_has_no_interval_at_first(loop, capture):
    with open(loop.path("top.json"), "wb") as output:
        process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "top", "--json", "--interval", "0.3",
                                    "--socket", loop.path("controld.sock")], stdout=output)

    def states():
        with open(loop.path("top.json"), encoding="utf-8") as lines:
            return [json.loads(line)["targets"][0]["state"] for line in lines if line.endswith("\n")]

    try:
        loop.wait("intervals", lambda: states()[-2:] == ["measured"] * 2)
        start_s = loop.call("stats")["targets"][0]["start_time"]
        loop.kill("dataplane")
        loop.wait("the target to be away", lambda: states()[-1] == "away")
        until("another second", lambda: int(time.time()) > start_s)  # top tells data planes apart by their start times, in seconds
        start_loop(loop, capture)
        loop.wait("intervals of the new one", lambda: states()[-1] == "measured")
    finally:
        process.terminate()
        process.wait(60)
    assert "new" in states(), f"states: {states()}"


@pytest.mark.parametrize("is_killed", (False, True), ids=("never-started", "killed"))
def test_without_controld_it_ends_with_4(session, is_killed):
    if is_killed:
        session.start_controld(write(session.folder, "weir.yaml", "version: 1\ntargets: []\n"), targets=False)
        session.kill("controld")
    assert os.path.exists(session.path("controld.sock")) == is_killed, "a killed controld leaves its socket"
    code, _, err = session.controlctl("top", "--once")
    assert code == 4, "exit code"
    assert "cannot reach controld" in err, err
