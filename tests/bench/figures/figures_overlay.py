"""What an overlay costs a packet that a gate lets through: the same data plane and traffic, with an overlay and without, in turns.
docs/develop/figures.md says how it is measured."""

import os
import statistics
import time

from added_cycles import process_seconds
from capture import Capture, write_capture
from figure import reported
from figures_control import STEP, write, write_hosts
from probes import frame_from
from ratio import PORT, SPARE_MBUFS
from rig import PlacedSession, core_clock, say, spread
from session import Memory, SessionError

ENTRIES, OVERLAID = 1_000_000, 1000
FRAMES, LONGEST = 8192, 2048
ROUNDS, SECONDS = 5, 2


def ask(session, command, **fields):
    answer = session.call(command, **fields)
    if not answer.get("ok"):
        raise SessionError(f"{command} failed: {answer}")


def nanoseconds(session):
    """Processor time a packet."""
    packets, begin = session.stats()["packets"], process_seconds(session.dataplane.pid)
    time.sleep(SECONDS)
    return (process_seconds(session.dataplane.pid) - begin) * 1e9 / (session.stats()["packets"] - packets)


def overlay_cost(build, folder):
    say(f"moves: packets of {ENTRIES} listed hosts, without an overlay and beside one of {OVERLAID} keys")
    feed, pcap = os.path.join(folder, "survivors.txt"), os.path.join(folder, "survivors.pcap")
    write_hosts(feed, ENTRIES)
    frames = [frame_from(at * (ENTRIES // FRAMES) * STEP % 2**32) for at in range(FRAMES)]
    write_capture(pcap, Capture(frames=frames, headers=[(0, 0, len(frame)) for frame in frames]))
    ghz = core_clock(build)["ghz"]
    with PlacedSession(build) as session:
        write(session.path("policy.yaml"), "version: 1\nlists:\n"
              f"  - {{name: hosts, action: drop, file: {feed}, guard: {{reserved: keep}}}}\n"
              "  - {name: bans, action: drop, dynamic: true}\n")
        session.start_dataplane("forward: sink\nports: [{port: 0}]", [PORT.format(pcap=pcap)], 1,
                                Memory(FRAMES + SPARE_MBUFS, LONGEST))
        session.start_controld(session.path("policy.yaml"))
        session.wait_enforced()
        turns = []
        for _ in range(ROUNDS):
            alone = nanoseconds(session)
            ask(session, "add", name="bans", entries=[f"198.18.{i // 250}.{i % 250}" for i in range(OVERLAID)])
            turns.append((alone, nanoseconds(session)))
            ask(session, "flush", name="bans")
            ask(session, "reload")  # a new base, without an overlay
    extra = [(beside - alone) * ghz for alone, beside in turns]
    note = (f"{spread(extra, 1)}; every packet is listed: {statistics.median(alone for alone, _ in turns) * ghz:.0f} cycles without an "
            f"overlay, net_pcap's copying included; {ghz:.2f} GHz")
    return [reported("moves.overlay_cost_cycles", statistics.median(extra), "cycles", note)], turns


MEASUREMENTS = ((("moves.overlay_cost_cycles",), overlay_cost),)
