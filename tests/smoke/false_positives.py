"""False positives as they are measured: of strangers beside listed addresses each filter lets through exactly what its bits say,
inside the interval; who knows the secret, and sends only what the filter lets through, raises the alarm within ten seconds;
`rebuild` ends it, though the same packets go on, and loses no entry."""

import json
import os

from weir_smoke import BUILD, Session, check, controlctl, equal, events, moved, start_loop, write
from capture import read_capture
from rack_metrics import fetch, samples_of
from strangers import POLICY, SHAPES, make_strangers, outside, rates_of, write_lists

ALARM_S = 10
FRAMES = 2000  # of each shape


def base_of(session):
    return os.path.join(session.state_path("controld"), "snapshot.weir")


def loop(session, name):
    start_loop(session, read_capture(session.path(name)))


def rates(session):
    return rates_of(controlctl(session, "status"))


def exactly_as_predicted(session, told):
    """The counters grow as the capture says that loops, and all of it is in the sample sooner or later."""
    before = rates(session)
    moved(session, 400_000)
    session.wait("the counters of the same time", lambda: rates(session)["v4 addr/32"]["asked"] > before["v4 addr/32"]["asked"])
    after = rates(session)
    equal(set(after), SHAPES, "shapes with a rate")
    for shape, rate in after.items():
        asked = rate["asked"] - before[shape]["asked"]
        let_through = rate["let_through"] - before[shape]["let_through"]
        equal(rate["found"], 0, f"{shape}: strangers that are on a list")
        truth = told[shape]["let_through"] / told[shape]["keys"]
        check(asked > 20_000, f"{shape}: only {asked} keys were asked for")
        check(abs(let_through / asked - truth) < 0.02 * truth + 2e-4,
              f"{shape}: {let_through} of {asked} keys were let through; of the capture's {told[shape]}")
        check(rate["low"] <= rate["rate"] <= rate["high"], f"{shape}: {rate}")
        equal(rate["verdict"], "inside", f"{shape}: {rate}")

    def all_sampled():
        now = rates(session)  # of no shape while the target is reached again
        return all(shape in now and now[shape]["keys"] >= 0.9 * told[shape]["keys"] for shape in SHAPES)
    session.wait("most keys to be in the sample", all_sampled)
    for shape, rate in rates(session).items():
        check(rate["keys"] <= told[shape]["keys"], f"{shape}: a key counts more than once: {rate}, {told[shape]}")
        check(rate["keys_let_through"] <= told[shape]["let_through"], f"{shape}: {rate}, {told[shape]}")


def shown(session, address, expected):
    """Where people and programs look."""
    code, out, _ = session.controlctl("status")
    equal((code, "FALSE POSITIVES" in out), (0, expected), f"status says so: {out}")
    code, out, _ = session.controlctl("shapes")
    equal((code, "OUTSIDE: above" in out), (0, expected), f"shapes says so: {out}")
    values = [value for name, _, value in samples_of(fetch(address)) if name == "weir_filter_false_positives_outside"]
    equal((len(values), any(values)), (len(SHAPES), expected), "metrics say so")
    page = fetch(address, "/")
    equal("keys of nobody through" in page, expected, "the page says so")


def stays_with_overlay(session):
    """A small change has a filter of its own; what was counted of the base goes on."""
    before = rates(session)
    check(controlctl(session, "add", "198.18.0.1", "2001:2::", "--list", "now")["ok"], "add")
    session.wait("rates of the overlay", lambda: rates_of(controlctl(session, "status"), overlay=True))
    now = rates(session)
    for shape in SHAPES:
        check(now[shape]["asked"] >= before[shape]["asked"], f"{shape}: counts of the base went back with an overlay")
        check(now[shape]["keys"] >= before[shape]["keys"], f"{shape}: keys of the base went back with an overlay")
    check(controlctl(session, "flush", "now")["ok"], "flush")


def main():
    with Session(BUILD) as session:
        write_lists(session.folder)
        write(session.folder, "weir.yaml", POLICY.format(more="policy: {default: pass}"))
        session.start_controld(session.path("weir.yaml"), metrics="127.0.0.1:0")
        address = controlctl(session, "status")["metrics"]["address"]
        equal(controlctl(session, "status")["false_positives"], [], "rates without a target")

        told = make_strangers(BUILD, base_of(session), session.path("strangers.pcap"), FRAMES)
        equal(set(told), SHAPES, "shapes of the policy")
        loop(session, "strangers.pcap")
        session.wait_enforced()
        moved(session)
        session.wait("rates of every shape", lambda: set(rates(session)) == SHAPES)
        exactly_as_predicted(session, told)
        shown(session, address, False)
        stays_with_overlay(session)
        equal(outside(controlctl(session, "status")), [], "outside")
        equal(events(session.log("controld"), "false positives are not what is predicted: `controlctl rebuild` draws "
                                              "another secret"), [], "alarms of strangers")

        # The attacker has read the file: half of the packets are keys that he chose by it.
        session.stop("dataplane")
        told = make_strangers(BUILD, base_of(session), session.path("attack.pcap"), 1000, "--let-through", seed=2)
        check(all(shape["keys"] == shape["let_through"] >= 500 for shape in told.values()), f"keys of the attack: {told}")
        loop(session, "attack.pcap")
        session.wait("packets of the attack", lambda: session.stats()["packets"] > 0)
        session.wait("the alarm", lambda: outside(controlctl(session, "status")), seconds=ALARM_S)
        session.wait("the alarm of every shape", lambda: len(outside(controlctl(session, "status"))) == len(SHAPES))
        check(all(verdict == "above" for _, _, verdict in outside(controlctl(session, "status"))), "verdicts")
        shown(session, address, True)
        alarms = events(session.log("controld"), "false positives are not what is predicted: `controlctl rebuild` draws another secret")
        equal(len(alarms), len(SHAPES), "lines of the log, one for each shape")

        before = controlctl(session, "status")
        answer = controlctl(session, "rebuild")
        check(answer["ok"] and answer["generation"]["number"] > before["generation"]["number"], f"rebuild: {answer}")
        equal((answer["cause"], answer["entries"], answer["changes"]), ("rebuild", before["entries"], []), "what rebuild did")
        moved(session)
        session.wait("rates of the new snapshot", lambda: set(rates(session)) == SHAPES)
        moved(session, 100_000)
        session.wait("keys of the attack in the sample", lambda: all(r["keys"] >= 300 for r in rates(session).values()))
        equal(outside(controlctl(session, "status")), [], f"outside after the rebuild: {json.dumps(rates(session))}")
        shown(session, address, False)
        explained = controlctl(session, "explain", open(session.path("hosts.txt"), encoding="utf-8").readline().strip())
        check(explained["origins"], f"an entry after the rebuild: {explained}")


main()
