"""Three ports with two queues each, on one and on two workers: each frame comes out of the queue that belongs to the one
it came in by, those of a flow in order, and the sums are exact."""

from weir_smoke import (BUILD, Memory, Session, by_flow, equal, make_samples, outputs, read_capture, reference,
                        split, write_capture)

PORTS, QUEUES = 3, 2
CONFIG = "forward: hairpin\nports: [%s]" % ", ".join(f"{{port: {port}, queues: {QUEUES}}}" for port in range(PORTS))

for workers in (1, 2):
    with Session(BUILD) as session:
        make_samples(session.folder)
        capture = read_capture(session.path("capture.pcap"))
        parts = split(capture, PORTS * QUEUES)
        vdevs = []
        for port in range(PORTS):
            files = []
            for queue in range(QUEUES):
                number = port * QUEUES + queue
                write_capture(session.path(f"in{number}.pcap"), parts[number])
                files += [f"rx_pcap=in{number}.pcap", f"tx_pcap=out{number}.pcap"]
            vdevs.append(f"net_pcap{port}," + ",".join(files))
        session.start_dataplane(CONFIG, vdevs, workers, Memory(8192, capture.longest()))
        session.start_controld(session.path("weir.yaml"))
        session.wait("every frame", lambda: session.stats()["packets"] >= len(capture.frames))
        stats = session.stats()
        session.stop("controld")
        equal(session.stop("dataplane"), 0, f"{workers} workers: the data plane's exit code")

        expected = reference(session.path("weir.yaml"), session.path("capture.pcap"), outputs(session.folder, "all"))
        for key, value in expected.items():
            if key != "lists":
                equal(stats[key], value, f"{workers} workers: {key}")
        for name, numbers in expected["lists"].items():
            equal({key: stats["lists"][name][key] for key in numbers}, numbers, f"{workers} workers: list {name}")
        for number in range(PORTS * QUEUES):
            paths = outputs(session.folder, f"queue{number}")
            reference(session.path("weir.yaml"), session.path(f"in{number}.pcap"), paths)
            found = read_capture(session.path(f"out{number}.pcap")).frames
            equal(by_flow(found) == by_flow(read_capture(paths[0]).frames), True,
                  f"{workers} workers: queue {number} as expected")
        print(f"{workers} workers: {len(capture.frames)} frames by {PORTS} ports with {QUEUES} queues")
