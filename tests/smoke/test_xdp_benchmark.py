"""The measurements of `scripts/bench xdp`, on tiny lists: every peer finds the hits that were sent, without a network and on
veth. A lane's namespace ends with the lane."""

import os

import pytest

from bench_xdp import BASE, LANES, LOOKUP_PEERS, measure_lanes, measure_load, measure_lookup
from weir_smoke import BUILD, needs_root

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(180), needs_root("interfaces and XDP need it"),
              pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="processors: one for the lanes, one for all else")]

ENTRIES, SECONDS = 1_000, 0.1


def test_lookups_have_all_peers():
    for row in measure_lookup(BUILD, ENTRIES, (0, 0.5), 1)["rows"]:
        assert sorted(row["ns"][0]) == sorted(LOOKUP_PEERS), f"peers at {row['hits']:.0%} hits"


def test_every_lane_is_measured_or_named_as_missing(folder):
    row, = measure_lanes(BUILD, folder, ENTRIES, (0.5,), 1, SECONDS)
    assert BASE in row["runs"][0], "the lane that others are compared with"
    assert len(row["runs"][0]) + len(row["missing"]) == len(LANES), f"lanes: {row}"


def test_loading_is_measured(folder):
    assert measure_load(BUILD, folder, ENTRIES, 1)["runs"][0], "peers"


def test_a_killed_lane_leaves_no_process_in_its_network(folder):
    with LANES[BASE](BUILD, folder, ENTRIES) as lane:
        network = network_of(lane.process.pid)
        assert network != network_of("self"), "the lane has no network of its own"
        lane.process.kill()
        lane.process.wait()
        assert [process for process in filter(str.isdigit, os.listdir("/proc")) if network_of(process) == network] == [], "processes"


def network_of(process):
    """None: it has ended."""
    try:
        return os.readlink(f"/proc/{process}/ns/net")
    except OSError:
        return None
