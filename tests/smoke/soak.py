"""The short version of the soak that scripts/figures runs: reloads under a capture that loops, then every counter is
what the number of packets says, every mbuf is back, and nothing has grown."""

from weir_smoke import BUILD, check, equal, skip

from rig import Skip  # noqa: E402 (weir_smoke puts tests/rig on the path)
from soak import differences, expected, measure_soak  # noqa: E402

PACKETS, RELOADS = 1_000_000, 20

try:
    found = measure_soak(BUILD, PACKETS, RELOADS)
except Skip as reason:
    skip(reason)
check(found["packets"] >= PACKETS, f"only {found['packets']} packets")
equal(found["leaks"], [], "leaks")

judged = [-1, 0, 1, 2, -1]  # the books can tell a packet
equal(differences(expected(judged, 13), expected(judged, 13)), [], "differences of equal counters")
check(differences(expected(judged, 14), expected(judged, 13)), "another packet makes no difference")
print(f"{found['packets']} packets, {found['reloads']} reloads")
