"""controld enforces a feed that changes without an order: a renamed file at once, a file written in place when its writer closes it,
and files behind links, patterns and folders. The policy file is not read with it. Bursts share a reload."""

import os

import pytest

from weir_smoke import controlctl, events, write

# A change of the list `other` shows that controld has read whatever else it was going to read.
POLICY = """version: 1
lists:
  - {{name: kept, action: drop, entries: [{kept}]}}
  - {{name: other, action: drop, file: other.txt}}
  - {{name: fed, action: drop, file: {file}}}
"""
HOSTS = 1000
FIRST, LAST = "10.0.0.0", f"10.0.{HOSTS - 1 >> 8}.{HOSTS - 1 & 255}"
A_WHILE_S = 5  # longer than controld waits for a file that went, or was made anew


def hosts(first, count=HOSTS):
    return "".join(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}\n" for n in range(first, first + count))


def put(path, text):
    write(os.path.dirname(path), os.path.basename(path) + ".new", text)
    os.rename(path + ".new", path)


class Watched:
    """A running controld with the feeds fed.txt and other.txt."""

    def __init__(self, session, clock):
        self.session, self.clock, self.feed, self.changes = session, clock, session.path("fed.txt"), 0
        write(session.folder, "fed.txt", hosts(0))
        write(session.folder, "other.txt", "192.0.2.250\n")
        session.start_dataplane("forward: sink", vdevs=["net_null0"])
        session.start_controld(self.write_policy())

    def write_policy(self, kept="203.0.113.7", file="fed.txt"):
        return write(self.session.folder, "weir.yaml", POLICY.format(kept=kept, file=file))

    def take_policy(self, **changes):
        self.write_policy(**changes)
        assert controlctl(self.session, "reload")["ok"], f"reload of {changes}"

    def verdict(self, key):
        return self.session.call("explain", key=key)["as_source"]["action"]

    def wait_dropped(self, key, verdict="drop"):
        self.session.wait(f"{key} to {verdict}", lambda: self.verdict(key) == verdict)

    def wait_refused(self, is_refused):
        self.session.wait("the feed to be refused" if is_refused else "the feed to be good",
                          lambda: bool(self.session.call("status")["refused"]) == is_refused)

    def change_other(self):
        self.changes += 1
        put(self.session.path("other.txt"), f"192.0.2.250\n192.0.2.{self.changes}\n")
        self.wait_dropped(f"192.0.2.{self.changes}")

    def pass_time(self):
        """controld sees what has changed so far; then a while passes."""
        self.change_other()
        self.clock.pass_time(A_WHILE_S)

    def causes(self):
        """Why generations were published, the oldest first."""
        return [fields["cause"] for _, _, fields in events(self.session.log("controld"), "published")]

    def reads_without_change(self):
        """How often controld has read feeds that hold what they held."""
        return self.session.log("controld").count("the feeds hold what they held")


@pytest.fixture
def watched(session, clock):
    return Watched(session, clock)


def test_a_renamed_feed_is_enforced_without_the_policy(watched):
    for turn, text in enumerate(("no: policy\n", POLICY.format(kept="203.0.113.8", file="fed.txt")) * 5):
        write(watched.session.folder, "weir.yaml", text)
        put(watched.feed, hosts(0) + f"198.51.100.{turn}\n")
        watched.wait_dropped(f"198.51.100.{turn}")
        assert (watched.verdict("203.0.113.7"), watched.verdict("203.0.113.8")) == ("drop", "pass"), "verdicts of the old policy"
    assert watched.causes()[-1] == f"{watched.feed} changed", "the log names the cause"
    controlctl(watched.session, "reload")
    assert watched.verdict("203.0.113.8") == "drop", "verdict of the new policy, after a reload"


