"""A reload in mid-traffic: the new list drops, the old one stops, counters never fall, no frame is lost, every
generation is one more than the last."""

import os

from weir_smoke import (BUILD, Session, check, controlctl, equal, make_samples, moved, read, read_capture, start_loop,
                        write)

RELOADS = 20

with Session(BUILD) as session:
    make_samples(session.folder, flows=1000, frames=5000)
    policies = {name: read(session.path(f"{name}.yaml")).decode() for name in ("weir", "weir-second")}
    start_loop(session, read_capture(session.path("capture.pcap")))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()

    _, lists = moved(session)
    check(lists["scanners"]["dropped"] > 0, "scanners drops")
    check("botnet" not in lists, "botnet is not there yet")

    last = session.stats()
    generation = last["generation"]
    for number in range(1, RELOADS + 1):
        current, former = ("botnet", "scanners") if number % 2 else ("scanners", "botnet")
        write(session.folder, "weir.yaml", policies["weir-second" if number % 2 else "weir"])
        answer = controlctl(session, "reload")
        check(answer["ok"], f"reload {number}: {answer}")
        equal(answer["generation"], {"epoch": generation["epoch"], "number": generation["number"] + number},
              f"generation after reload {number}")

        totals, lists = moved(session)
        check(lists[current]["dropped"] > 0, f"reload {number}: {current} drops")
        equal(lists.get(former, {}).get("dropped", 0), 0, f"reload {number}: drops of {former}, which is gone")
        stats = session.stats()
        for key, value in last.items():
            if isinstance(value, int):
                check(stats[key] >= value, f"reload {number}: {key} fell from {value} to {stats[key]}")
        for name, numbers in last["lists"].items():
            for key, value in numbers.items():
                if name in stats["lists"]:  # a former list is told of as long as the enforcer keeps it
                    check(stats["lists"][name][key] >= value, f"reload {number}: {name} {key} fell from {value}")
        last = stats

    equal((last["rx_missed"], last["tx_lost"], last["no_snapshot_passed"], last["bypassed"]), (0, 0, 0, 0),
          "frames missed, lost, passed without a snapshot, bypassed")
    equal(session.stop("controld"), 0, "controld's exit code")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")
    check(os.path.exists(session.path("dataplane-state")), "the data plane kept its last good snapshot")
