"""scripts/replay without --once: the capture loops over one and two cores, rates every second, totals as JSON."""

import os

from weir_smoke import check, equal, load, make_samples, reference, outputs, replay, temporary_folder

KEYS = {"packets", "bytes", "passed", "dropped", "malformed", "not_ip", "incomplete", "default_passed",
        "default_dropped", "seconds", "mpps", "generation", "lists"}
LIST_KEYS = {"matched", "dropped", "passed", "would_drop", "matched_bytes", "dropped_bytes"}

with temporary_folder() as folder:
    make_samples(folder)
    config, pcap = os.path.join(folder, "weir.yaml"), os.path.join(folder, "capture.pcap")
    once = reference(config, pcap, outputs(folder, "reference"))
    for cores in (1, 2):
        path = os.path.join(folder, f"{cores}.json")
        text = replay("--config", config, "--pcap", pcap, "--seconds", "2", "--cores", str(cores), "--json", path)
        totals = load(path)
        equal(set(totals), KEYS, "members of the JSON")
        for name, numbers in totals["lists"].items():
            equal(set(numbers), LIST_KEYS, f"members of list {name}")
        equal(list(totals["lists"]), list(once["lists"]), "lists")
        check("s  port 0: rx" in text, f"lines of rates: {text}")
        check(totals["packets"] > 0, f"the capture went through: {totals}")
        equal(totals["packets"], totals["passed"] + totals["dropped"], "packets")
        equal(totals["mpps"], round(totals["packets"] / totals["seconds"] / 1e6, 6), "mpps")
        # Shares of a looped capture are those of the capture, nearly: it may stop within a loop.
        share, expected = totals["dropped"] / totals["packets"], once["dropped"] / once["packets"]
        check(abs(share - expected) < 0.05, f"{share:.3f} of the packets were dropped, {expected:.3f} expected")
