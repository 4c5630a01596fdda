"""weir with sample lists and a capture that loops, to look at the page of controld with. Standard library only."""

import os

from capture import read_capture, write_capture
from samples import POLICY, make_samples
from session import Memory, SessionError

COMMENTS = {
    "partners": "never blocked: ticket 4711",
    "scanners": "seen at our own sensors",
    "abuse": "reported by others",
    "c2": "command and control servers",
    "watch": "on trial until December",
}


def sample_policy(more=""):
    """The policy of the samples, with comments, and more lines of lists."""
    policy = POLICY.format(name="scanners")
    for name, comment in COMMENTS.items():
        policy = policy.replace(f"  - name: {name}\n", f"  - name: {name}\n    comment: \"{comment}\"\n")
    return policy + more


def many_lists(number):
    """Lines of so many more lists: names of up to 63 letters, all actions, a few of what the capture holds."""
    lines = []
    for n in range(number):
        name = (f"list-{n:03}-" + "of-a-provider-with-a-long-name-and-more-of-it-behind-that-name")[:(12, 40, 63)[n % 3]]
        what = "action: pass" if n % 9 == 4 else "action: drop, mode: monitor" if n % 5 == 2 else "action: drop"
        first = 128 + n % 64
        lines.append(f"  - {{name: {name}, {what}, entries: [198.19.{first}.0/28, 10.{n}.0.0/16]}}\n")
    return "".join(lines)


ONE_LIST = "version: 1\nlists:\n  - {name: scanners, action: drop, file: feeds/scanners.txt}\n"


def start(session, policy=sample_policy(), flows=2000, frames=8000):
    """The programs, under traffic. The page's address, which ends with a slash."""
    make_samples(session.folder, flows=flows, frames=frames)
    with open(session.path("weir.yaml"), "w", encoding="utf-8") as file:
        file.write(policy)
    capture = read_capture(session.path("capture.pcap"))
    write_capture(session.path("loop.pcap"), capture)
    session.start_dataplane("forward: hairpin\nports: [{port: 0, queues: 1}]", ["net_pcap0,rx_pcap=loop.pcap,infinite_rx=1"],
                            memory=Memory(len(capture.frames) + 2048, capture.longest()))
    return start_controld(session)


def start_controld(session):
    session.start_controld(session.path("weir.yaml"), metrics="127.0.0.1:0")
    session.wait_enforced()
    place = session.call("status")["metrics"]
    if not place["address"]:
        raise SessionError(f"controld serves no page: {place['error']}")
    return f"http://{place['address']}/"


def spoil_feed(session):
    """The feed of the list scanners is cut to a tenth: its guard refuses it."""
    path = session.path("feeds/scanners.txt")
    with open(path, encoding="ascii") as file:
        lines = file.readlines()
    with open(path + ".new", "w", encoding="ascii") as file:
        file.writelines(lines[:len(lines) // 10])
    os.replace(path + ".new", path)
