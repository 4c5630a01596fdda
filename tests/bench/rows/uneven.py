"""Two workers behind one queue that is spread in software (`spread: 2`), of which one gets most of the traffic, beside the same
with even shares: packets per second of each worker.

Which worker has the large flow is chance: the hash is secret. The port gives more than both can judge; what finds its queue
full is lost there, and told.
"""

import os
import random
import statistics
import time

from added_cycles import WARM_UP_SECONDS, ask_client
from capture import read_capture
from port_draws import SEED
from port_frames import write_frames
from port_rows import ROWS, folder_of, give_snapshot, make_row
from ratio import SPARE_MBUFS
from rig import PlacedSession, Skip, processors, say
from session import Memory

SHARES = {"even": 0, "uneven": 0.8}  # of the frames, those of one flow
CONFIG = "forward: sink\nsnapshot_memory: 16GiB\nports: [{port: 0, spread: 2}]"
SECONDS = 2


def make_frames(folder, made, share):
    """The frames of the row, of which a share is replaced by the first one."""
    path = os.path.join(folder, f"spread-{share:g}.pcap")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(made.pcap):
        rng, frames = random.Random(SEED), read_capture(made.pcap).frames
        write_frames(path, [frames[0] if rng.random() < share else frame for frame in frames])
    return path


def reading(build, session):
    """Packets and seconds of each worker, by its own clock, and all packets that found a queue full."""
    workers = []
    for worker in (0, 1):
        found = ask_client(build, session, "telemetry", "--worker", str(worker))
        workers.append((found["packets"], found["taken_cycles"] / found["tsc_hz"]))
    return workers, ask_client(build, session, "stats")["rx_missed"]


def run_once(build, made, pcap):
    """{"mpps": of each worker, "lost": packets a second, in millions}"""
    with PlacedSession(build) as session:
        give_snapshot(session, made)
        session.start_dataplane(CONFIG, [f"net_pcap0,rx_pcap={pcap},infinite_rx=1"], 2,
                                Memory(made.frames + 2 * SPARE_MBUFS, made.longest))
        session.wait("the data plane", lambda: os.path.exists(session.path("dataplane.sock")))
        time.sleep(WARM_UP_SECONDS)
        before, lost_before = reading(build, session)
        time.sleep(SECONDS)
        after, lost_after = reading(build, session)
    seconds = after[0][1] - before[0][1]
    mpps = [(last[0] - first[0]) / (last[1] - first[1]) / 1e6 for first, last in zip(before, after)]
    return {"mpps": mpps, "lost": (lost_after - lost_before) / seconds / 1e6}


def measure_uneven(build, rounds):
    """Rounds of {even, uneven}, in turning order."""
    if len(processors()[1]) < 1:
        raise Skip("processors: two workers need two")
    made = make_row(build, ROWS["src_1m"])
    pcaps = {name: make_frames(folder_of(build), made, share) for name, share in SHARES.items()}
    runs = []
    for number in range(rounds):
        names = list(SHARES)[::1 if number % 2 == 0 else -1]
        run = {"load": os.getloadavg()[0], **{name: run_once(build, made, pcaps[name]) for name in names}}
        say(f"uneven: round {number + 1}: " + "; ".join(
                f"{name}: {' and '.join(f'{mpps:.2f}' for mpps in run[name]['mpps'])} Mpps, {run[name]['lost']:.2f} lost"
            for name in SHARES))
        runs.append(run)
    say("uneven: median of the sums: " + ", ".join(
        f"{name} {statistics.median(sum(run[name]['mpps']) for run in runs):.2f} Mpps" for name in SHARES))
    return {"runs": runs, "shares": SHARES}
