"""Smoke tests share this: the programs, the reference, test data, reasons to skip.

WEIR_BUILD names the build folder (default build/). Test data is looked for in WEIR_DATA, then in ../shared/data beside
the project. conftest.py has the fixtures.
"""

import contextlib
import json
import lzma
import os
import shutil
import socket
import struct

import pytest

from capture import (Capture, CaptureError, by_flow, flow_addresses, read_capture, sort_out, split,  # noqa: F401
                     write_capture)  # for the tests
from fault_rig import HELD
from log_lines import events, parse_event  # noqa: F401
from namespaces import NoNamespace
from programs import (BUILD, agrees_with_reference, as_options, load, outputs, read, reference, replay, run,  # noqa: F401
                      temporary_folder, write)
from rig import Skip
from samples import make_samples  # noqa: F401
from session import ROOT, SLOW_SECONDS, Memory, Session, SessionError, is_slow, pause  # noqa: F401
from until import until
from wire import WIRE_HEADER, WIRE_MAGIC, WIRE_STATS, WIRE_VERSION, question

Session.seccomp = "kill"


def needs_root(what):
    """A mark. what: "interfaces need it", say."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"root: {what}")


def needs_programs(*names):
    """A mark: programs of packages that `scripts/setup test` installs."""
    missing = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"package: no {', '.join(missing)}: scripts/setup test installs it")


def data_folder(name):
    """A folder of the test data; skips the test when it is not there."""
    path = os.path.join(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")), name)
    if not os.path.isdir(path):
        pytest.skip(f"data: no {path}: WEIR_DATA names its folder")
    return path


def data_file(folder, name):
    """Path of a file of the test data, unpacked into folder; skips the test when it is not there."""
    source = os.path.join(data_folder(os.path.dirname(name)), os.path.basename(name))
    if not os.path.exists(source):
        pytest.skip(f"data: no {source}")
    target = os.path.join(folder, os.path.basename(name).removesuffix(".xz"))
    with lzma.open(source) as packed, open(target, "wb") as file:
        file.write(packed.read())
    return target


LOOP = "forward: hairpin\nports: [{{port: 0, queues: {queues}}}]"


def start_loop(session, capture, workers=1, config="", **options):
    """A data plane that loops a capture, one queue per worker. Starts polling with its first snapshot. config: more
    lines of dataplane.yaml."""
    parts = split(capture, workers)
    for number, part in enumerate(parts):
        assert part.frames, f"queue {number} would be empty"
        write_capture(session.path(f"in{number}.pcap"), part)
    files = ",".join(f"rx_pcap=in{number}.pcap" for number in range(workers))
    session.start_dataplane(LOOP.format(queues=workers) + "\n" + config, [f"net_pcap0,{files},infinite_rx=1"], workers,
                            Memory(len(capture.frames) + 2048 * workers, capture.longest()), **options)


def launch_controld(session, policy):
    """Does not wait until it has compiled the policy."""
    session.controld = session._start("controld", [  # pylint: disable=protected-access
        os.path.join(BUILD, "control/controld"), "--config", policy, "--socket", session.path("controld.sock"), "--state-dir",
        session.state_path("controld"), "--seccomp", session.seccomp, "--metrics", "off", "--target", session.path("dataplane.sock")])


@contextlib.contextmanager
def held_at(session, switch, call, kind, begin):
    """controld stays in its first such call of the work that begin() begins, until this is over. Gives the result of begin()."""
    switch.arm(call, HELD, kinds=(kind,))
    begun = begin()
    session.wait(f"controld to be held: {call} of a {kind}", lambda: switch.counts(call)[1] > 0)
    try:
        yield begun
    finally:
        switch.disarm()


def start_xdp(session, **options):
    """controld with weir.yaml, whose target is XDP on an interface of the fixture `veth`."""
    session.start_controld(session.path("weir.yaml"), targets=False, extra=["--bpf-dir", session.path("bpf")], **options)
    session.wait_enforced()


STATUS_WRONG = 6  # the exit code of `status` while something is wrong


def controlctl(session, *arguments, expect=0):
    """Runs controlctl --json on the session; its answer. The test fails on another exit code than expected. `status` may tell by
    its code that something is wrong."""
    code, out, err = session.controlctl(*arguments, "--json")
    if arguments[0] == "status" and code == STATUS_WRONG:
        return json.loads(out)
    assert code == expect, f"controlctl {' '.join(arguments)} exit code\n{out}{err}"
    return json.loads(out)


def order_bypass(session, state, when, *options):
    """(what controlctl --json answers to a bypass, standard error). The order is given again while a disk or a program takes
    longer to confirm it than controlctl waits: on a machine that does much else."""
    def final():
        code, out, err = session.controlctl("bypass", state, "--json", *options)
        answer = json.loads(out)
        return (code, answer, err) if code == 0 or not is_slow(answer) else None

    code, answer, err = until(f"bypass {state} to be confirmed", final, SLOW_SECONDS)
    assert (code, answer["ok"], answer["bypass"]) == (0, True, state == "on"), f"{when}: bypass {state}: {answer}{err}"
    return answer, err


def counts_as_reference(stats, expected):
    """stats: of a session. expected: of reference()."""
    assert {key: stats[key] for key in expected if key != "lists"} == {key: expected[key] for key in expected if key != "lists"}, "totals"
    for name, numbers in expected["lists"].items():
        assert {key: stats["lists"][name][key] for key in numbers} == numbers, f"counters of list {name}"


def moved(session, packets=20000):
    """By how much every total and every list counter grew over some traffic: (totals, lists)."""
    before = session.stats()
    session.wait("traffic", lambda: session.stats()["packets"] >= before["packets"] + packets)
    after = session.stats()
    totals = {key: after[key] - value for key, value in before.items() if isinstance(value, int)}
    lists = {name: {key: value - before["lists"].get(name, {}).get(key, 0) for key, value in numbers.items()}
             for name, numbers in after["lists"].items()}
    return totals, lists


def ask_dataplane(session):
    """(generation number, packets, passed, dropped) straight from the data plane, controld or not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        connection.connect(session.path("dataplane.sock"))
        connection.send(question(WIRE_STATS))
        answer = connection.recv(1 << 17)
    magic, version, kind, length, _ = WIRE_HEADER.unpack_from(answer)
    assert (magic, version, kind, length) == (WIRE_MAGIC, WIRE_VERSION, WIRE_STATS, len(answer) - WIRE_HEADER.size), (
        "header of the data plane's answer")
    _, number, _, packets, _, passed, dropped = struct.unpack_from("<QQQQQQQ", answer, WIRE_HEADER.size)
    return number, packets, passed, dropped


def wait_for_traffic(session, packets=10000):
    """Until the data plane, asked itself, has taken so many more packets. By how much (packets, dropped) grew."""
    _, first, _, first_dropped = ask_dataplane(session)
    session.wait("traffic", lambda: ask_dataplane(session)[1] >= first + packets)
    _, last, _, last_dropped = ask_dataplane(session)
    return last - first, last_dropped - first_dropped
