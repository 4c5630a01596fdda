"""Whoever may speak sends what nobody should: snapshots, messages, requests and answers, thousands of each. Nothing ends, and
everything answers afterwards. scripts/figures safe.hostile sends millions."""

import os

from weir_smoke import BUILD, check
import hostile

SENT = (
    (hostile.snapshots_to_dataplane, 300),
    *(((hostile.snapshots_to_xdp, 300),) if os.geteuid() == 0 and os.path.isdir("/sys/fs/bpf") else ()),
    (hostile.messages_to_dataplane, 20_000),
    (hostile.requests_to_controld, 3_000),
    (hostile.answers_to_controld, 1_000),
)
for send, count in SENT:
    result = send(BUILD, count)
    print(f"{send.__name__}: {result}")
    check(result["sent"] >= count and not result["crashes"], f"{send.__name__}: {result}")
    check(result["refused"] > 0, "what is wrong is refused")
