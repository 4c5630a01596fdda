#!/usr/bin/env python3
"""How long it takes from a decision of CrowdSec to the first packet that a data plane drops for it, and from its deletion to the last one:
real crowdsec, real cscli, `controlctl crowdsec` as it is by default. A decision comes at any time between two questions.

    fleet_crowdsec.py [--build DIR] [--runs N]     prints a line, and raw runs as JSON
"""

import argparse
import ipaddress
import json
import os
import random
import socket
import statistics
import struct
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import flow_addresses, read_capture  # noqa: E402
from crowdsec_rig import CrowdSec, missing  # noqa: E402
from figure import at_most  # noqa: E402
from pace import hold  # noqa: E402
from rig import Skip, say  # noqa: E402
from samples import make_samples  # noqa: E402
from session import ROOT, Memory, Session  # noqa: E402
from until import Patience, until  # noqa: E402
from wire import WIRE_HEADER, WIRE_STATS, question  # noqa: E402

RUNS = 5
LIMIT_S = 15
EVERY_S = 10       # what controlctl crowdsec does by default
WAIT_S = 60
QUIET_S = 0.3      # without a drop: they have ended
POLICY = "version: 1\nlists:\n  - {name: crowdsec, action: drop, dynamic: true}\n"
LOOP = "forward: hairpin\nports: [{port: 0, queues: 1}]\n"


class Drops:
    """The counter of the data plane, which is asked itself."""

    def __init__(self, path):
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.settimeout(10)
        self.connection.connect(path)

    def count(self):
        self.connection.send(question(WIRE_STATS))
        return struct.unpack_from("<QQQQQQQ", self.connection.recv(1 << 17), WIRE_HEADER.size)[6]

    def seconds_to_first(self, begin):
        before = self.count()
        if not until("a drop", lambda: self.count() != before, WAIT_S, error=None, turn=0.01):
            raise Skip(f"no drop within {WAIT_S} s", missing_here=True)
        return time.monotonic() - begin

    def seconds_to_last(self, begin):
        before, last, patience = self.count(), time.monotonic(), Patience(WAIT_S, QUIET_S)
        while until("one more drop", lambda n=before: self.count() != n, QUIET_S, error=None, turn=0.01):
            before, last = self.count(), time.monotonic()
            if patience.is_over():
                raise Skip(f"drops go on for {WAIT_S} s", missing_here=True)
        return last - begin


def sources(capture, n):
    """Those with the most frames."""
    seen = {}
    for frame in capture.frames:
        source, _ = flow_addresses(frame)
        if len(source) == 4:
            seen[source] = seen.get(source, 0) + 1
    return [str(ipaddress.ip_address(source)) for source in sorted(seen, key=seen.get, reverse=True)[:n]]


def decision_to_drop(build, folder, runs=RUNS):
    """(figures, raw runs)."""
    if missing():
        raise Skip(f"package: no {missing()}")
    chance = random.Random(19)
    appear, vanish = [], []
    with Session(build, folder) as session, CrowdSec(session.path("crowdsec")) as crowdsec:
        make_samples(session.folder, flows=200, frames=4000)
        capture = read_capture(session.path("capture.pcap"))
        session.start_dataplane(LOOP, ["net_pcap0,rx_pcap=capture.pcap,infinite_rx=1"], 1, Memory(len(capture.frames) + 2048, capture.longest()))
        with open(session.path("policy.yaml"), "w", encoding="ascii") as file:
            file.write(POLICY)
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        bridge = session._start("bridge", [  # pylint: disable=protected-access
            os.path.join(build, "control/controlctl"), "crowdsec", "--url", crowdsec.url, "--key-file", crowdsec.key_file, "--socket",
            session.path("controld.sock")])
        try:
            drops = Drops(session.path("dataplane.sock"))
            for address in sources(capture, runs):
                hold(chance.uniform(0, EVERY_S))
                begin = time.monotonic()
                crowdsec.decide("--ip", address, "--duration", "1h")
                appear.append(drops.seconds_to_first(begin))
                hold(chance.uniform(0, EVERY_S))
                begin = time.monotonic()
                crowdsec.delete("--ip", address)
                vanish.append(drops.seconds_to_last(begin))
                say(f"crowdsec: {address}: dropped after {appear[-1]:.2f} s, let through after {vanish[-1]:.2f} s")
        finally:
            bridge.terminate()
            bridge.wait(60)
    note = (f"from `cscli decisions add` to the first drop, median of {runs}, most {max(appear):.1f}; deleted to the last drop: median "
            f"{statistics.median(vanish):.1f}, most {max(vanish):.1f}; asked every {EVERY_S} s")
    return [at_most("fleet.crowdsec_s", statistics.median(appear), LIMIT_S, "s", note)], {"appear_s": appear, "vanish_s": vanish}


MEASUREMENTS = ((("fleet.crowdsec_s",), decision_to_drop),)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-fleet-") as folder:
        try:
            figures, raw = decision_to_drop(os.path.abspath(arguments.build), folder, arguments.runs)
        except Skip as skipped:
            print(f"fleet.crowdsec_s - <={LIMIT_S} s skipped {skipped}")
            return 2
    for figure in figures:
        print(figure.line())
    print(json.dumps(raw))
    return 0 if all(figure.status == "ok" for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
