"""What scripts/bench xdp measures: on tiny lists every peer finds the hits that were sent, without a network and on
veth; and its namespaces go with it."""

import os
import tempfile

from weir_smoke import BUILD, check, equal, skip

from bench_xdp import BASE, LANES, LOOKUP_PEERS, measure_lanes, measure_load, measure_lookup  # noqa: E402 (weir_smoke)
from rig import Skip  # noqa: E402
from session import SessionError  # noqa: E402

ENTRIES, SECONDS = 1_000, 0.1


def holders(namespace):
    """Processes in a network namespace."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{process}/ns/net") == namespace:
                found.append(process)
        except OSError:
            pass  # it ended
    return found


def network_of(process):
    return os.readlink(f"/proc/{process}/ns/net")


try:
    found = measure_lookup(BUILD, ENTRIES, (0, 0.5), 1)
    for row in found["rows"]:
        equal(sorted(row["ns"][0]), sorted(LOOKUP_PEERS), f"peers at {row['hits']:.0%} hits")
        print(f"{row['hits']:.0%} hits: {row['ns'][0]}")
    with tempfile.TemporaryDirectory(prefix="weir-smoke-") as folder:
        row, = measure_lanes(BUILD, folder, ENTRIES, (0.5,), 1, SECONDS)
        print(f"veth: {row['runs'][0]}, left out: {row['missing']}")
        check(BASE in row["runs"][0] and len(row["runs"][0]) + len(row["missing"]) == len(LANES), "a peer is lost")
        print(f"load: {measure_load(BUILD, folder, ENTRIES, 1)['runs'][0]}")
        with LANES[BASE](BUILD, folder, ENTRIES) as lane:
            network = network_of(lane.process.pid)
            check(network != network_of("self"), "the lane has no network of its own")
            lane.process.kill()
            lane.process.wait()
            equal(holders(network), [], "processes in the network of a lane that was killed")
except Skip as reason:
    skip(reason)
except SessionError as error:
    check(False, str(error))
