"""What the smoke tests share: a folder of their own, the programs, the reference, checks that say what they compare.

WEIR_BUILD names the build folder (default build/). Test data is looked for in WEIR_DATA, then in ../shared/data beside
the project. A test that cannot run here exits with 77 and the reason.
"""

import contextlib
import faulthandler
import fcntl
import json
import lzma
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "rig"))
import rooms  # noqa: E402,F401
import evidence  # noqa: E402
from capture import (Capture, CaptureError, by_flow, flow_addresses, read_capture, sort_out, split,  # noqa: E402,F401
                     write_capture)  # for the tests
from log_lines import events, parse_event  # noqa: E402,F401
from namespaces import NoNamespace, own_world  # noqa: E402
from samples import make_samples  # noqa: E402,F401
from session import SLOW_SECONDS, Memory, Session, SessionError, is_slow, pause  # noqa: E402,F401
from wire import WIRE_HEADER, WIRE_MAGIC, WIRE_STATS, WIRE_VERSION, question  # noqa: E402

Session.seccomp = "kill"
BUILD = os.environ.get("WEIR_BUILD", os.path.join(ROOT, "build"))
SKIPPED = 77
NAME = os.path.splitext(os.path.basename(sys.argv[0]))[0]
evidence.begin(NAME, os.environ.get("WEIR_EVIDENCE", os.path.join(BUILD, "evidence")), f"scripts/test --test {NAME}",
               float(os.environ["WEIR_TEST_SECONDS"]) if "WEIR_TEST_SECONDS" in os.environ else None)
faulthandler.register(signal.SIGTERM, chain=True)  # a test whose time is over says where it is


def take_processor():
    """Workers of this test begin with a processor that no test beside it has begun with. The lock lasts as long as this
    process."""
    for number in range(os.cpu_count()):
        try:
            lock = open(os.path.join(BUILD, f".smoke-processor-{number}"), "w", encoding="ascii")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        os.environ["WEIR_FIRST_PROCESSOR"] = str(number)
        return lock
    return None


PROCESSOR = take_processor()
with contextlib.suppress(NoNamespace):  # without root: on the machine's loopback
    own_world()


def skip(reason):
    """reason: its first word is a kind of docs/develop/testing.md, as in "root: interfaces need it"."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


@contextlib.contextmanager
def skips_without_namespaces():
    try:
        yield
    except NoNamespace as reason:
        skip(reason)


def check(condition, what):
    if not condition:
        evidence.add(f"FAILED: {what}")
        sys.exit(f"FAILED: {what}")


def equal(found, expected, what):
    check(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def data_folder(name):
    """A folder of the test data; skips the test when it is not there."""
    path = os.path.join(os.environ.get("WEIR_DATA", os.path.join(ROOT, "..", "shared", "data")), name)
    if not os.path.isdir(path):
        skip(f"data: no {path}: WEIR_DATA names its folder")
    return path


def data_file(folder, name):
    """Path of a file of the test data, unpacked into folder; skips the test when it is not there."""
    source = os.path.join(data_folder(os.path.dirname(name)), os.path.basename(name))
    if not os.path.exists(source):
        skip(f"data: no {source}")
    target = os.path.join(folder, os.path.basename(name).removesuffix(".xz"))
    with lzma.open(source) as packed, open(target, "wb") as file:
        file.write(packed.read())
    return target


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def run(*command, expect=0):
    """Runs a program of the project; the test fails on another exit code than expected. Returns what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    check(done.returncode == expect,
          f"{' '.join(command)} ended with {done.returncode}, expected {expect}:\n{done.stdout}")
    return done.stdout


def replay(*arguments, expect=0):
    return run(os.path.join(ROOT, "scripts/replay"), "--build", BUILD, *arguments, expect=expect)


def outputs(folder, name):
    """(--passed, --dropped, --json) below folder."""
    return tuple(os.path.join(folder, f"{name}-{part}") for part in ("passed.pcap", "dropped.pcap", "totals.json"))


def as_options(paths):
    return ["--passed", paths[0], "--dropped", paths[1], "--json", paths[2]]


def reference(config, pcap, paths):
    """What the reference classifier says about a capture."""
    run(os.path.join(BUILD, "tests/reference/reference-capture"), "--config", config, "--pcap", pcap,
        *as_options(paths))
    return load(paths[2])


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def agrees_with_reference(folder, config, pcap):
    """replay --once and the reference: the same totals, the same frames, byte by byte. Returns the totals."""
    ours, theirs = outputs(folder, "replay"), outputs(folder, "reference")
    expected = reference(config, pcap, theirs)
    replay("--once", "--config", config, "--pcap", pcap, *as_options(ours))
    found = load(ours[2])
    for key, value in expected.items():
        equal(found[key], value, f"{os.path.basename(config)}: {key}")
    for mine, its in zip(ours[:2], theirs[:2]):
        check(read(mine) == read(its), f"{os.path.basename(config)}: {mine} is not {its}, byte by byte")
    return found


@contextlib.contextmanager
def temporary_folder():
    with tempfile.TemporaryDirectory(prefix="weir-smoke-") as folder:
        yield folder


LOOP = "forward: hairpin\nports: [{{port: 0, queues: {queues}}}]"


def start_loop(session, capture, workers=1, config="", **options):
    """A data plane that loops a capture, one queue per worker. Starts polling with its first snapshot. config: more
    lines of dataplane.yaml."""
    parts = split(capture, workers)
    for number, part in enumerate(parts):
        check(part.frames, f"queue {number} would be empty")
        write_capture(session.path(f"in{number}.pcap"), part)
    files = ",".join(f"rx_pcap=in{number}.pcap" for number in range(workers))
    session.start_dataplane(LOOP.format(queues=workers) + "\n" + config, [f"net_pcap0,{files},infinite_rx=1"], workers,
                            Memory(len(capture.frames) + 2048 * workers, capture.longest()), **options)


def controlctl(session, *arguments, expect=0):
    """Runs controlctl --json on the session; its answer. The test fails on another exit code than expected."""
    code, out, err = session.controlctl(*arguments, "--json")
    equal(code, expect, f"controlctl {' '.join(arguments)} exit code\n{out}{err}")
    return json.loads(out)


def order_bypass(session, state, when, *options):
    """(what controlctl --json answers to a bypass, standard error). The order is given again while a disk or a program takes
    longer to confirm it than controlctl waits: on a machine that does much else."""
    deadline = time.monotonic() + SLOW_SECONDS
    while True:
        code, out, err = session.controlctl("bypass", state, "--json", *options)
        answer = json.loads(out)
        if code == 0 or not is_slow(answer) or time.monotonic() > deadline:
            equal((code, answer["ok"], answer["bypass"]), (0, True, state == "on"), f"{when}: bypass {state}: {out}{err}")
            return answer, err


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
    equal((magic, version, kind, length), (WIRE_MAGIC, WIRE_VERSION, WIRE_STATS, len(answer) - WIRE_HEADER.size),
          "header of the data plane's answer")
    _, number, _, packets, _, passed, dropped = struct.unpack_from("<QQQQQQQ", answer, WIRE_HEADER.size)
    return number, packets, passed, dropped


def wait_for_traffic(session, packets=10000):
    """Until the data plane, asked itself, has taken so many more packets. By how much (packets, dropped) grew."""
    _, first, _, first_dropped = ask_dataplane(session)
    session.wait("traffic", lambda: ask_dataplane(session)[1] >= first + packets)
    _, last, _, last_dropped = ask_dataplane(session)
    return last - first, last_dropped - first_dropped
