"""controlctl top: rates, stages, bursts, latency and ports of an interval, as JSON and for people; a target that is away
is shown as such."""

import json
import os
import pty
import re
import subprocess
import termios
import time

from weir_smoke import BUILD, Session, check, equal, make_samples, read_capture, read, start_loop

ATTEMPTS = 10  # intervals, of which one has to be undisturbed
STAGES = ("rx", "parse", "lookup", "verdict", "tx")


def near(found, expected, what, tolerance=0.05):
    check(abs(found - expected) <= tolerance * abs(expected), f"{what}: found {found}, expected about {expected}")


def top(session, *arguments):
    code, out, err = session.controlctl("top", *arguments)
    equal((code, err), (0, ""), f"controlctl top {' '.join(arguments)}")
    return out


def check_worker(worker):
    # Counters are read one after the other while the worker goes on: equal but for some bursts.
    near(sum(n * count for n, count in enumerate(worker["burst_sizes"])), worker["packets"], "frames in bursts")
    near(worker["mpps"], worker["packets"] / worker["seconds"] / 1e6, "Mpps of the worker", 1e-6)
    equal(worker["sample_one_in"], 1, "sampling")
    check(0.9 < worker["busy"] <= 1, f"a worker with frames for ever is busy: {worker['busy']}")
    # Every pass is timed, so the frames of the histogram are those of the bursts, but for those on their way.
    latencies = worker["histograms"]["latency_cycles"]
    near(sum(count for _, count in latencies), worker["packets"], "frames with a latency")
    near(sum(upper * count for upper, count in worker["histograms"]["pass_cycles"]) / worker["tsc_hz"],
         worker["seconds"] * worker["busy"], "time in passes", 0.3)
    costs = worker["cycles_per_packet"]
    for stage in STAGES:
        check(costs[stage] > 0, f"stage {stage} costs: {costs}")
    near(sum(costs[stage] for stage in STAGES), costs["total"], "cycles a packet", 1e-6)
    # A pass counts when it ends: where others have the core in the middle of one, some of it is of the interval before.
    check(costs["total"] * worker["packets"] <= 1.3 * worker["seconds"] * worker["tsc_hz"], "stages fit into the time")
    for times in (worker["latency_us"], worker["pass_us"]):
        check(0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"], f"percentiles rise: {times}")


def check_measured(target):
    equal(target["state"], "measured", "state of the target")
    near(target["passed_mpps"] + target["dropped_mpps"], target["mpps"], "passed and dropped", 0.01)
    workers, ports = target["workers"], target["ports"]
    equal([worker["worker"] for worker in workers], [0], "workers")
    check_worker(workers[0])
    equal([(port["name"], port["link_up"]) for port in ports], [("net_pcap0", True)], "ports")
    check(ports[0]["rx_mpps"] > 0 and ports[0]["tx_mpps"] > 0, "the port moves")
    lists = [entry["dropped_pps"] for entry in target["lists"]]
    equal(lists, sorted(lists, reverse=True), "lists, those that drop most first")
    check(lists[0] > 0, "a list drops")


def measured(session):
    """What `top` tells of an interval. Counters are read one after the other: where whoever reads them is stopped in the middle
    of it, for a tenth of a second or more, they do not fit together. Then another interval is looked at."""
    for attempt in range(1, ATTEMPTS + 1):
        here, away = json.loads(top(session, "--once", "--json", "--interval", "2"))["targets"]
        try:
            check_measured(here)
        except SystemExit as failure:
            print(f"interval {attempt}: {failure}", flush=True)
            if attempt == ATTEMPTS:
                raise
        else:
            return here, away


def on_terminal(session):
    """What `top` writes to a terminal in some intervals."""
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "top", "--interval", "0.2", "--socket",
                                session.path("controld.sock")], stdin=theirs, stdout=theirs, stderr=theirs)
    text = b""
    while text.count(b"\x1b[H") < 3:
        text += os.read(ours, 1 << 16)
    os.write(ours, b"q")
    equal(process.wait(60), 0, "q ends it")
    equal(termios.tcgetattr(theirs), before, "the terminal is as it was")
    os.close(theirs)
    os.close(ours)
    return text.decode()