def test_a_feed_is_not_read_while_it_is_written(watched):
    with open(watched.feed, "w", encoding="ascii") as file:
        for begin in range(0, HOSTS, HOSTS // 5):
            file.write(hosts(begin, HOSTS // 5))
            file.flush()
            watched.change_other()
            assert (watched.verdict(FIRST), watched.verdict(LAST)) == ("drop", "drop"), "verdicts of a feed that is half written"
        assert not any(watched.feed in cause for cause in watched.causes()), watched.causes()
        assert controlctl(watched.session, "reload")["refused"] == [], "refused while it is written"
        file.write("198.51.100.77\n")
    watched.wait_dropped("198.51.100.77")


def test_the_same_entries_again_publish_nothing(watched):
    before = watched.causes()
    for times, change in enumerate((lambda: put(watched.feed, "# a comment\n" + hosts(0)), lambda: os.utime(watched.feed)), 1):
        change()  # alone: no other change can share its reload
        watched.session.wait("the feed to be read", lambda least=times: watched.reads_without_change() >= least)
    assert watched.causes() == before, "publications"
    watched.change_other()
    assert watched.causes() == [*before, f"{watched.session.path('other.txt')} changed"], "publications up to the next change"


def test_a_burst_of_changes_ends_with_the_last(watched):
    for turn in range(100):
        put(watched.feed, hosts(turn) + f"198.51.101.{turn}\n")
    watched.wait_dropped("198.51.101.99")
    assert watched.verdict("198.51.101.98") == "pass", "the verdict of the change before the last"


@pytest.mark.parametrize("spoil", [os.remove, lambda path: write(os.path.dirname(path), os.path.basename(path), "")],
                         ids=["gone", "empty"])
def test_a_spoiled_feed_keeps_its_content(watched, spoil):
    spoil(watched.feed)
    watched.pass_time()
    watched.wait_refused(True)
    assert watched.verdict(FIRST) == "drop", "what the feed held"
    put(watched.feed, hosts(0))
    watched.wait_refused(False)


def test_links_on_the_way_are_followed(watched):
    session = watched.session
    for name, more in (("one", ""), ("two", "198.51.100.2\n")):  # configuration tools exchange whole folders
        write(session.path(name), "a.txt", hosts(0) + more)
    os.symlink("one", session.path("current"))
    watched.take_policy(file="current/a.txt")
    os.symlink("two", session.path("current.new"))
    os.rename(session.path("current.new"), session.path("current"))
    watched.wait_dropped("198.51.100.2")


def test_a_restart_reads_and_watches_the_feed(watched):
    session = watched.session
    os.symlink(".", session.path("current"))
    watched.take_policy(file="current/fed.txt")
    put(watched.feed, hosts(0) + "198.51.100.2\n")
    watched.wait_dropped("198.51.100.2")
    session.kill("controld")
    put(watched.feed, hosts(0) + "198.51.100.3\n")
    session.start_controld(session.path("weir.yaml"))
    assert (watched.verdict("198.51.100.3"), watched.verdict("198.51.100.2")) == ("drop", "pass"), "verdicts after the restart"
    put(watched.feed, hosts(0) + "198.51.100.4\n")
    watched.wait_dropped("198.51.100.4")


@pytest.mark.parametrize("file", ["many/*.txt", "many", "many/"])
def test_files_of_a_list_come_change_and_go(watched, file):
    session, many = watched.session, watched.session.path("many")
    write(many, "a.txt", hosts(0))
    watched.take_policy(file=f'"{file}"')
    put(many + "/b.txt", "198.51.102.1\n198.51.102.2\n")
    watched.wait_dropped("198.51.102.1")
    with open(many + "/c.txt", "w", encoding="ascii") as being_written:
        being_written.write("198.51.102.3\n")
        being_written.flush()
        watched.pass_time()
        watched.change_other()
        assert watched.verdict("198.51.102.3") == "pass", "a new file that is being written"
    watched.wait_dropped("198.51.102.3")
    put(many + "/b.txt", "198.51.102.2\n198.51.102.4\n")
    watched.wait_dropped("198.51.102.4")
    assert watched.verdict("198.51.102.1") == "pass", "what the file held before"
    rows = {os.path.basename(row["file"]): row["entries"] for row in controlctl(session, "feeds")["feeds"] if row["list"] == "fed"}
    assert rows == {"a.txt": HOSTS, "b.txt": 2, "c.txt": 1}, "feeds"
    os.remove(many + "/b.txt")
    watched.pass_time()
    watched.wait_dropped("198.51.102.4", "pass")
    os.remove(many + "/a.txt")  # nearly all entries
    watched.pass_time()
    watched.wait_refused(True)
    assert (watched.verdict(FIRST), watched.verdict("198.51.102.3")) == ("drop", "drop"), "a file that is gone, and one that is there"
    assert controlctl(session, "feeds", "--accept", "fed")["ok"], "feeds --accept"
    assert (watched.verdict(FIRST), watched.verdict("198.51.102.3")) == ("pass", "drop"), "verdicts after the acceptance"
