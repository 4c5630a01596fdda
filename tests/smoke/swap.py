"""Reloads under numbered traffic: every packet comes back once, and no burst mixes two policies.

The short version of what scripts/figures measures, at a fixed rate. A machine that stops the worker for 16 ms makes the
sender hold packets back (`missed`); that is no fault of the data plane, so here it is only printed.
"""

from weir_smoke import BUILD, check, equal, skip

from rig import Skip  # noqa: E402 (weir_smoke puts tests/rig on the path)
from swaps import measure_swaps  # noqa: E402

RELOADS = 10
PACKETS_PER_SECOND = 1_000_000

try:
    found = measure_swaps(BUILD, RELOADS, rate=PACKETS_PER_SECOND)
except Skip as reason:
    skip(reason)
check(found["sent"] > PACKETS_PER_SECOND, f"only {found['sent']} packets were sent")
equal(found["received"], found["sent"], "packets that came back")
for name in ("surplus", "foreign", "rx_missed", "tx_lost", "capture_lost"):
    equal(found[name], 0, name)
equal(found["changes"], RELOADS, "changes of policy in the order of the packets")
print(f"{found['sent']} packets, {found['missed']} held back; {RELOADS} reloads, {found['changes_in_traffic']} of them "
      "between two packets of a batch")
