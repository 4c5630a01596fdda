"""The data plane's stages, and for root the XDP program, agree with the reference on every capture of the test data, with
policies of real lists."""

import os
import sys

from weir_smoke import BUILD, ROOT, check, equal, skip, temporary_folder

sys.path.insert(0, os.path.join(ROOT, "tests/rig"))
import rooms  # noqa: E402,F401
from agreement import agree_on_captures  # noqa: E402
from rig import Skip  # noqa: E402

xdp = os.geteuid() == 0
with temporary_folder() as folder:
    try:
        result = agree_on_captures(BUILD, folder, xdp)
    except Skip as reason:
        skip(str(reason))
    equal(result["disagreements"], 0, "disagreements")
    check(not xdp or result["by_xdp"] > 1_000_000, "frames ran through the XDP program")
    check(result["policies"] >= 6, "six policies at least")
    check(result["captures"] > 500, "captures, archives included")
    check(all(policy["hits"] > 1000 for policy in result["each"]), "every policy's lists are hit")
