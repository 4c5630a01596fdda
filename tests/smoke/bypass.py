"""bypass on: everything passes, and status says so, also after a restart of the data plane; bypass off: the policy
enforces again."""

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, moved, order_bypass, read_capture, start_loop)

with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    capture = read_capture(session.path("capture.pcap"))
    start_loop(session, capture)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    totals, _ = moved(session)
    check(totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops: {totals}")

    def wait_told(is_on, when):
        """A target that does not answer at once is told as it was before."""
        session.wait(f"status to say that bypass is {'on' if is_on else 'off'}, {when}",
                     lambda: controlctl(session, "status")["targets"][0]["bypass"] == is_on)
        equal(controlctl(session, "status")["bypass"], is_on, f"{when}: bypass in status")

    def everything_passes(when):
        wait_told(True, when)
        found, lists = moved(session)
        check(found["bypassed"] > 0, f"{when}: packets are counted as bypassed")
        equal(found["dropped"], 0, f"{when}: packets dropped")
        equal({name: numbers["dropped"] for name, numbers in lists.items() if numbers["dropped"]}, {},
              f"{when}: packets dropped by a list")

    order_bypass(session, "on", "first of all")
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

    order_bypass(session, "off", "at the end")
    wait_told(False, "at the end")
    totals, lists = moved(session)
    check(totals["dropped"] > 0 and totals["bypassed"] == 0, f"the policy drops again: {totals}")
    check(lists["scanners"]["dropped"] > 0, "scanners drops again")
