"""Situations in which controld once waited, left a caller without an answer, or gave it another's. Each returns what it saw.

    python3 tests/rig/faults/mended_control.py [--build build] NAME...     runs those named and prints what they return
"""

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import threading
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
import namespaces
from mended_rig import BASE, CLOSED_MS, READ_GROUP, Adds, Feeds, Order, Readers, can_read_as_another, helpers_of, stopped, write
from pace import hold
from rig import Skip
from session import Session, SessionError
from until import until

MEMORY = "/dev/shm"    # of the state beside which `add` is measured: a disk that others use waits by itself
LONG_MS = 1000         # an `add` that takes longer has waited for something
BATCH = 100_000        # entries of one `add`, at most
READER_S = 12
CONFIRM_S = 3
ANSWER_S = 10          # what a slow server takes
MIB = 1 << 20
RACE_RELOADS = 200     # while a shadow is asked for
PEAK_MIB = 150         # that a rollback of 1.8M rows may take
PEAK_ROWS = 1_800_000


def address(number):
    return f"{11 + (number >> 16)}.{number >> 8 & 255}.{number & 255}.{number % 251}"


def started(session, policy=BASE, extra=()):
    session.start_controld(write(session, "weir.yaml", policy), targets=False, extra=extra)


def reloads_begun(session):
    return session.log("controld").count("reload begins")


def is_running(session, entry, action="drop"):
    return session.call("explain", key=entry)["as_source"]["action"] == action


# --- an `add` while something waits


@functools.cache
def add_while_reload_waits(build):
    """A reload waits for a server that does not answer."""
    with Feeds() as feeds, Session(build, MEMORY) as session:
        started(session)
        write(session, "weir.yaml", BASE + feeds.list_of("/held/1"))
        order = Order(session.call, "reload")
        feeds.wait_asked()
        adds = Adds(session).make(until=order.is_over)
        feeds.release()
        return adds, order.result()


@functools.cache
def add_while_helpers_stop(build):
    """The processes that parse feeds do not run."""
    with Session(build, MEMORY) as session:
        write(session, "fed.txt", "198.18.0.1\n")
        started(session, BASE + "  - {name: fed, action: drop, file: fed.txt}\n")
        write(session, "fed.txt", "198.18.0.1\n198.18.0.2\n")
        with stopped(helpers_of(session.controld)):
            begun = reloads_begun(session)
            order = Order(session.call, "reload")
            session.wait("a reload", lambda: reloads_begun(session) > begun)
            adds = Adds(session).make(until=order.is_over)
        return adds, order.result()


@functools.cache
def add_while_shadow_waits(build):
    """A candidate names a server that does not answer."""
    with Feeds() as feeds, Session(build, MEMORY) as session:
        started(session)
        order = Order(session.call, "shadow-begin", path=session.path("next.yaml"), policy=BASE + feeds.list_of("/held/1"))
        feeds.wait_asked()
        adds = Adds(session).make(until=order.is_over)
        feeds.release()
        return adds, order.result()


@functools.cache
def add_while_plan_waits(build):
    """`plan --url` of a server that does not answer."""
    with Feeds() as feeds, Session(build, MEMORY) as session:
        write(session, "fed.txt", "198.18.0.1\n")
        started(session, BASE + "  - {name: fed, action: drop, file: fed.txt}\n")
        order = Order(session.call, "plan", name="fed", url=feeds.base + "/held/1")
        feeds.wait_asked()
        adds = Adds(session).make(until=order.is_over)
        feeds.release()
        return adds, order.result()


@functools.cache
def add_beside_readers(build, connections, entries=1_000_000, seconds=READER_S):
    """Somebody who may only look asks about the past on so many connections."""
    if not can_read_as_another():
        raise Skip(f"root: processes of another user, and group {READ_GROUP}")
    with Session(build, MEMORY) as session:
        os.chmod(session.folder, 0o755)
        fed = BASE + "  - {name: fed, action: drop, file: fed.txt, guard: {max_shrink: 100%}}\n"
        for number in range(3):
            write(session, "fed.txt", "".join(address(i) + "\n" for i in range(entries - 1000 * number)))
            if number == 0:
                started(session, fed, ("--read-group", READ_GROUP))
            elif not session.call("reload")["ok"]:
                raise SessionError("a feed is not taken")
        # The readers ask about a former generation: each question opens its snapshot and its book.
        past = session.call("history")["generations"]
        question = {"command": "explain", "key": "11.0.5.5", "at": past[-1]["at"], "verbose": True}
        with Readers(session, connections, seconds, question) as asking:
            adds = Adds(session).make(10_000, until=asking.is_over, pause_s=0.02)
        return adds, asking.counts


