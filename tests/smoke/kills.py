"""controld and the data plane are killed while clients add and delete, feeds are exchanged and the policy is reloaded: what was
acknowledged is there afterwards, nothing older is, and what was not answered is there as a whole or not at all. scripts/figures moves.kill
kills 500 times."""

import os

from weir_smoke import BUILD, check, equal, skip, skips_without_namespaces

import kills

KILLS = {"data plane": 10, "XDP": 5}
if os.geteuid() != 0:
    skip("root: interfaces need it")
for plane, count in KILLS.items():
    with skips_without_namespaces():
        found = kills.run(BUILD, count, int(os.environ.get("WEIR_SEED", 1)), plane == "XDP", print)
    equal((found["older"], found["lost"]), (0, 0), f"{plane}: " + "\n".join(found["wrong"]))
    check(found["packets"] > 1000, f"{plane}: only {found['packets']} probes were judged")
    check(found["requests"] > 5 and found["entries"] > 1000, f"{plane}: too little was changed: {found}")
    print(plane, found)
