"""Figures of fleets: real nodes, real members of etcd, real neighbours. docs/develop/figures.md says how each is measured."""

import fleet_canary
import fleet_crowdsec
import fleet_faults
import fleet_flowspec
import fleet_scale
import fleet_speed
from figure import at_most

FAULTS, NODES, SEED = 200, 3, 20261126


def faults(build, _folder):
    problems, older, done, pushes = fleet_faults.run(build, FAULTS, NODES, SEED)
    note = f"{sum(done.values())} faults ({', '.join(f'{kind} {n}' for kind, n in sorted(done.items()))}), {pushes} revisions, {NODES} nodes, seed {SEED}"
    return [at_most("fleet.fault_failures", len(problems), 0, "problems", note),
            at_most("fleet.older_revisions", len(older), 0, "revisions", note)], {"problems": problems, "older": older}


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
