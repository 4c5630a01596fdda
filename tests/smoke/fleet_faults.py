"""A fleet whose nodes and members of etcd are killed, stopped, cut off, without room on their disks, and with clocks that jump, while policies
are pushed and entries added: packets of each node are judged by one revision or the next, never by an older one; in the end all enforce the
newest. scripts/figures fleet.fault does 200 faults."""

import os
import shutil

from weir_smoke import BUILD, check, equal, skip, skips_without_namespaces

import fleet_faults

FAULTS = 14
if os.geteuid() != 0:
    skip("root: networks and disks of their own need it")
if shutil.which("etcd") is None:
    skip("program: no etcd: scripts/setup test installs it")
with skips_without_namespaces():
    found = fleet_faults.run(BUILD, FAULTS, 2, int(os.environ.get("WEIR_SEED", 1)), print)
equal((found["older"], found["wrong"]), ([], []), "what went wrong")
check(found["packets"] > 1000, f"only {found['packets']} packets were judged")
check(len(found["faults"]) >= 4 and found["revisions"] > 5, f"too little happened: {found}")
print(found)
