"""How often filters let keys through that no list has, as controld reports it: docs/operate/false-positives.md."""

import os
import threading

import pytest

from weir_smoke import controlctl, events, moved, needs_root, read_capture, start_loop, start_xdp, write
from rack_metrics import fetch, samples_of
from strangers import POLICY, SHAPES, make_strangers, outside, rates_of, write_lists
from until import until

pytestmark = pytest.mark.timeout(300)

ALARM = "false positives are not what is predicted: `controlctl rebuild` draws another secret"


class Dataplane:
    """Replays a capture again and again."""

    policy, options = "policy: {default: pass}", ()
    frames, attack_frames = 2000, 1000  # of each shape
    attack_keys = range(500, 1001)
    moved_after_rebuild, sampled_after_rebuild = 120_000, 300

    def __init__(self, session):
        self.session = session

    def start_controld(self):
        self.session.start_controld(self.session.path("weir.yaml"), metrics="127.0.0.1:0")
        assert controlctl(self.session, "status")["false_positives"] == [], "rates without a target"

    def send(self, path):
        start_loop(self.session, read_capture(path))
        self.session.wait_enforced()

    def stop(self):
        if self.session.dataplane:
            self.session.stop("dataplane")


class Xdp:
    """XDP on a veth pair, which a thread sends a capture into, again and again."""

    policy, options = "targets: [{xdp: {interfaces: [in0]}}]", ("--xdp", "--anywhere")
    frames, attack_frames = 4000, 100
    attack_keys = range(100, 101)
    moved_after_rebuild = 50_000
    sampled_after_rebuild = 0  # the new snapshot has other gates: they let few keys of the attack reach a filter

    def __init__(self, session, wire):
        self.session, self.wire = session, wire
        self.is_over, self.thread = threading.Event(), None

    def start_controld(self):
        start_xdp(self.session, metrics="127.0.0.1:0")

    def send(self, path):
        self.is_over.clear()
        self.thread = threading.Thread(target=self.run, args=(read_capture(path).frames,), daemon=True)
        self.thread.start()

    def run(self, frames):
        while not self.is_over.is_set():
            for frame in frames:
                self.wire.send(frame)

    def stop(self):
        if self.thread:
            self.is_over.set()
            self.thread.join()


@pytest.fixture
def plane(request, session):
    """Traffic through one plane, and controld with three shapes of entries."""
    made = Dataplane(session) if request.param == "dataplane" else Xdp(session, request.getfixturevalue("veth")[0])
    write_lists(session.folder)
    write(session.folder, "weir.yaml", POLICY.format(more=made.policy))
    made.start_controld()
    yield made
    made.stop()


both_planes = pytest.mark.parametrize("plane", ["dataplane", pytest.param("xdp", marks=needs_root("interfaces need it"))], indirect=True)


def strangers(session, frames, name, *options, seed=1):
    """A capture of keys that no list has: (path, {shape: counts})."""
    base = os.path.join(session.state_path("controld"), "snapshot.weir")
    told = make_strangers(session.build, base, session.path(name), frames, *options, seed=seed)
    assert set(told) == SHAPES, "shapes of the policy"
    return session.path(name), told


def status(session):
    return controlctl(session, "status")


def rates(session):
    return rates_of(status(session))


def wait_for_newer(session, before):
    session.wait("newer counters", lambda: set(now := rates(session)) == SHAPES and all(
        now[shape]["asked"] > before[shape]["asked"] for shape in SHAPES))


def rates_of_all(session):
    """The rates of every shape. While a target is reached again, none has a rate for a moment."""
    return until("rates of every shape", lambda: now if set(now := rates(session)) == SHAPES else None)


def is_shown(session, expected):
    """Whether status, shapes, metrics and the page show false positives that are not predicted."""
    code, out, _ = session.controlctl("status")
    assert (code, "FALSE POSITIVES" in out) == (0, expected), f"status: {out}"
    code, out, _ = session.controlctl("shapes")
    assert (code, "OUTSIDE: above" in out) == (0, expected), f"shapes: {out}"
    address = status(session)["metrics"]["address"]
    values = [value for name, _, value in samples_of(fetch(address)) if name == "weir_filter_false_positives_outside"]
    assert (len(values), any(values)) == (len(SHAPES), expected), "metrics"
    assert ("keys of nobody through" in fetch(address, "/")) == expected, "the page"


def strangers_are_inside(session, plane):
    plane.send(strangers(session, plane.frames, "strangers.pcap", *plane.options)[0])
    session.wait("keys of every shape", lambda: set(now := rates(session)) == SHAPES and all(rate["keys"] >= 100 for rate in now.values()))
    before = rates_of_all(session)
    wait_for_newer(session, before)
    for shape, rate in rates_of_all(session).items():
        assert rate["asked"] > rate["let_through"] >= rate["found"] == 0, f"{shape}: {rate}"
        assert rate["low"] <= rate["predicted"] * 3, f"{shape}: {rate}"
        assert before[shape]["keys_let_through"] <= rate["let_through"], f"{shape}: {before[shape]}, then {rate}"
    assert outside(status(session)) == [], f"outside with strangers: {rates(session)}"
    is_shown(session, False)
    assert events(session.log("controld"), ALARM) == [], "alarms of strangers"


