"""A list that churns every second under full-rate traffic: on neither plane a packet is lost, or judged by what the list no longer
holds. scripts/figures moves.churn does it for ten minutes."""

import os

from weir_smoke import BUILD, check, equal, skip

import churn
from figures_safe import in_a_process
from rig import Skip

ENTRIES, SECONDS = 50_000, 5
if os.geteuid() != 0:
    skip("root: interfaces need it")
for xdp in (False, True):
    try:
        found = in_a_process(churn.run, BUILD, ENTRIES, SECONDS, xdp)
    except Skip as reason:
        skip(str(reason))
    plane = found["plane"]
    equal((found["lost"], found["wrong"], found["texts"]), (0, 0, []), f"{plane}: packets lost, judged wrongly")
    equal(found["changes"], SECONDS, f"{plane}: changes")
    check(all(count > 0 for count in found["of_kind"].values()), f"{plane}: probes of every kind: {found['of_kind']}")
    check(found["packets"] > 0, f"{plane}: packets beside the probes")
    print(f"{plane}: {found['changes']} changes, {found['probes']} probes, {found['packets']} packets; the slowest change "
          f"was enforced after {max(found['enforced_ms']):.0f} ms")
