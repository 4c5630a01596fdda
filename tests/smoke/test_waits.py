"""A change waits for nothing but what it needs, a confirmation comes in time, and each caller gets its own answer.

Nothing here is timed. A server of feeds holds its answer back until the test has seen the change. A change that waits for the
server ends only when the server gives up, and the test then notices.
"""

import os
import threading

import pytest

from weir_smoke import needs_root
from mended_rig import BASE as SHORT, READ_GROUP, Feeds, Order, Readers, can_read_as_another, write

pytestmark = pytest.mark.timeout(300)

BASE = SHORT.replace("targets: []\n", "targets: []\nfetch: {timeout: 600s}\n")  # the server gives up sooner
ENTRY = "192.0.2.1"
NEXT = f"  - {{name: next, action: drop, entries: [{ENTRY}]}}\n"
FED = "  - {name: fed, action: drop, file: fed.txt}\n"
RELOADS, CALLERS = 200, 3
READERS = 64


@pytest.fixture
def feeds():
    with Feeds() as server:
        yield server


def start(session, policy=BASE, extra=()):
    session.start_controld(write(session, "weir.yaml", policy), targets=False, extra=extra)


def begin_reload(session, **fields):
    begun = session.log("controld").count("reload begins")
    order = Order(session.call, "reload", **fields)
    session.wait("a reload", lambda: session.log("controld").count("reload begins") > begun)
    return order


def begin_shadow(session, more):
    return Order(session.call, "shadow-begin", path=session.path("next.yaml"), policy=BASE + more)


def succeeds(answer, what):
    assert (answer.get("ok"), answer.get("error")) == (True, None), f"{what}: {answer}"


def add(session, entry, when):
    succeeds(session.call("add", name="jail", entries=[entry]), f"add {when}")


def is_held(feeds, what):
    assert not feeds.released.is_set() and not feeds.has_given_up, f"{what} waited for the server"


def action_of(session, entry):
    return session.call("explain", key=entry)["as_source"]["action"]


def test_an_add_does_not_wait_for_a_reload(session, feeds):
    start(session)
    write(session, "weir.yaml", BASE + feeds.list_of("/held/1"))
    order = begin_reload(session)
    feeds.wait_asked()
    add(session, "198.51.100.1", "while a reload waits for a server")
    is_held(feeds, "add")
    feeds.release()
    succeeds(order.result(), "the reload that waited")
    for entry in ("198.51.100.1", "198.18.7.7"):
        assert action_of(session, entry) == "drop", f"{entry} after a reload and an add during it"


def test_a_plan_does_not_wait_for_a_reload(session, feeds):
    write(session, "fed.txt", "198.18.0.1\n")
    start(session, BASE + FED)
    write(session, "weir.yaml", BASE + FED + feeds.list_of("/held/1"))
    order = begin_reload(session)
    feeds.wait_asked()
    succeeds(session.call("plan", name="fed", url=feeds.base + "/now/1"), "plan of another url")
    is_held(feeds, "plan of another url")
    feeds.release()
    succeeds(order.result(), "the reload that waited")


def test_a_confirmation_does_not_wait_for_a_shadow(session, feeds):
    start(session)
    write(session, "weir.yaml", BASE + NEXT)
    succeeds(session.call("reload", confirm=3600), "reload --confirm")
    order = begin_shadow(session, feeds.list_of("/held/1"))
    feeds.wait_asked()
    succeeds(session.call("confirm"), "confirm while a candidate waits for a server")
    is_held(feeds, "confirm")
    feeds.release()
    order.result()
    assert action_of(session, ENTRY) == "drop", "the confirmed policy"


def test_an_unconfirmed_reload_ends_in_time_during_a_shadow(session, feeds):
    start(session)
    write(session, "weir.yaml", BASE + NEXT)
    succeeds(session.call("reload", confirm=1), "reload --confirm 1")
    order = begin_shadow(session, feeds.list_of("/held/1"))
    feeds.wait_asked()
    session.wait("the former policy", lambda: action_of(session, ENTRY) == "pass")
    is_held(feeds, "the return to the former policy")
    feeds.release()
    order.result()


@needs_root("the readers are another user")
def test_an_add_does_not_wait_for_readers(session, feeds):
    if not can_read_as_another():
        pytest.skip(f"package: no group {READ_GROUP}")
    os.chmod(session.folder, 0o755)
    start(session, BASE, ("--read-group", READ_GROUP))
    at = session.call("history")["generations"][-1]["at"]
    write(session, "weir.yaml", BASE + feeds.list_of("/held/1"))
    order = begin_reload(session)
    feeds.wait_asked()
    question = {"command": "explain", "key": ENTRY, "at": at, "verbose": True}
    with Readers(session, READERS, 600, question):
        for number in range(20):
            add(session, f"198.51.100.{number}", f"beside {READERS} readers")
        is_held(feeds, "add beside readers")
    feeds.release()
    order.result()


def test_a_bad_policy_gets_its_own_answer_during_a_reload(session):
    os.mkdir(session.path("away"))
    base = BASE.replace("targets: []", f"targets: [{{dataplane: {session.path('away/dp.sock')}}}]") + FED
    write(session, "fed.txt", "".join(f"{11 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.7\n" for i in range(300_000)))
    start(session, base)
    write(session, "weir.yaml", base + NEXT)
    first = begin_reload(session, confirm=1)
    write(session, "weir.yaml", base + "  - {name: bad, action: drop, entries: [nonsense]}\n")
    answer = session.call("reload")
    is_own = "nonsense" in str(answer.get("diagnostics")) or "controlctl confirm" in answer.get("error", "")
    assert is_own, f"reload of a bad policy beside an unconfirmed one: {answer}"
    first.result()


def test_an_added_entry_survives_a_stop_and_a_bad_policy(session):
    policy = "version: 1\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
    path = write(session, "weir.yaml", policy)
    session.start_dataplane("forward: sink", ["net_null0"], 1)
    session.start_controld(path)
    session.wait_enforced()
    add(session, "198.51.100.1", "just before a stop")
    assert session.stop("controld") == 0, "exit code of controld"
    write(session, "weir.yaml", policy.replace("action: drop", "action: nonsense"))
    session.start_controld(path)
    assert action_of(session, "198.51.100.1") == "drop", "an entry that was added before a stop, when the next policy is bad"
    session.wait_enforced()


def test_a_shadow_begins_between_reloads(session):
    start(session)
    left, lock, ended = iter(range(RELOADS)), threading.Lock(), []

    def reload_in_turns():
        while True:
            with lock:
                if next(left, None) is None:
                    return
            session.call("reload")
            ended.append(1)

    callers = [Order(reload_in_turns) for _ in range(CALLERS)]
    session.wait("some reloads", lambda: len(ended) >= CALLERS)
    answer = begin_shadow(session, NEXT).result()
    before = len(ended)
    succeeds(answer, "a shadow beside reloads")
    for one in callers:
        one.join()
    assert before < RELOADS, f"the shadow began only after {before} reloads that were asked for beside it"
