"""Whoever may speak sends what nobody should: snapshots, messages, requests and answers, thousands of each. Nothing ends, and
everything answers afterwards. An enforcer refuses a snapshot that is hostile by design, or its work has a bound.
scripts/figures safe.hostile sends millions."""

import os

from weir_smoke import BUILD, check
import hostile

IS_XDP_HERE = os.geteuid() == 0 and os.path.isdir("/sys/fs/bpf")
SENT = (
    (hostile.snapshots_to_dataplane, 300),
    *(((hostile.snapshots_to_xdp, 300),) if IS_XDP_HERE else ()),
    (hostile.messages_to_dataplane, 20_000),
    (hostile.requests_to_controld, 3_000),
    (hostile.answers_to_controld, 1_000),
)
LEAST_KINDS = 20
for send in (hostile.kinds_to_dataplane, *((hostile.kinds_to_xdp,) if IS_XDP_HERE else ())):
    result = send(BUILD)
    wrong = [row for row in result["kinds"] if row["wrong"]]
    check(not wrong and not result["crashes"] and result["sent"] >= LEAST_KINDS, f"{send.__name__}: {wrong} {result}")
    print(f"{send.__name__}: {result['sent']} kinds, {result['refused']} refused")
for send, count in SENT:
    result = send(BUILD, count)
    print(f"{send.__name__}: {result}")
    check(result["sent"] >= count and not result["crashes"], f"{send.__name__}: {result}")
    check(result["refused"] > 0, "what is wrong is refused")
