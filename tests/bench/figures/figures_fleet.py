"""Figures of fleets: real nodes, real members of etcd, real neighbours. docs/develop/figures.md says how each is measured."""

import fleet_canary
import fleet_crowdsec
import fleet_faults
import fleet_flowspec
import fleet_scale
import fleet_speed
from fault_rig import LIBRARY
from figure import at_most
from figures_safe import in_a_process
from rig import PROGRAMS, build_release

FAULTS, NODES, SEED = 200, 3, 20261126


def faults(build, _folder):
    build_release(build, [*PROGRAMS, LIBRARY])
    found = in_a_process(fleet_faults.run, build, FAULTS, NODES, SEED)
    note = (f"{sum(found['faults'].values())} faults ({', '.join(f'{kind} {n}' for kind, n in sorted(found['faults'].items()))}) in {found['seconds']:.0f} s, "
            f"{found['revisions']} revisions, {found['entries']} entries, {found['packets']} packets judged, {NODES} nodes, seed {SEED}")
    told = "".join(f"; {text}" for text in (found["older"] + found["wrong"])[:3])
    return [at_most("fleet.fault_failures", len(found["wrong"]), 0, "problems", note + told),
            at_most("fleet.older_revisions", len(found["older"]), 0, "revisions", note)], found


def flowspec(build, _folder):
    return [fleet_flowspec.figure(build, fleet_flowspec.RULES, fleet_flowspec.FRAMES, fleet_flowspec.SEED)], None


MEASUREMENTS = (
    *fleet_speed.MEASUREMENTS,
    (("fleet.fault_failures", "fleet.older_revisions"), faults),
    *fleet_canary.MEASUREMENTS,
    (("fleet.flowspec_wrong",), flowspec),
    *fleet_crowdsec.MEASUREMENTS,
    *fleet_scale.MEASUREMENTS,
)
