"""Fixtures of smoke tests, and what a failed one leaves. weir_smoke.py has the rest of what they share."""

import contextlib
import faulthandler
import fcntl
import os
import signal
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, os.path.join(ROOT, "tests", "rig"))
pytest.register_assert_rewrite("weir_smoke", "wires", "steer_rig")
import rooms  # noqa: E402,F401
import evidence  # noqa: E402
import wires  # noqa: E402
from fault_rig import Switch  # noqa: E402
from namespaces import own_network, own_world  # noqa: E402
from weir_smoke import BUILD, Session, temporary_folder  # noqa: E402

# A shell lets its background ignore these signals, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

FAILED = pytest.StashKey[bool]()
FIXTURES_SECONDS = 90  # that fixtures may take beyond a test's limit, all together


def pytest_addoption(parser):
    parser.addoption("--slower", type=float, default=1, metavar="N", help="a test may take N times as long")


def pytest_collection_modifyitems(config, items):
    slower, usual = config.getoption("slower"), float(config.getini("timeout"))
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = (mark.args[0] if mark else usual) * slower
        item.add_marker(pytest.mark.timeout(seconds, func_only=True), append=False)  # within its process
    items.sort(key=lambda item: -item.get_closest_marker("timeout").args[0])  # the long ones begin


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    is_failure = call.excinfo is not None and evidence.is_failure(call.excinfo.type)
    if is_failure and evidence.place is not None and not item.stash.get(FAILED, False):
        item.stash[FAILED] = True
        evidence.add(f"FAILED: {call.excinfo.exconly()}")
        item.user_properties += [("evidence", evidence.place), ("again", f"scripts/test --test {name_of(item)}")]
    report = (yield).get_result()
    if is_failure:
        report.sections.append(("evidence", evidence.told() + "".join(f"\n{key}: {value}" for key, value in item.user_properties)))
    if call.when == "teardown" and item.stash.get(FAILED, False):
        evidence.write_timeline()


def name_of(item):
    """As `scripts/test --test` takes it: bypass::orders[on]."""
    file = os.path.splitext(os.path.basename(item.path))[0]
    return f"{file.removeprefix('test_')}::{item.name.removeprefix('test_')}"


def take_processor():
    """Workers of this test begin with a processor that no test beside it has begun with. The lock lasts as long as this
    process."""
    for number in range(os.cpu_count()):
        with contextlib.suppress(OSError):
            lock = open(os.path.join(BUILD, f".smoke-processor-{number}"), "w", encoding="ascii")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.environ["WEIR_FIRST_PROCESSOR"] = str(number)
            return lock
    return None


@pytest.fixture(autouse=True)
def world(request):
    """Namespaces of its own, as far as this machine has them, and a timeline. Both end with the test's process."""
    name = name_of(request.node)
    evidence.begin(name.replace("::", ".").replace("/", "-"), os.environ.get("WEIR_EVIDENCE", os.path.join(BUILD, "evidence")))
    limit = request.node.get_closest_marker("timeout").args[0] + FIXTURES_SECONDS * request.config.getoption("slower")
    faulthandler.dump_traceback_later(limit, exit=True)
    processor = take_processor()
    if os.geteuid() == 0:  # else on the machine's loopback
        own_world()
    yield
    del processor


@pytest.fixture
def quiet_network():
    """A network where the kernel sends nothing of its own: no IPv6, no interface but those that the test makes."""
    own_network()


@pytest.fixture
def folder():
    """A folder of its own, with a short path: sockets lie there."""
    with temporary_folder() as path:
        yield path


@pytest.fixture
def keeps(request):
    """keeps(one, ...): of what a fixture made, one.keep() is called when the test has failed."""
    return lambda *made: [one.keep() for one in made if request.node.stash.get(FAILED, False)]


@pytest.fixture
def session(keeps):
    """A Session that ends with the test. It is kept as evidence when the test fails."""
    with Session(BUILD) as one:
        yield one
        keeps(one)


@pytest.fixture
def veth(session):
    """Wires of both ends of a pair: out0, and in0, which XDP filters. session.path("bpf") is a BPF file system. Needs root."""
    wires.own_network()
    wires.ip("link", "set", "lo", "up")
    with wires.own_bpf_file_system(session.path("bpf")):
        wires.make_veth("out0", "in0")
        subprocess.run(["ethtool", "-K", "out0", "txvlan", "off"], capture_output=True, check=False)
        near, far = wires.Wire("out0"), wires.Wire("in0")
        wires.wait_until_joined(near, far)
        yield near, far


@pytest.fixture
def clock(session):
    """The clock of what the session starts from now on: clock.pass_time(seconds)."""
    switch = Switch(session.path("clock"))
    session.environment.update(switch.environment(BUILD))
    return switch
