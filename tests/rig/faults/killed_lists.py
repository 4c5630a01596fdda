"""The model of tests/rig/faults/kills.py tells what may be enforced while programs are killed and lists change. Standard library only.

Versions: a policy and two feeds, each with its number; 24 addresses are in it or not, as bits of the number's signature say, which is random.
So packets tell the version. Clients: each has a list of its own and waits for the answer to one request before the next; what was answered
with `ok` is there from then on, what was not answered is there as a whole or not at all.
"""

import collections
import os
import random
import threading

from pace import hold
from probes import text_of
from session import SessionError

SIGNATURE_BITS = 24
BULK, MOST_ENTRIES, MOST_AT_ONCE = 20_000, 2000, 20
MEMBERS, FILLING, SMALL = 40_000, 20_000, 500
KEPT_GONE, AGAIN_AFTER = 400, 200   # deleted addresses that are remembered; before one of so many is added again
IN_PLACE_SHARE, SLOW_SHARE = 0.25, 0.15
OLD = 50                            # versions that are looked at to find out whether it is an older one
POLICY = """version: 1
# turn {turn}
lists:
  - {{name: friends, action: pass, match: src, entries: [10.250.0.1]}}
{dynamic}  - {{name: turn, action: drop, match: src, entries: [{entries}]}}
  - {{name: small, action: drop, match: src, file: small.txt, guard: {{reserved: keep}}}}
  - {{name: big, action: drop, match: src, file: big.txt}}
"""
DYNAMIC = "  - {{name: {name}, action: drop, match: src, dynamic: true, max_entries: 200000}}\n"


def number_of(text):
    a, b, c, d = (int(part) for part in text.split("."))
    return a << 24 | b << 16 | c << 8 | d


class Versions:
    """Of the policy, or a feed. low: the newest that is known to be enforced; high: the newest that was written."""

    def __init__(self, kind, first, seed):
        self.kind, self.seed = kind, seed
        self.addresses = [first + 7 * bit for bit in range(SIGNATURE_BITS)]
        self.low, self.high = 1, 0
        self.at_rest = 0     # must be enforced when nobody changes anything
        self.way = "by rename"  # how the last one was written

    def signature(self, version):
        return random.Random(f"{self.seed} {self.kind} {version}").getrandbits(SIGNATURE_BITS)

    def listed(self, version):
        signature = self.signature(version)
        return [address for bit, address in enumerate(self.addresses) if signature >> bit & 1]

    def due(self):
        return max(self.low, self.at_rest)

    def judge(self, fates, low, is_at_once):
        """[(kind, text)]. fates: {address: whether it was dropped}; low: when they were sent."""
        found = sum(1 << bit for bit, address in enumerate(self.addresses) if fates[address])
        signatures = {version: self.signature(version) for version in range(low, self.high + 1)}
        for version, signature in reversed(signatures.items()):
            if signature == found:
                self.low = max(self.low, version)
                return []
        for version in range(max(1, low - OLD), low):
            if self.signature(version) == found:
                return [("older", f"{self.kind}: version {version} judges, {low} was acknowledged or seen")]
        # A change in the middle of a sweep: each packet by one of the versions.
        wrong = [text_of(address) for bit, address in enumerate(self.addresses)
                 if is_at_once or all((signature ^ found) >> bit & 1 for signature in signatures.values())]
        if wrong:
            return [("lost", f"{self.kind}: no version from {low} to {self.high} judges {', '.join(wrong)} as packets were "
                             f"({found:06x}; " + ", ".join(f"{signature:06x}" for signature in signatures.values()) + ")")]
        return []


