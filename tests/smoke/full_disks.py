"""Disks that are full, read-only or broken at some moments: what is new is enforced, nothing is unblocked, and all of it is on
disk when there is room again. scripts/figures safe.enospc tries every moment."""

import os

from weir_smoke import BUILD, check, equal, skip, skips_without_namespaces

import full_disks

if os.geteuid() != 0:
    skip("root: interfaces need it")
with skips_without_namespaces():
    found = full_disks.run(BUILD, few=True, progress=print)
equal(found["failed"], 0, "\n".join(found["wrong"]))
check(found["cases"] >= 5, f"too few cases: {found}")
print(found)
