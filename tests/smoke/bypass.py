"""bypass on: everything passes, and status says so, also after a restart of the data plane; bypass off: the policy
enforces again."""

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, moved, read_capture, start_loop)

with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    start_loop(session, capture)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    totals, _ = moved(session)
    check(totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops: {totals}")

    def everything_passes(when):
        status = controlctl(session, "status")
        equal((status["bypass"], status["targets"][0]["bypass"]), (True, True), f"{when}: bypass in status")
        found, lists = moved(session)
        check(found["bypassed"] > 0, f"{when}: packets are counted as bypassed")
        equal(found["dropped"], 0, f"{when}: packets dropped")
        equal({name: numbers["dropped"] for name, numbers in lists.items() if numbers["dropped"]}, {},
              f"{when}: packets dropped by a list")

    check(controlctl(session, "bypass", "on")["ok"], "bypass on is confirmed")
    everything_passes("switched on")

    session.kill("dataplane")
    start_loop(session, capture)
    session.wait("the bypass to be told", lambda: controlctl(session, "status")["targets"][0]["bypass"])
    everything_passes("after a restart of the data plane")

    check(controlctl(session, "reload")["ok"], "a reload during bypass")
    everything_passes("after a reload")

    session.kill("controld")
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    everything_passes("after a restart of controld")

    check(controlctl(session, "bypass", "off")["ok"], "bypass off is confirmed")
    status = controlctl(session, "status")
    equal((status["bypass"], status["targets"][0]["bypass"]), (False, False), "switched off: bypass in status")
    totals, lists = moved(session)
    check(totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops again: {totals}")
    check(lists["scanners"]["dropped"] > 0, "scanners drops again")
