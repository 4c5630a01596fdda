"""Nodes and members of etcd are killed, stopped, cut off, without room on their disks, and with clocks that jump, while policies are
pushed and entries added. One revision or the next judges each packet, never an older one; in the end all nodes enforce the newest.
`scripts/figures fleet.fault` does 200 faults."""

import os

import pytest

from weir_smoke import BUILD, needs_programs, needs_root
import fleet_faults

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(300), needs_root("networks and disks of their own need it"),
              needs_programs("etcd", "etcdctl")]

FAULTS = 14


def test_no_fault_brings_an_older_revision_back():
    found = fleet_faults.run(BUILD, FAULTS, 2, int(os.environ.get("WEIR_SEED", 1)), print)
    assert (found["older"], found["wrong"]) == ([], []), "packets judged by an older revision, or wrongly"
    assert found["packets"] > 1000, f"only {found['packets']} packets were judged"
    assert len(found["faults"]) >= 4 and found["revisions"] > 5, f"too little happened: {found}"