def an_overlay_keeps_the_counts_of_its_base(session):
    before = rates(session)
    assert controlctl(session, "add", "198.18.0.1", "2001:2::", "--list", "now")["ok"], "add"
    session.wait("rates of the overlay", lambda: rates_of(status(session), overlay=True))
    now = rates(session)
    for shape in SHAPES:
        assert now[shape]["asked"] >= before[shape]["asked"], f"{shape}: counts of the base went back with an overlay"
        assert now[shape]["keys"] >= before[shape]["keys"], f"{shape}: keys of the base went back with an overlay"
    assert controlctl(session, "flush", "now")["ok"], "flush"


def an_attack_raises_the_alarm(session, plane):
    """The attacker has read the snapshot: the filters let all of his keys through."""
    plane.stop()
    path, told = strangers(session, plane.attack_frames, "attack.pcap", *plane.options, "--let-through", seed=2)
    for shape, counts in told.items():
        assert counts["keys"] == counts["let_through"] and counts["keys"] in plane.attack_keys, f"{shape}: keys of the attack: {counts}"
    plane.send(path)
    session.wait("the alarm of every shape", lambda: len(outside(status(session))) == len(SHAPES))
    assert all(verdict == "above" for _, _, verdict in outside(status(session))), f"verdicts: {outside(status(session))}"
    is_shown(session, True)
    assert len(events(session.log("controld"), ALARM)) == len(SHAPES), "alarms in the log, one for each shape"


def a_rebuild_ends_the_alarm(session, plane):
    """The packets of the attack go on."""
    before = status(session)
    answer = controlctl(session, "rebuild")
    assert answer["ok"] and answer["generation"]["number"] > before["generation"]["number"], f"rebuild: {answer}"
    assert (answer["cause"], answer["entries"], answer["changes"]) == ("rebuild", before["entries"], []), "changes of a rebuild"
    moved(session, plane.moved_after_rebuild)
    session.wait("rates of the new snapshot", lambda: set(rates(session)) == SHAPES)
    session.wait("keys of the attack in the sample", lambda: all(rate["keys"] >= plane.sampled_after_rebuild
                                                                  for rate in rates(session).values()))
    assert outside(status(session)) == [], f"outside after the rebuild: {rates(session)}"
    is_shown(session, False)
    with open(session.path("hosts.txt"), encoding="utf-8") as hosts:
        assert controlctl(session, "explain", hosts.readline().strip())["origins"], "origins of an entry after the rebuild"


@both_planes
def test_an_attack_raises_an_alarm_that_a_rebuild_ends(session, plane):
    strangers_are_inside(session, plane)
    an_overlay_keeps_the_counts_of_its_base(session)
    assert outside(status(session)) == [], f"outside after an overlay: {rates(session)}"
    an_attack_raises_the_alarm(session, plane)
    a_rebuild_ends_the_alarm(session, plane)


@pytest.mark.parametrize("plane", ["dataplane"], indirect=True)
def test_rates_are_those_of_the_looped_capture(session, plane):
    path, told = strangers(session, plane.frames, "strangers.pcap")
    plane.send(path)
    session.wait("rates of every shape", lambda: set(rates(session)) == SHAPES)
    before = rates_of_all(session)
    moved(session, 400_000)
    wait_for_newer(session, before)
    after = rates_of_all(session)
    for shape, rate in after.items():
        asked = rate["asked"] - before[shape]["asked"]
        let_through = rate["let_through"] - before[shape]["let_through"]
        assert rate["found"] == 0, f"{shape}: strangers that are on a list"
        truth = told[shape]["let_through"] / told[shape]["keys"]
        assert asked > 20_000, f"{shape}: only {asked} keys were asked for"
        assert abs(let_through / asked - truth) < 0.02 * truth + 2e-4, (
            f"{shape}: {let_through} of {asked} keys were let through; of the capture's {told[shape]}")
        assert rate["low"] <= rate["rate"] <= rate["high"], f"{shape}: {rate}"
        assert rate["verdict"] == "inside", f"{shape}: {rate}"

    def all_sampled():
        now = rates(session)  # of no shape while the target is reached again
        return all(shape in now and now[shape]["keys"] >= 0.9 * told[shape]["keys"] for shape in SHAPES)
    session.wait("most keys to be in the sample", all_sampled)
    for shape, rate in rates_of_all(session).items():
        assert rate["keys"] <= told[shape]["keys"], f"{shape}: a key counts more than once: {rate}, {told[shape]}"
        assert rate["keys_let_through"] <= told[shape]["let_through"], f"{shape}: {rate}, {told[shape]}"
    assert outside(status(session)) == [], f"outside with strangers: {rates(session)}"
    is_shown(session, False)
    assert events(session.log("controld"), ALARM) == [], "alarms of strangers"
