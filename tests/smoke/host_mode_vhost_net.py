"""Host mode with virtio-user and vhost-net instead of net_tap: the same TCP through reloads, by the faster way."""

import os

from weir_smoke import BUILD, check, skip  # first: it knows where the others are
from host_rig import MOST_GAP_MS, VIRTIO_USER, measure_host_mode, missing

if not os.path.exists("/dev/vhost-net"):
    skip("kernel: no /dev/vhost-net (modprobe vhost_net)")
if reason := missing():
    skip(reason)
found = measure_host_mode(BUILD, reloads=20, kernel_side=VIRTIO_USER)
print(found)
for name, stream in found["streams"].items():
    check(stream["error"] is None and stream["same_bytes"] and stream["received"] > 0, f"{name}: {stream}")
check(found["longest_gap_ms"] < MOST_GAP_MS, f"for how long no byte came: {found}")
