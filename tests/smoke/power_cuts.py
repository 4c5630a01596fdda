"""Whatever a power cut takes of what was not synced: what was acknowledged is enforced afterwards, or something newer.
scripts/figures safe.power looks at more."""

import os

from weir_smoke import BUILD, check, equal, skip, skips_without_namespaces

import power_cuts

if os.geteuid() != 0:
    skip("root: interfaces need it")
with skips_without_namespaces():
    found = power_cuts.run(BUILD, reloads=4, starts=2, progress=print)
equal(found["lost"], 0, "\n".join(found["wrong"]))
check(found["states"] > 1000 and found["starts"] == 2, f"too little was looked at: {found}")
print(found)
