"""Changes wait for nothing but what they need, a confirmation comes in time, and each caller gets its own answer.

Nothing here is timed. A server of feeds holds its answer back until the test has seen what must not wait for it; whoever waits for
the server is told only when the server's own patience ends, which the test then finds.
"""

import os
import threading

from weir_smoke import BUILD, Session, check, equal
from mended_rig import BASE as SHORT, READ_GROUP, Feeds, Order, Readers, can_read_as_another, write  # noqa: E402 (weir_smoke puts tests/rig on the path)

BASE = SHORT.replace("targets: []\n", "targets: []\nfetch: {timeout: 600s}\n")  # the server has less patience
ENTRY = "192.0.2.1"
NEXT = f"  - {{name: next, action: drop, entries: [{ENTRY}]}}\n"
FED = "  - {name: fed, action: drop, file: fed.txt}\n"
STORM, CALLERS = 200, 3
READERS = 64


def start(session, policy=BASE, extra=()):
    session.start_controld(write(session, "weir.yaml", policy), targets=False, extra=extra)


def begin_reload(session, **fields):
    """One that is read from now on."""
    begun = session.log("controld").count("reload begins")
    order = Order(session.call, "reload", **fields)
    session.wait("a reload", lambda: session.log("controld").count("reload begins") > begun)
    return order


def begin_shadow(session, more):
    return Order(session.call, "shadow-begin", path=session.path("next.yaml"), policy=BASE + more)


def add_is_made(session, entry, what):
    answer = session.call("add", name="jail", entries=[entry])
    equal((answer.get("ok"), answer.get("error")), (True, None), f"add {what}")


def is_held(feeds, what):
    check(not feeds.released.is_set() and not feeds.has_given_up, f"{what}: was answered only after the server")


def action_of(session, entry):
    return session.call("explain", key=entry)["as_source"]["action"]


def add_beside_slow_reload():
    with Feeds() as feeds, Session(BUILD) as session:
        start(session)
        write(session, "weir.yaml", BASE + feeds.list_of("/held/1"))
        order = begin_reload(session)
        feeds.wait_asked()
        add_is_made(session, "198.51.100.1", "while a reload waits for a server")
        is_held(feeds, "add beside a reload")
        feeds.release()
        equal(order.result().get("ok"), True, f"the reload that waited: {order.result()}")
        for entry in ("198.51.100.1", "198.18.7.7"):
            equal(action_of(session, entry), "drop", f"{entry} after a reload and an add beside it")


def reload_beside_plan():
    with Feeds() as feeds, Session(BUILD) as session:
        write(session, "fed.txt", "198.18.0.1\n")
        start(session, BASE + FED)
        write(session, "weir.yaml", BASE + FED + feeds.list_of("/held/1"))
        order = begin_reload(session)
        feeds.wait_asked()
        plan = session.call("plan", name="fed", url=feeds.base + "/now/1")
        equal(plan.get("ok"), True, f"plan of another url: {plan}")
        is_held(feeds, "plan of another url")
        feeds.release()
        equal(order.result().get("ok"), True, f"a reload, when its server has answered: {order.result()}")


def confirm_beside_shadow():
    with Feeds() as feeds, Session(BUILD) as session:
        start(session)
        write(session, "weir.yaml", BASE + NEXT)
        equal(session.call("reload", confirm=3600).get("ok"), True, "reload --confirm")
        order = begin_shadow(session, feeds.list_of("/held/1"))
        feeds.wait_asked()
        answer = session.call("confirm")
        equal((answer.get("ok"), answer.get("error")), (True, None), "confirm while a candidate waits for a server")
        is_held(feeds, "confirm")
        feeds.release()
        order.result()
        equal(action_of(session, ENTRY), "drop", "what was confirmed")


def way_back_beside_shadow():
    with Feeds() as feeds, Session(BUILD) as session:
        start(session)
        write(session, "weir.yaml", BASE + NEXT)
        equal(session.call("reload", confirm=1).get("ok"), True, "reload --confirm 1")
        order = begin_shadow(session, feeds.list_of("/held/1"))
        feeds.wait_asked()
        session.wait("the way back", lambda: action_of(session, ENTRY) == "pass")
        is_held(feeds, "the way back")
        feeds.release()
        order.result()


def add_beside_readers():
    if not can_read_as_another():
        print(f"root: without {READERS} readers: they are another user, of group {READ_GROUP}")
        return
    with Feeds() as feeds, Session(BUILD) as session:
        os.chmod(session.folder, 0o755)
        start(session, BASE, ("--read-group", READ_GROUP))
        at = session.call("history")["generations"][-1]["at"]
        write(session, "weir.yaml", BASE + feeds.list_of("/held/1"))
        order = begin_reload(session)
        feeds.wait_asked()
        question = {"command": "explain", "key": ENTRY, "at": at, "verbose": True}
        with Readers(session, READERS, 600, question):
            for number in range(20):
                add_is_made(session, f"198.51.100.{number}", f"beside {READERS} readers")
            is_held(feeds, "add beside readers")
        feeds.release()
        order.result()


def answer_of_bad_policy():
    with Session(BUILD) as session:
        os.mkdir(session.path("away"))
        base = BASE.replace("targets: []", f"targets: [{{dataplane: {session.path('away/dp.sock')}}}]") + FED
        write(session, "fed.txt", "".join(f"{11 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.7\n" for i in range(300_000)))
        start(session, base)
        write(session, "weir.yaml", base + NEXT)
        first = begin_reload(session, confirm=1)
        write(session, "weir.yaml", base + "  - {name: bad, action: drop, entries: [nonsense]}\n")
        answer = session.call("reload")
        is_own = "nonsense" in str(answer.get("diagnostics")) or "controlctl confirm" in answer.get("error", "")
        check(is_own, f"reload of a bad policy beside one that is not confirmed: {answer}")
        first.result()


def stop_after_add():
    with Session(BUILD) as session:
        policy = "version: 1\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
        path = write(session, "weir.yaml", policy)
        session.start_dataplane("forward: sink", ["net_null0"], 1)
        session.start_controld(path)
        session.wait_enforced()
        add_is_made(session, "198.51.100.1", "just before a stop")
        equal(session.stop("controld"), 0, "exit code of controld")
        write(session, "weir.yaml", policy.replace("action: drop", "action: nonsense"))
        session.start_controld(path)
        equal(action_of(session, "198.51.100.1"), "drop", "an entry that was added before a stop, when the next policy is bad")
        session.wait_enforced()


def shadow_beside_reloads():
    with Session(BUILD) as session:
        start(session)
        left, lock, ended = iter(range(STORM)), threading.Lock(), []

        def storm():
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                session.call("reload")
                ended.append(1)

        storms = [Order(storm) for _ in range(CALLERS)]
        session.wait("some reloads", lambda: len(ended) >= CALLERS)
        answer = begin_shadow(session, NEXT).result()
        before = len(ended)
        equal(answer.get("ok"), True, f"a shadow beside reloads: {answer}")
        for one in storms:
            one.join()
        check(before < STORM, f"a shadow began only after {before} reloads that were asked for beside it")


TESTS = (add_beside_slow_reload, reload_beside_plan, confirm_beside_shadow, way_back_beside_shadow, add_beside_readers,
         answer_of_bad_policy, stop_after_add, shadow_beside_reloads)
ONLY = os.environ.get("WEIR_ONLY", "").split()  # names of TESTS: those alone
for test in TESTS:
    if not ONLY or test.__name__ in ONLY:
        test()
        print(f"{test.__name__}: ok", flush=True)