def reload_on_terminal(session):
    """What `reload` writes to a terminal while it waits for a target that is away."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "reload", "--socket", session.path("controld.sock")],
                               stdout=subprocess.DEVNULL, stderr=theirs)
    equal(process.wait(60), 3, "one target is away")
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(ours, 1 << 16)
        except OSError:  # all is read
            break
    os.close(ours)
    return text.decode()


with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    start_loop(session, capture, config="telemetry: {sample_one_in: 1}\n")
    with open(session.path("weir.yaml"), "a", encoding="utf-8") as policy:
        policy.write(f"targets:\n  - dataplane: {session.path('dataplane.sock')}\n"
                     f"  - dataplane: {session.path('nobody.sock')}\n")
    session.start_controld(session.path("weir.yaml"), targets=False)
    session.wait("traffic", lambda: session.call("stats")["packets"] > 50000)

    here, away = measured(session)
    check(here["seconds"] >= 2, "the interval is as long as asked for")
    equal((away["state"], away["socket"]), ("away", session.path("nobody.sock")), "the other target")
    check(away["last_error"], "the other target's error")

    text = top(session, "--once", "--interval", "0.5")
    check("\x1b" not in text, "no escape codes into a pipe")
    for word in ("pps", "net_pcap0", "scanners", "AWAY"):
        check(word in text, f"`{word}` is in:\n{text}")
    rows = [line for line in text.splitlines() if "AWAY" not in line]
    check(max(map(len, rows)) <= 80, f"80 columns are enough for:\n{text}")
    wide = top(session, "--once", "--interval", "0.5", "--wide")
    for word in ("lookup", "p99.9", "net_pcap0"):
        check(word in wide, f"`{word}` is in:\n{wide}")
    print(text)
    screen = on_terminal(session)
    check(screen.startswith("\x1b[2J\x1b[H") and screen.count("\x1b[2J") == 1, "redrawn in place")

    # A list that left the policy is not shown any more.
    renamed = read(session.path("weir.yaml")).decode().replace("name: scanners", "name: renamed")
    with open(session.path("weir.yaml"), "w", encoding="utf-8") as policy:
        policy.write(renamed)
    screen = reload_on_terminal(session)
    check(re.search(r"\r\x1b\[Kcontrold: acknowledge, \d+ s", screen) and "\r\x1b[Ktarget" in screen.replace("\r\n", "\n"), f"progress: {screen!r}")
    text = top(session, "--once", "--interval", "0.5")
    check("renamed" in text and "scanners" not in text, f"the lists of the policy are in:\n{text}")
    check("scanners (former)" in session.controlctl("stats")[1], "stats says that a list is a former one")

    # One object an interval, until it is told to stop; a data plane that was started anew has no interval at first.
    with open(session.path("top.json"), "wb") as output:
        process = subprocess.Popen([os.path.join(BUILD, "control/controlctl"), "top", "--json", "--interval", "0.3",
                                    "--socket", session.path("controld.sock")], stdout=output)

    def states():
        with open(session.path("top.json"), encoding="utf-8") as lines:
            return [json.loads(line)["targets"][0]["state"] for line in lines if line.endswith("\n")]

    session.wait("intervals", lambda: states()[-2:] == ["measured"] * 2)
    session.kill("dataplane")
    session.wait("the target to be away", lambda: states()[-1] == "away")
    time.sleep(1)  # the start time of a data plane is told in seconds
    start_loop(session, capture)
    session.wait("intervals of the new one", lambda: states()[-1] == "measured")
    process.terminate()
    process.wait(60)
    check("new" in states(), f"the new one has no interval at first: {states()}")

    session.kill("controld")
    code, _, err = session.controlctl("top", "--once")
    equal(code, 4, "controld is away")
    check("cannot reach controld" in err, err)
