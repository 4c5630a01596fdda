"""When one queue gets most of the traffic, or one source sends it, `controlctl top`, the API and DPDK's telemetry say which one,
and about how much."""

import ipaddress
import random
import re

import pytest

from port_traffic import udp_frame, write_frames
from weir_smoke import Memory, controlctl, make_samples

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.timeout(180)]

HEAVY, HEAVY_PERCENT = "203.0.113.7", 71
QUEUES = 2
# Port 0 gives frames for ever. Port 1 has the same number of queues, and gives nothing any more after its few frames.
CONFIG = f"forward: sink\nports: [{{port: 0, queues: {QUEUES}}}, {{port: 1, queues: {QUEUES}}}]\ntelemetry: {{sample_one_in: 2}}"
FEW = 900  # less than a queue of `spread` holds: none can be lost
SERVER = int(ipaddress.IPv4Address("192.0.2.10"))


@pytest.fixture(autouse=True)
def policy(session):
    make_samples(session.folder)


def test_a_heavy_source_and_a_busy_queue_are_named(session):
    start(session, HEAVY_PERCENT)
    target = measured(session)
    for worker in target["workers"]:
        number = worker["worker"]
        queues = {(queue["port"], queue["queue"]): queue for queue in worker["queue_packets"]}
        assert sorted(queues) == [(0, number), (1, number)], f"queues of worker {number}"
        busy, idle = queues[0, number], queues[1, number]
        assert (idle["packets"], idle["share"], busy["share"]) == (0, 0, 1), f"shares of worker {number}"
        assert busy["packets"] > 0, f"frames of worker {number}'s busy queue"
    heaviest = target["sources"][0]
    assert heaviest["source"] == HEAVY, f"the heaviest of {target['sources']}"
    # One frame in 16 is looked at, of more than 100,000; the summary may be 1/17 of the others short.
    assert HEAVY_PERCENT - 6 <= 100 * heaviest["share"] <= HEAVY_PERCENT + 4, f"share of {heaviest}"
    assert [source for source in target["sources"][1:] if source["share"] > 0.1] == [], "other heavy sources"

    text = session.controlctl("top", "--once", "--interval", "1")[1]
    for worker in (0, 1):
        # A share of all, when other programs keep the processor from the other worker.
        assert re.search(rf"^worker {worker}: queue 0:{worker} gets (100 % of its|\d+ % of all) packets$", text, re.M), (
            f"the queue of worker {worker} in\n{text}")
    assert f"source {HEAVY} sends about " in text, f"the source in\n{text}"

    telemetry_counts_from_the_start(session)
    assert session.stop("dataplane") == 0, "the data plane's exit code"


def telemetry_counts_from_the_start(session):
    target, = session.call("telemetry")["targets"]
    for worker in target["workers"]:
        busy, idle = sorted(worker["queue_packets"], key=lambda queue: queue["port"])
        assert idle["packets"] == 10, f"frames of the second queue of worker {worker['worker']}"
        assert busy["packets"] > 10000, f"frames of the first queue of worker {worker['worker']}"
        assert worker["sampled"] >= worker["sources"][0]["sampled"] > 0, f"samples of {worker['sources']}"
        assert worker["sources"][0]["source"] == HEAVY, f"heaviest source of worker {worker['worker']}"


def test_without_a_heavy_source_none_is_named(session):
    start(session, 0)
    assert [source for source in measured(session)["sources"] if source["share"] > 0.1] == [], "heavy sources"
    text = session.controlctl("top", "--once", "--interval", "1")[1]
    assert "sends about" not in text, f"a heavy source in\n{text}"


def test_a_heavy_pair_has_one_queue_of_a_port_with_spread(session):
    file = write_frames(session.path("in.pcap"), frames_of(random.Random(2), FEW, 80))
    session.start_dataplane("forward: sink\nports: [{port: 0, spread: 4}]\ntelemetry: {sample_one_in: 1}",
                            [f"net_pcap0,rx_pcap={file}"], 2, Memory(8192, 128))
    session.start_controld(session.path("weir.yaml"))
    session.wait("every frame", lambda: session.stats()["packets"] == FEW)
    session.wait("every frame in telemetry", lambda: sum(
        worker["packets"] for worker in session.call("telemetry")["targets"][0]["workers"]) >= FEW)
    target, = session.call("telemetry")["targets"]
    assert [len(worker["queue_packets"]) for worker in target["workers"]] == [2, 2], "queues of both workers"
    packets = sorted(queue["packets"] for worker in target["workers"] for queue in worker["queue_packets"])
    assert sum(packets) == FEW, f"frames of all queues: {packets}"
    assert packets[-1] >= FEW * 0.8, f"frames of the queue of the heavy pair: {packets}"
    assert sum(worker["packets"] for worker in target["workers"]) == FEW, "frames of both workers"
    assert HEAVY in {source["source"] for worker in target["workers"] for source in worker["sources"]}, "sources"


def start(session, heavy_percent):
    rng = random.Random(1)
    vdevs = []
    for port, number, more in ((0, 2000, ",infinite_rx=1"), (1, 10, "")):
        files = [write_frames(session.path(f"in{port}.{queue}.pcap"), frames_of(rng, number, heavy_percent))
                 for queue in range(QUEUES)]
        vdevs.append(f"net_pcap{port}," + ",".join(f"rx_pcap={file}" for file in files) + more)
    session.start_dataplane(CONFIG, vdevs, 2, Memory(2000 * QUEUES + 8192, 128))
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    session.wait("traffic", lambda: session.stats()["packets"] > 100000)


def frames_of(rng, number, heavy_percent):
    """So many of a hundred are of one heavy source, in no order. The others are of sources that come once."""
    frames = []
    for at in range(number):
        heavy = at % 100 < heavy_percent
        source = int(ipaddress.IPv4Address(HEAVY)) if heavy else int(ipaddress.IPv4Address("198.18.0.0")) + rng.randrange(1 << 17)
        frames.append(udp_frame(source, SERVER, 1024 + at % 50000, 53))
    rng.shuffle(frames)
    return frames


def measured(session):
    target, = controlctl(session, "top", "--once", "--interval", "2")["targets"]
    assert target["state"] == "measured", "state of the target"
    return target
