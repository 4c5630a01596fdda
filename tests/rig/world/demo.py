"""What scripts/demo shows once everything is installed. Standard library only."""

import argparse
import ipaddress
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from capture import read_capture, write_capture
from pace import hold
from samples import make_samples
from session import Memory, ROOT, Session, SessionError, ensure_built, fail

GEOIP = ("/usr/share/tor/geoip", "/usr/share/tor/geoip6")  # Debian's tor-geoipdb
COUNTRY = "CH"  # both families, a few thousand ranges


def title(text):
    print(f"\n== {text}", flush=True)


def shown(session, *arguments):
    """Runs controlctl before the reader's eyes; ends the demo when it fails."""
    print(f"\n$ controlctl {' '.join(arguments)}", flush=True)
    code, out, err = session.controlctl(*arguments)
    print((out + err).rstrip(), flush=True)
    if code != 0:
        raise SessionError(f"controlctl {arguments[0]} ended with {code}")


def rates(session, frames, *lists):
    """A second of traffic, and at least one loop of the capture: what passes and drops, and by which of these lists."""
    before, began = session.stats(), time.monotonic()
    hold(1)
    session.wait("traffic", lambda: session.stats()["packets"] >= before["packets"] + frames)
    after, seconds = session.stats(), time.monotonic() - began

    def per_second(key, new, old):
        return f"{(new[key] - old.get(key, 0)) / seconds:,.0f} packets/s"

    print(f"   passed {per_second('passed', after, before)}, dropped {per_second('dropped', after, before)}")
    for name in lists:
        new, old = after["lists"].get(name, {"dropped": 0}), before["lists"].get(name, {})
        print(f"   list {name}: drops {per_second('dropped', new, old)}")
    sys.stdout.flush()


def country_feed(path):
    """The ranges of one country, as a plain feed."""
    with open(path, "w", encoding="ascii") as feed:
        for source in GEOIP:
            with open(source, encoding="ascii", errors="replace") as file:
                for line in file:
                    if not line.rstrip().endswith("," + COUNTRY):
                        continue
                    first, last, _ = line.rstrip().split(",")
                    if first.isdigit():
                        first, last = ipaddress.IPv4Address(int(first)), ipaddress.IPv4Address(int(last))
                    feed.write(f"{first}-{last}\n")
                    example = first
    return str(example)


def show_country(session):
    if not all(map(os.path.exists, GEOIP)):
        print("\n(With Debian's tor-geoipdb installed, a real list would follow: every address of a country.)")
        return
    title(f"A real list: every address range of {COUNTRY}, from Debian's tor-geoipdb")
    example = country_feed(session.path("feeds/country.txt"))
    with open(session.path("weir.yaml"), "a", encoding="ascii") as policy:
        policy.write("  - {name: country, action: drop, file: feeds/country.txt}\n")
    shown(session, "reload")
    shown(session, "explain", example)


def demo(session):
    title("Samples: a capture, two policies and their feeds, all synthetic")
    make_samples(session.folder)
    capture = read_capture(session.path("capture.pcap"))
    frames = len(capture.frames)
    print(f"{frames} frames of 4000 flows; the policy:\n")
    with open(session.path("weir.yaml"), encoding="ascii") as policy:
        print(policy.read().rstrip())

    title("Every frame once: scripts/replay --once")
    sys.stdout.flush()
    done = subprocess.run([os.path.join(ROOT, "scripts/replay"), "--build", session.build, "--once", "--config",
                           session.path("weir.yaml"), "--pcap", session.path("capture.pcap")])
    if done.returncode != 0:
        raise SessionError(f"scripts/replay ended with {done.returncode}")

    title("The capture in a loop: dataplane on one core, controld beside it")
    write_capture(session.path("loop.pcap"), capture)
    session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]",
                            ["net_pcap0,rx_pcap=loop.pcap,infinite_rx=1"],
                            memory=Memory(frames + 2048, capture.longest()), quiet=False)
    session.start_controld(session.path("weir.yaml"))
    session.wait_enforced()
    rates(session, frames, "scanners", "abuse", "c2")
    shown(session, "status")
    shown(session, "stats")
    with open(session.path("feeds/scanners.txt"), encoding="ascii") as feed:
        scanner = next(line.split()[0] for line in feed if line.startswith("198.19."))
    shown(session, "explain", scanner)

    title("Reload in mid-traffic: the list botnet takes the place of scanners")
    rates(session, frames, "scanners", "botnet")
    shutil.copy(session.path("weir-second.yaml"), session.path("weir.yaml"))
    shown(session, "reload")
    rates(session, frames, "scanners", "botnet")

    show_country(session)

    title("The panic switch: everything passes, at once, until it is turned off")
    shown(session, "bypass", "on")
    session.wait("the next burst", lambda: session.stats()["bypassed"] > 0)  # those under way are still judged
    rates(session, frames)
    shown(session, "bypass", "off")
    rates(session, frames)

    title("The end")
    last = session.stats()
    print(f"{last['packets']} packets, {last['rx_missed'] + last['tx_lost']} lost")
    codes = session.stop("controld"), session.stop("dataplane")
    if any(codes):
        raise SessionError(f"controld ended with {codes[0]}, the data plane with {codes[1]}")
    print("Both programs ended cleanly. Next: docs/operate/install.md, on ports of your own.")


def main():
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR", help="default: build/")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        ensure_built(arguments.build, goals=["product"])  # so that `meson install --no-rebuild` can follow
        with Session(arguments.build) as session:
            demo(session)
    except SessionError as error:
        fail("demo", error, 1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
