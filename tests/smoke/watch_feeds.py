"""A feed that changes is enforced without being asked for: by rename at once, written in place when it is whole, with every
link on its way; the policy file is not taken with it. Bursts share a reload, and nothing that was enforced is lost."""

import os
import time

from weir_smoke import BUILD, Session, check, controlctl, equal, events

POLICY = "version: 1\nlists:\n  - {{name: kept, action: drop, entries: [{kept}]}}\n  - {{name: fed, action: drop, file: {feed}}}\n"
HOSTS = 1000


def hosts(first, count=HOSTS):
    return "".join(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(first, first + count))


with Session(BUILD) as session:
    feed = session.path("fed.txt")
    policy = session.path("weir.yaml")

    def write(path, text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def put(path, text):
        write(path + ".new", text)
        os.rename(path + ".new", path)

    def verdict(key):
        return session.call("explain", key=key)["as_source"]["action"]

    def number():
        return session.call("status")["generation"]["number"]

    write(feed, hosts(0))
    write(policy, POLICY.format(kept="203.0.113.7", feed="fed.txt"))
    session.start_dataplane("forward: sink", vdevs=["net_null0"])
    session.start_controld(policy)

    # Renamed; a policy that changed meanwhile is not taken, good or bad.
    times = []
    for turn, text in enumerate(("no: policy\n", POLICY.format(kept="203.0.113.8", feed="fed.txt")) * 5):
        write(policy, text)
        new = f"198.51.100.{turn}"
        begin = time.monotonic()
        put(feed, hosts(0) + f"{new}\n")
        session.wait(f"{new} to be dropped", lambda key=new: verdict(key) == "drop", 20)
        times.append(time.monotonic() - begin)
        equal(verdict("203.0.113.7"), "drop", "what the old policy names")
        equal(verdict("203.0.113.8"), "pass", "what only the new policy names")
    check(events(session.log("controld"), "published", cause=f"{feed} changed"), "the log says what caused it")
    answer = controlctl(session, "reload")
    equal(verdict("203.0.113.8"), "drop", "what the new policy names, after a reload")

    # In place, with pauses: not read before it is whole, also when something else is.
    before = number()
    with open(feed, "w", encoding="ascii") as file:
        for begin in range(0, HOSTS, HOSTS // 5):
            file.write(hosts(begin, HOSTS // 5))
            file.flush()
            time.sleep(0.2)
            equal((verdict("10.0.0.1"), verdict(f"10.0.{(HOSTS - 1) >> 8}.{(HOSTS - 1) & 255}")), ("drop", "drop"), "half written")
        equal(number(), before, "generation while it is written")
        answer = controlctl(session, "reload")
        equal(answer["refused"], [], "refused while it is written")
        file.write("198.51.100.77\n")
    session.wait("what was written in place to be enforced", lambda: verdict("198.51.100.77") == "drop", 20)

    # The same again, a comment more, touched: nothing is published.
    before = number()
    put(feed, "# a comment\n" + hosts(0) + "198.51.100.77\n")
    session.wait("it to be read", lambda: "the feeds hold what they held" in session.log("controld"), 20)
    os.utime(feed)
    time.sleep(0.3)
    equal(number(), before, "generation after a comment")

    # A burst: all of it, in fewer reloads.
    for turn in range(100):
        put(feed, hosts(turn) + f"198.51.101.{turn}\n")
    session.wait("the last of a burst", lambda: verdict("198.51.101.99") == "drop", 20)
    equal(verdict("198.51.101.98"), "pass", "one before the last of a burst")

    # Gone, empty: what it held stays, and says so.
    for text in (None, ""):
        os.remove(feed) if text is None else write(feed, text)
        session.wait("the feed to be refused", lambda: session.call("status")["refused"], 20)
        equal(verdict("198.51.101.99"), "drop", "what a feed held that is gone")
        put(feed, hosts(99) + "198.51.101.99\n")
        session.wait("the feed to be good", lambda: not session.call("status")["refused"], 20)

    # Links on the way, as configuration tools exchange whole folders.
    for name in ("one", "two"):
        os.mkdir(session.path(name))
        write(session.path(name) + "/a.txt", hosts(0) + ("192.0.2.2\n" if name == "two" else ""))
    os.symlink("one", session.path("current"))
    write(policy, POLICY.format(kept="203.0.113.8", feed="current/a.txt"))
    check(controlctl(session, "reload")["ok"], "reload of a feed behind a link")
    os.symlink("two", session.path("current.new"))
    os.rename(session.path("current.new"), session.path("current"))
    session.wait("the other folder's feed", lambda: verdict("192.0.2.2") == "drop", 20)

    # Over a restart of controld, also killed.
    session.kill("controld")
    write(session.path("two") + "/a.txt", hosts(0) + "192.0.2.3\n")
    session.start_controld(policy)
    equal((verdict("192.0.2.3"), verdict("192.0.2.2")), ("drop", "pass"), "verdicts after a restart")
    put(session.path("two") + "/a.txt", hosts(0) + "192.0.2.4\n")
    session.wait("a change after a restart", lambda: verdict("192.0.2.4") == "drop", 20)

    # Several files in a list: a pattern, and a folder; files come, change and go.
    for file in ("many/*.txt", "many", "many/"):
        many = session.path("many")
        os.mkdir(many)
        write(many + "/a.txt", hosts(0))
        write(policy, POLICY.format(kept="203.0.113.8", feed=f'"{file}"'))
        check(controlctl(session, "reload")["ok"], f"reload of {file}")
        put(many + "/b.txt", "198.51.102.1\n198.51.102.2\n")
        session.wait("a file that was renamed there", lambda: verdict("198.51.102.1") == "drop", 20)
        with open(many + "/c.txt", "w", encoding="ascii") as being_written:
            being_written.write("198.51.102.3\n")
            being_written.flush()
            time.sleep(1.3)
            equal(verdict("198.51.102.3"), "pass", "a new file that is being written")
        session.wait("it to be closed", lambda: verdict("198.51.102.3") == "drop", 20)
        put(many + "/b.txt", "198.51.102.2\n198.51.102.4\n")
        session.wait("a file to have changed", lambda: verdict("198.51.102.4") == "drop", 20)
        equal(verdict("198.51.102.1"), "pass", "what it held before")
        rows = {os.path.basename(row["file"]): row["entries"] for row in controlctl(session, "feeds")["feeds"]}
        equal(rows, {"a.txt": HOSTS, "b.txt": 2, "c.txt": 1}, "feeds")
        os.remove(many + "/b.txt")
        session.wait("a file to be gone", lambda: verdict("198.51.102.4") == "pass", 20)
        os.remove(many + "/a.txt")  # nearly all of it
        session.wait("a file to be missed", lambda: session.call("status")["refused"], 20)
        equal((verdict("10.0.0.1"), verdict("198.51.102.3")), ("drop", "drop"), "what is missed, and what is there")
        check(controlctl(session, "feeds", "--accept", "fed")["ok"], "acceptance")
        equal((verdict("10.0.0.1"), verdict("198.51.102.3")), ("pass", "drop"), "verdicts after the acceptance")
        os.remove(many + "/c.txt")
        os.rmdir(many)
times.sort()
print(f"from a rename to the verdict: median {times[len(times) // 2] * 1000:.0f} ms, most {times[-1] * 1000:.0f} ms")