class Feed(Versions):
    def __init__(self, kind, first, seed, path, lock):
        super().__init__(kind, first, seed)
        self.path, self.lock, self.random = path, lock, random.Random(f"{seed} writes {kind}")
        self.is_written = False   # in place, just now
        self.times_written = 0

    def lines(self, version):
        if self.kind == "small":
            fixed = [text_of(0x0A300000 + i) for i in range(SMALL)]
        else:
            fixed = [text_of(0x0B000000 + 3 * i) for i in range(MEMBERS)]
            fixed += [text_of(0x0C000000 + (version % 3 << 20) + i) for i in range(FILLING)]
        for address in self.listed(version):  # somewhere
            fixed.insert(self.random.randrange(len(fixed)), text_of(address))
        return [line + "\n" for line in fixed]

    def change(self):
        """Writes the next version in one of several ways. Its number."""
        with self.lock:
            version = self.high + 1
        lines, way = self.lines(version), self.random.random()
        if self.kind == "small" and way < IN_PLACE_SHARE:
            self.way = "in place"
            self.write_in_place(version, lines)
        else:
            self.way = "by rename"
            self.exchange(version, lines, self.random.uniform(0.02, 0.3) if way > 1 - SLOW_SHARE else 0)
        return version

    def exchange(self, version=1, lines=None, pause=0):
        lines = lines or self.lines(version)
        with open(self.path + ".new", "w", encoding="ascii") as file:
            file.writelines(lines[:len(lines) // 2])
            file.flush()
            hold(pause)
            file.writelines(lines[len(lines) // 2:])
        with self.lock:
            self.high = self.at_rest = version
            os.rename(self.path + ".new", self.path)

    def write_in_place(self, version, lines):
        with self.lock:
            self.high, self.is_written = version, True
            self.times_written += 1
        with open(self.path, "w", encoding="ascii") as file:
            for part in range(4):
                file.writelines(lines[part * len(lines) // 4:(part + 1) * len(lines) // 4])
                file.flush()
                hold(self.random.uniform(0, 0.1))
        with self.lock:
            self.is_written, self.at_rest = False, version


class Client:
    """One list, one request after the other. States are those after none, one ... all of `requests_open`."""

    def __init__(self, number, seed, model):
        self.list, self.model = f"bans{number}", model
        self.is_bulk = number == 0
        self.random = random.Random(f"{seed} client {number}")
        self.fresh = (20 + number) << 24 | 1
        self.base = set()           # acknowledged: enforced everywhere, on disk
        self.open = []              # (verb, addresses) since: answered otherwise, or not yet, or not at all
        self.pending = set()        # addresses of those
        self.taken = 0              # so many of them were answered as done by controld, though not by every target
        self.seen = 0               # so many of them were met
        self.is_waiting = False     # one was not answered: nothing more until somebody has looked
        self.gone = collections.deque(maxlen=KEPT_GONE)
        self.picked = []            # some of base
        self.actual = None
        self.requests = self.unanswered = self.entries = 0

    def draw(self):
        """(verb, addresses) of the next request."""
        now = self.state(len(self.open))
        if self.is_bulk:
            if len(now) < BULK:
                return "add", self.new(BULK)
            return ("flush", tuple(now)) if self.random.random() < 0.3 else ("del", tuple(now))
        count = self.random.randint(1, MOST_AT_ONCE)
        if now and self.random.random() < (0.35 if len(now) < MOST_ENTRIES else 0.8):
            return "del", tuple(self.random.sample(tuple(now), min(count, len(now))))
        addresses = self.new(count)
        if len(self.gone) > AGAIN_AFTER and self.random.random() < 0.2:
            addresses = (self.gone.popleft(), *addresses)
        if now and self.random.random() < 0.1:  # is renewed
            addresses = (self.random.choice(tuple(now)), *addresses)
        return "add", addresses

    def new(self, count):
        self.fresh += count
        return tuple(range(self.fresh - count, self.fresh))

    def change(self, session):
        """One request. Whether it was answered with ok."""
        if self.is_waiting:
            hold(0.02)
            return False
        with self.model.lock:
            verb, addresses = self.draw()
            self.open.append((verb, addresses))
            self.pending.update(addresses)
            self.requests += 1
        try:
            answer = session.call(verb, name=self.list, **({} if verb == "flush" else {"entries": [text_of(one) for one in addresses]}))
        except SessionError:
            self.is_waiting = True
            self.unanswered += 1
            raise
        with self.model.lock:
            if answer.get("ok"):
                self.become(len(self.open))
                self.entries += len(addresses)
                self.model.acknowledge(answer["generation"])
            elif "added" in answer:  # in the journal, but not everywhere
                self.taken = len(self.open)
            else:  # not done
                self.open.pop()
                self.pending = {one for _, some in self.open for one in some}
        if not answer.get("ok"):
            hold(0.02)
        return bool(answer.get("ok"))

    def state(self, count):
        state = set(self.base)
        for verb, addresses in self.open[:count]:
            (state.update if verb == "add" else state.difference_update)(addresses)
        return state

    def become(self, count):
        """So many open requests are acknowledged."""
        state = self.state(count)
        left = self.base - state
        for one in left if len(left) <= KEPT_GONE else self.random.sample(tuple(left), KEPT_GONE // 4):
            self.gone.append(one)
        self.base, self.open, self.pending = state, [], set()
        self.taken = self.seen = 0
        self.picked = self.random.sample(tuple(state), min(64, len(state)))

    # What is there.
    def stable(self):
        """[(address, whether it is dropped)] that no open request names."""
        chosen = self.random.sample(self.picked, min(8, len(self.picked)))
        found = [(one, True) for one in chosen if one not in self.pending]
        gone = [self.random.choice(self.gone) for _ in range(3)] if self.gone else []
        return found + [(one, False) for one in gone if one not in self.pending and one not in self.base]

    def still(self, address, is_dropped):
        return address not in self.pending and (address in self.base) == is_dropped

    def sources(self):
        """Addresses that tell the state, and whether something acknowledged is missing."""
        with self.model.lock:
            found = set(self.picked) | set(self.random.sample(tuple(self.gone), min(40, len(self.gone)))) | {self.fresh + 1}
            for _, addresses in self.open:
                found.update((addresses[0], addresses[-1], *self.random.sample(addresses, min(30, len(addresses)))))
        return sorted(found)

    def compare(self, fates, is_exact=False):
        """[(kind, text)]. fates: {address: whether it was dropped}. is_exact: it must be the state that controld has."""
        with self.model.lock:
            asked = set(fates)
            found = {one for one, is_dropped in fates.items() if is_dropped}
            last = self.seen if is_exact else len(self.open)
            for count in range(self.seen, last + 1):
                if self.state(count) & asked == found:
                    self.seen = count
                    return []
            return self.differences(found, self.state(self.seen) & asked)

    def compare_all(self, entries):
        """As compare(), with all that controld says."""
        with self.model.lock:
            self.actual = {number_of(entry) for entry in entries}
            for count in range(max(self.seen, self.taken), len(self.open) + 1):
                if self.state(count) == self.actual:
                    self.seen = count
                    return []
            return self.differences(self.actual, self.state(max(self.seen, self.taken)))

    def differences(self, found, expected):
        named = {one for _, addresses in self.open for one in addresses}
        missing, surplus = expected - found - named, found - expected - named
        texts = [("lost", f"{self.list}: {text_of(one)} was acknowledged, and is missing") for one in sorted(missing)[:50]]
        texts += [("older", f"{self.list}: {text_of(one)} is back, its deletion was acknowledged") for one in sorted(surplus)[:3]]
        if not texts:
            taken = f"{len(self.open)} requests were not acknowledged, {self.taken} of them taken, {self.seen} seen: "
            texts.append(("lost", f"{self.list}: a request was done in part, or what was seen is gone; " + taken + ", ".join(
                f"{verb} of {len(addresses)}, {len(found.intersection(addresses))} of them there" for verb, addresses in self.open)))
        return texts

    def settle(self):
        """Goes on from what controld has."""
        with self.model.lock:
            self.become(self.seen)
            if self.actual is not None and self.actual != self.base:  # said already
                self.base = self.actual
                self.picked = self.random.sample(tuple(self.base), min(64, len(self.base)))
            self.gone = collections.deque((one for one in self.gone if one not in self.base), maxlen=KEPT_GONE)
            self.actual, self.is_waiting = None, False


class Question:
    """A sweep's addresses, and what was known when it began."""

    def __init__(self, sources, lows, fixed, stable):
        self.sources, self.lows, self.fixed, self.stable = sources, lows, fixed, stable


class Model:
    def __init__(self, folder, seed):
        self.lock = threading.RLock()
        self.random = random.Random(f"{seed} model")
        self.folder, self.policy = folder, os.path.join(folder, "weir.yaml")
        self.epoch, self.number = None, 0   # of the newest acknowledged generation
        self.turn = Versions("turn", 0x0A100000, seed)
        self.feeds = [Feed("small", 0x0A110000, seed, os.path.join(folder, "small.txt"), self.lock),
                      Feed("big", 0x0A120000, seed, os.path.join(folder, "big.txt"), self.lock)]
        self.versions = [self.turn, *self.feeds]
        self.clients = [Client(number, seed, self) for number in range(4)]

    def acknowledge(self, generation):
        with self.lock:
            self.epoch, self.number = generation["epoch"], max(self.number, generation["number"])

    def write_policy(self):
        turn = self.turn.high + 1
        text = POLICY.format(turn=turn, dynamic="".join(DYNAMIC.format(name=client.list) for client in self.clients),
                             entries=", ".join(text_of(address) for address in self.turn.listed(turn)))
        with open(self.policy + ".new", "w", encoding="ascii") as file:
            file.write(text)
        with self.lock:
            self.turn.high = turn
            os.rename(self.policy + ".new", self.policy)
        return turn

    def reload(self, session):
        """Whether a new policy was acknowledged; with it all that feeds held whole."""
        turn = self.write_policy()
        with self.lock:
            whole = [(feed, feed.high, feed.times_written) for feed in self.feeds if not feed.is_written]
        answer = session.call("reload")
        if not answer.get("ok"):
            hold(0.02)
            return False
        with self.lock:
            self.turn.low = max(self.turn.low, turn)
            self.turn.at_rest = self.turn.low
            for feed, version, times_written in whole:
                if feed.times_written == times_written:
                    feed.low = max(feed.low, version)
            self.acknowledge(answer["generation"])
        return True

    def controld_started(self, turn):
        """It has read a policy that is not older, and that is enforced soon."""
        with self.lock:
            self.turn.at_rest = max(self.turn.at_rest, turn)

    def question(self):
        with self.lock:
            fixed = [(0x0B000000 + 3 * self.random.randrange(MEMBERS), True) for _ in range(6)]
            fixed += [(0x0E000000 + self.random.randrange(1 << 24), False) for _ in range(4)]
            stable = [(client, *one) for client in self.clients for one in client.stable()]
            sources = [address for one in self.versions for address in one.addresses]
            sources += [address for address, _ in fixed] + [address for _, address, _ in stable]
            self.random.shuffle(sources)
            return Question(list(dict.fromkeys(sources)), {one.kind: one.low for one in self.versions}, fixed, stable)

    def judge(self, question, fates, is_at_once=False):
        """[(kind, text)] of what is wrong. is_at_once: nothing changed meanwhile."""
        fates = dict(zip(question.sources, fates))
        wrong = []
        with self.lock:
            for one in self.versions:
                wrong += one.judge(fates, question.lows[one.kind], is_at_once)
            for address, is_dropped in question.fixed:
                if fates[address] != is_dropped:
                    wrong.append(("lost", f"{text_of(address)} was {'dropped' if fates[address] else 'passed'}, which never is right"))
            for client, address, is_dropped in question.stable:
                if fates[address] != is_dropped and client.still(address, is_dropped):
                    wrong.append(("older" if fates[address] else "lost",
                                  f"{client.list}: {text_of(address)} was {'dropped' if fates[address] else 'passed'}"))
        return wrong
