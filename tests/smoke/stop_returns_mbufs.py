"""A clean stop in mid-traffic: exit code 0, every mbuf back in its pool, on one and on two workers, with and without a
snapshot, and with a port that is a queue of this process."""

import re

from weir_smoke import BUILD, Memory, Session, check, equal, make_samples, moved, read_capture, start_loop


def check_all_returned(session, what):
    log = session.log("dataplane")
    check(re.search(r"^[1-9]\d* mbufs, all returned$", log, re.M), f"{what}: mbufs are not all returned:\n{log}")
    return log


for workers, with_policy in ((1, True), (2, True), (1, False)):
    what = f"{workers} workers, {'a' if with_policy else 'no'} policy"
    with Session(BUILD) as session:
        make_samples(session.folder, flows=1000, frames=5000)
        start_loop(session, read_capture(session.path("capture.pcap")), workers)
        if with_policy:
            session.start_controld(session.path("weir.yaml"))
            session.wait_enforced()
            moved(session)
            equal(session.stop("controld"), 0, f"{what}: controld's exit code")
        equal(session.stop("dataplane"), 0, f"{what}: the data plane's exit code")
        log = check_all_returned(session, what)
        received = int(re.search(r"^ *packets +(\d+)$", log, re.M).group(1))
        equal(received > 0, with_policy, f"{what}: frames were received")

with Session(BUILD) as session:
    make_samples(session.folder, flows=100, frames=500)
    capture = session.path("capture.pcap")
    session.start_dataplane("forward: pair", [f"net_pcap0,rx_pcap={capture},infinite_rx=1", "net_ring0"],
                            memory=Memory(8192, read_capture(capture).longest()))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    moved(session)
    equal(session.stop("dataplane"), 0, "net_ring: the data plane's exit code")
    check_all_returned(session, "net_ring")
