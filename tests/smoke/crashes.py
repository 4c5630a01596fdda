"""controld and the data plane are killed at random moments, under packets, while policies change: nothing older returns, and
nothing that was acknowledged is lost. scripts/figures safe.kill kills 500 times."""

import os

from weir_smoke import BUILD, check, equal, skip, skips_without_namespaces

import crashes

KILLS = 12
if os.geteuid() != 0:
    skip("root: interfaces need it")
with skips_without_namespaces():
    found = crashes.run(BUILD, KILLS, seed=int(os.environ.get("WEIR_SEED", 1)), progress=print)
equal((found["older"], found["lost"]), (0, 0), "\n".join(found["wrong"]))
check(found["packets"] > 1000, f"only {found['packets']} packets were judged")
print(found)