def memory_mib(session, which):
    with open(f"/proc/{session.controld.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(which + ":")) / 1024


@functools.cache
def add_while_rolling_back(build, rows):
    """So many rows change, by entries that come and go, and a rollback leads before them. (adds, MiB that the rollback took beyond
    what was there, its seconds)"""
    with Session(build, MEMORY) as session:
        started(session)
        number = session.call("status")["generation"]["number"]
        for begin in range(0, rows // 2, BATCH):
            entries = [address(i) for i in range(begin, min(begin + BATCH, rows // 2))]
            answer = session.call("add", name="jail", entries=entries)
            if not answer.get("ok"):
                raise SessionError(f"entries are not added: {answer.get('error')}")
        if not session.call("flush", name="jail").get("ok"):
            raise SessionError("a list is not flushed")
        with open(f"/proc/{session.controld.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # VmHWM begins anew
        before = memory_mib(session, "VmRSS")
        begun = reloads_begun(session)
        order = Order(session.call, "rollback", number=number)
        session.wait("a rollback", lambda: order.is_over() or reloads_begun(session) > begun)
        adds = Adds(session).make(10_000, until=order.is_over, pause_s=0.02)
        adds.make(1)  # one is in any case beside it, or behind it
        result = order.result()
        if isinstance(result, Exception) or not result.get("ok"):
            raise SessionError(f"no rollback: {result if isinstance(result, Exception) else result.get('error')}")
        return adds, memory_mib(session, "VmHWM") - before, order.done[0]


# --- what waits for a confirmation


class Watcher:
    """When which generation began to run, as `status` tells."""

    def __init__(self, session):
        self.session, self.seen, self.is_over = session, [], False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over:
            with contextlib.suppress(SessionError):
                number = self.session.call("status")["generation"]["number"]
                if not self.seen or self.seen[-1][1] != number:
                    self.seen.append((time.monotonic(), number))
            hold(0.002)

    def wait(self, n):
        self.session.wait(f"generation {n} of the test", lambda: len(self.seen) >= n, 60)
        return self.seen[n - 1][0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()


@functools.cache
def way_back_beside_shadow(build):
    """ms by which it is late while a candidate waits for a server."""
    with Feeds() as feeds, Session(build) as session:
        started(session)
        with Watcher(session) as watcher:
            watcher.wait(1)
            write(session, "weir.yaml", BASE + "  - {name: next, action: drop, entries: [192.0.2.1]}\n")
            session.call("reload", confirm=CONFIRM_S)
            published = watcher.wait(2)
            order = Order(session.call, "shadow-begin", path=session.path("next.yaml"), policy=BASE + feeds.list_of("/held/1"))
            feeds.wait_asked()
            timer = threading.Timer(ANSWER_S, feeds.release)
            timer.start()
            late = (watcher.wait(3) - published - CONFIRM_S) * 1000
            timer.cancel()
            feeds.release()
            order.result()
            return max(late, 0)


@functools.cache
def confirm_beside_shadow(build):
    """ms until `confirm` is done, asked again when it is refused, while a candidate waits for a server."""
    with Feeds() as feeds, Session(build) as session:
        started(session)
        write(session, "weir.yaml", BASE + "  - {name: next, action: drop, entries: [192.0.2.1]}\n")
        session.call("reload", confirm=CONFIRM_S)
        order = Order(session.call, "shadow-begin", path=session.path("next.yaml"), policy=BASE + feeds.list_of("/held/1"))
        feeds.wait_asked()
        begin = time.monotonic()
        is_done = until("a confirmation", lambda: session.call("confirm").get("ok"), CONFIRM_S, error=None, turn=0.01)
        ms = (time.monotonic() - begin) * 1000 if is_done else CLOSED_MS
        feeds.release()
        order.result()
        return ms


def policy_of_away(session):
    """A policy whose one target is away."""
    os.mkdir(session.path("away"))
    return BASE.replace("targets: []", f"targets: [{{dataplane: {session.path('away/dp.sock')}}}]")


@functools.cache
def way_back_while_away(build):
    """ms by which it is late while a target is away."""
    with Session(build) as session:
        base = policy_of_away(session)
        started(session, base)
        with Watcher(session) as watcher:
            watcher.wait(1)
            write(session, "weir.yaml", base + "  - {name: next, action: drop, entries: [192.0.2.1]}\n")
            order = Order(session.call, "reload", confirm=CONFIRM_S)
            published = watcher.wait(2)
            late = (watcher.wait(3) - published - CONFIRM_S) * 1000
            order.result()
            return max(late, 0)


# --- callers and their answers


def reload_beside_plan(build):
    """The answers of a `plan --url` and of a reload: the plan ends while the reload waits for its server, which then answers."""
    with Feeds() as feeds, Session(build) as session:
        write(session, "fed.txt", "198.18.0.1\n")
        base = BASE + "  - {name: fed, action: drop, file: fed.txt}\n"
        started(session, base)
        write(session, "weir.yaml", base + feeds.list_of("/held/1"))
        order = Order(session.call, "reload")
        feeds.wait_asked()
        plan = session.call("plan", name="fed", url=feeds.base + "/now/1")
        feeds.release()
        return plan, order.result()


def answer_of_bad_policy(build):
    """The answer to a reload of a bad policy, asked beside a `reload --confirm` that nobody confirms, with a target away."""
    with Session(build) as session:
        base = policy_of_away(session) + "  - {name: fed, action: drop, file: fed.txt}\n"
        write(session, "fed.txt", "".join(address(i) + "\n" for i in range(1_000_000)))
        started(session, base)
        begun = reloads_begun(session)
        write(session, "weir.yaml", base.replace("name: jail", "name: jails"))
        first = Order(session.call, "reload", confirm=CONFIRM_S)
        session.wait("a reload", lambda: reloads_begun(session) > begun)
        write(session, "weir.yaml", base + "  - {name: bad, action: drop, entries: [nonsense]}\n")
        answer = session.call("reload")
        first.result()
        return answer


def stop_after_add(build, is_bad):
    """The verdict of `explain` on an entry added just before a stop, after a start with a good or a bad policy."""
    with Session(build) as session:
        policy = "version: 1\nlists:\n  - {name: jail, action: drop, dynamic: true}\n"
        path = write(session, "weir.yaml", policy)
        session.start_dataplane("forward: sink", ["net_null0"], 1)
        session.start_controld(path)
        session.wait_enforced()
        if not session.call("add", name="jail", entries=["198.51.100.1"])["ok"]:
            raise SessionError("an entry is not added")
        session.stop("controld")
        if is_bad:
            write(session, "weir.yaml", policy.replace("action: drop", "action: nonsense"))
        session.start_controld(path)
        session.wait("the data plane", lambda: session.call("status")["targets"][0]["connected"])
        is_enforced = True
        try:
            session.wait("the data plane to enforce it", lambda: session.call("status")["targets"][0]["acknowledged"], 10)
        except SessionError:
            is_enforced = False
        return session.call("explain", key="198.51.100.1")["as_source"]["action"], is_enforced


def shadow_beside_reloads(build, reloads=RACE_RELOADS, callers=3):
    """How many of so many reloads, which callers ask for one after the other, ended before a shadow was told how it went."""
    with Session(build) as session:
        started(session)
        lock, ended = threading.Lock(), []
        left = iter(range(reloads))

        def storm():
            while True:
                with lock:
                    if next(left, None) is None:
                        return
                session.call("reload")
                ended.append(time.monotonic())

        storms = [Order(storm) for _ in range(callers)]
        session.wait("some reloads", lambda: len(ended) >= callers)
        order = Order(session.call, "shadow-begin", path=session.path("next.yaml"),
                      policy=BASE + "  - {name: next, action: drop, entries: [192.0.2.1]}\n")
        told = order.result()
        before = len(ended)
        for one in storms:
            one.join()
        return before, told


def redirect_to_loopback(build):
    """Whether a feed's server, with an address of the Internet, has controld ask this machine. In a network of its own."""
    namespaces.own_network()
    public = "11.22.33.44"
    for command in (("link", "set", "lo", "up"), ("addr", "add", public + "/32", "dev", "lo")):
        subprocess.run(["ip", *command], check=True)
    with Feeds(public) as feeds, Feeds() as internal, Session(build) as session:
        feeds.redirect = internal.base + "/internal"
        started(session)
        write(session, "weir.yaml", BASE + feeds.list_of("/to/1"))
        session.call("reload")
        if not feeds.asked:
            raise SessionError("the server of a feed was not asked")
        return "/internal" in internal.asked


SITUATIONS = {
    "reload": add_while_reload_waits, "helpers": add_while_helpers_stop, "shadow": add_while_shadow_waits, "plan": add_while_plan_waits,
    "readers64": lambda build: add_beside_readers(build, 64), "readers200": lambda build: add_beside_readers(build, 200),
    "rollback1m": lambda build: add_while_rolling_back(build, 1_000_000), "rollback2m": lambda build: add_while_rolling_back(build, 2_000_000),
    "back": way_back_beside_shadow, "confirm": confirm_beside_shadow, "away": way_back_while_away, "bad": answer_of_bad_policy, "beside_plan": reload_beside_plan,
    "stop": lambda build: stop_after_add(build, True), "storm": shadow_beside_reloads, "redirect": redirect_to_loopback,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("names", nargs="+", choices=SITUATIONS, metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        begin = time.monotonic()
        found = SITUATIONS[name](os.path.abspath(arguments.build))
        parts = found if isinstance(found, tuple) else (found,)
        print(name, *(part.told() if isinstance(part, Adds) else str(part)[:400] for part in parts),
              f"({time.monotonic() - begin:.1f} s)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
