"""controld and the enforcers survive kill -9, power cuts, full disks and calls of the kernel that fail. They keep each acknowledged
change, and nothing older comes back. scripts/figures safe and moves try many more moments."""

import os

import pytest

from weir_smoke import BUILD, needs_root
import crashes
import fault_rig
import fault_rig_xdp
import faults
import full_disks
import kills
import power_cuts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEED = int(os.environ.get("WEIR_SEED", 1))


def nothing_older_is_back(found):
    assert (found["older"], found["lost"]) == (0, 0), "\n".join(found["wrong"])
    assert found["packets"] > 1000, f"the test judged {found['packets']} packets only"


@pytest.mark.alone
@needs_root("interfaces need it")
def test_a_kill_during_a_reload_loses_no_acknowledged_policy():
    nothing_older_is_back(crashes.run(BUILD, 12, SEED, print))


@pytest.mark.alone
@needs_root("interfaces need it")
@pytest.mark.parametrize(("plane", "times"), (("dataplane", 10), ("xdp", 5)))
def test_a_kill_during_a_change_of_lists_loses_no_acknowledged_change(plane, times):
    """An unanswered change is there as a whole, or not at all."""
    found = kills.run(BUILD, times, SEED, plane == "xdp", print)
    nothing_older_is_back(found)
    assert found["requests"] > 5 and found["entries"] > 1000, f"clients changed too little: {found}"


@pytest.mark.alone
@needs_root("interfaces need it")
def test_a_power_cut_loses_nothing_acknowledged():
    found = power_cuts.run(BUILD, reloads=4, starts=2, progress=print)
    assert found["lost"] == 0, "\n".join(found["wrong"])
    assert found["states"] > 1000 and found["starts"] == 2, f"the test looked at too few states: {found}"


@pytest.mark.alone
@needs_root("interfaces need it")
def test_a_full_or_broken_disk_unblocks_nothing():
    """The enforcers enforce a new policy, and both programs write it as soon as the disk has room."""
    found = full_disks.run(BUILD, few=True, progress=print)
    assert found["failed"] == 0, "\n".join(found["wrong"])
    assert found["cases"] >= 5, f"too few cases: {found}"


@pytest.mark.parametrize(("rig", "cases", "least"), (
    pytest.param(fault_rig.Rig, faults.on_dataplane, 30, id="dataplane"),
    pytest.param(fault_rig_xdp.XdpRig, faults.on_xdp, 10, id="xdp", marks=needs_root("XDP needs it"))))
def test_a_call_that_fails_or_a_clock_that_jumps_unblocks_nothing(rig, cases, least):
    """Answers stay true, and the next reload works."""
    found = faults.run(BUILD, few=True, progress=print, rigs=((rig, cases),))
    assert found["failed"] == 0, "\n".join(faults.as_text(row) for row in found["rows"] if row["problem"])
    assert found["cases"] >= least, f"too few cases: {found['cases']}"
