"""Two workers with a queue each: every frame is judged once and as the reference says, the totals are the sums, and
each queue keeps its order on the passed and on the dropped side."""

import os

from weir_smoke import (BUILD, Memory, Session, equal, make_samples, outputs, read_capture, reference, split,
                        write_capture)
from capture import sort_out

CONFIG = "forward: pair\ndrop_port: 2\nports: [{port: 0, queues: 2}, {port: 1, queues: 2}]"

with Session(BUILD) as session:
    make_samples(session.folder)
    config, pcap = session.path("weir.yaml"), session.path("capture.pcap")
    capture = read_capture(pcap)
    parts = split(capture, 2)
    for number, part in enumerate(parts):
        write_capture(session.path(f"in{number}.pcap"), part)
    session.start_dataplane(CONFIG, ["net_pcap0,rx_pcap=in0.pcap,rx_pcap=in1.pcap",
                                     "net_pcap1,tx_pcap=passed0.pcap,tx_pcap=passed1.pcap",
                                     "net_pcap2,tx_pcap=dropped0.pcap,tx_pcap=dropped1.pcap"], 2,
                            Memory(8192, capture.longest()))
    session.start_controld(config)
    session.wait_enforced()
    session.wait("every frame", lambda: session.stats()["packets"] >= len(capture.frames))
    stats = session.stats()
    session.stop("controld")
    equal(session.stop("dataplane"), 0, "the data plane's exit code")

    expected = reference(config, pcap, outputs(session.folder, "reference"))
    for key, value in expected.items():
        if key != "lists":
            equal(stats[key], value, key)
    for name, numbers in expected["lists"].items():
        equal({key: stats["lists"][name][key] for key in numbers}, numbers, f"list {name}")

    for number, part in enumerate(parts):
        out = [read_capture(session.path(f"{side}{number}.pcap")).frames for side in ("passed", "dropped")]
        _, dropped = sort_out(part.frames, *out)
        path = session.path(f"part{number}.pcap")
        write_capture(path, part)
        paths = outputs(session.folder, f"part{number}")
        reference(config, path, paths)
        equal([part.frames[i] for i in dropped], read_capture(paths[1]).frames, f"dropped frames of queue {number}")
        os.remove(path)
