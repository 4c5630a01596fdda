"""Figures of `controlctl explain --generation`: whether it names list, line and generation rightly, and how long it takes at a million
entries, when each generation had other ones. What is right says a model of its own: dictionaries of addresses."""

import bisect
import ipaddress
import random
import statistics
import time

from figure import at_most
from rig import PlacedSession, say
from session import SessionError

HOSTS, NETS = 1_000_000, 20_000
GENERATIONS, QUESTIONS = 50, 1000
CHANGED_HOSTS, CHANGED_NETS = 2000, 100
EXPLAIN_MS = 50

POLICY = """version: 1
targets: []
history: {keep: 1d, size: 4GiB}
filter: {memory: 2GiB}
lists:
  - {name: allow, action: pass, entries: [100.64.0.0/10, 198.18.0.0/15]}
  - {name: bans, action: drop, dynamic: true}
  - {name: hosts, action: drop, file: hosts-NUMBER.txt}
  - {name: nets, action: drop, file: nets-NUMBER.txt}
"""
ALLOWED = [ipaddress.ip_network(text) for text in ("100.64.0.0/10", "198.18.0.0/15")]


def text_of(address):
    return str(ipaddress.IPv4Address(address))


class Model:
    """What each generation had. An entry is (list, first, last); its times are the generations that began and ended it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.hosts, self.nets, self.bans = [], [], set()  # in the order of their lines
        self.known = set()
        self.times = {}    # entry: [[first generation, first one without it or None], ...]
        self.content = {}  # generation: (hosts, nets, bans) as they were
        self.pending = []  # changes since the last generation: (entry, is it there)

    def new_host(self):
        while True:
            host = self.random.randrange(1 << 24, 224 << 24)
            if host not in self.known:
                self.known.add(host)
                self.pending.append((("hosts", host, host), True))
                return host

    def new_net(self):
        while True:
            bits = self.random.randrange(20, 29)
            first = self.random.randrange(1 << 24, 224 << 24) >> (32 - bits) << (32 - bits)
            net = (first, first + (1 << (32 - bits)) - 1)
            if net not in self.known:
                self.known.add(net)
                self.pending.append((("nets", *net), True))
                return net

    def fill(self):
        self.hosts = [self.new_host() for _ in range(HOSTS)]
        self.nets = [self.new_net() for _ in range(NETS)]

    def change_files(self):
        """Some lines go, others come; what stands between them moves."""
        for entries, new, count, name in ((self.hosts, self.new_host, CHANGED_HOSTS, "hosts"), (self.nets, self.new_net, CHANGED_NETS, "nets")):
            for _ in range(count):
                at = self.random.randrange(len(entries))
                old = entries[at]
                self.pending.append(((name, *(old if isinstance(old, tuple) else (old, old))), False))
                entries[at] = new()
            first = entries.pop(0)
            entries.append(first)

    def change_bans(self):
        """Returns what to add and what to delete."""
        added = [host for host in self.random.sample(self.hosts, 20) if host not in self.bans]
        gone = self.random.sample(sorted(self.bans), min(5, len(self.bans)))
        self.bans |= set(added)
        self.pending += [(("bans", host, host), True) for host in added]
        return added, gone

    def delete(self, gone):
        self.bans -= set(gone)
        self.pending += [(("bans", host, host), False) for host in gone]

    def published(self, generation):
        for entry, is_there in self.pending:
            times = self.times.setdefault(entry, [])
            if is_there:
                times.append([generation, None])
            else:
                times[-1][1] = generation
        self.pending = []
        self.content[generation] = (list(self.hosts), list(self.nets), set(self.bans))

    def questions(self, generation, count):
        """(address, list that drops it, line, entry) of that generation."""
        hosts, nets, bans = self.content[generation]
        lines = {host: line for line, host in reversed(list(enumerate(hosts, 1)))}
        order = sorted((first, last, line) for line, (first, last) in enumerate(nets, 1))
        firsts = [first for first, _, _ in order]
        found = []
        while len(found) < count:
            kind = self.random.random()
            if kind < 0.2 and bans:
                address = self.random.choice(sorted(bans))
            elif kind < 0.6:
                address = self.random.choice(hosts)
            else:
                address = self.random.randint(*self.random.choice(nets))
            if any(ipaddress.IPv4Address(address) in net for net in ALLOWED):
                continue
            if address in bans:
                found.append((generation, address, "bans", 0, ("bans", address, address)))
            elif address in lines:
                found.append((generation, address, "hosts", lines[address], ("hosts", address, address)))
            else:  # no prefix is longer than 4,096 addresses
                at = bisect.bisect_left(firsts, address - 4095)
                holding = [row for row in order[at:bisect.bisect_right(firsts, address)] if row[1] >= address]
                first, last, line = min(holding, key=lambda row: row[2])
                found.append((generation, address, "nets", line, ("nets", first, last)))
        return found

    def time_of(self, entry, generation):
        for since, until in self.times[entry]:
            if since <= generation and (until is None or generation < until):
                return since, until
        raise AssertionError(f"{entry} is not in generation {generation}")


def write_policy(session, model, number):
    """Feeds of other names each time: what changes in a file that is enforced is published at once, before its neighbour changes."""
    with open(session.path(f"hosts-{number}.txt"), "w", encoding="ascii") as file:
        file.write("".join(f"{host >> 24}.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}\n" for host in model.hosts))
    with open(session.path(f"nets-{number}.txt"), "w", encoding="ascii") as file:
        for first, last in model.nets:
            file.write(f"{text_of(first)}/{32 - (last - first).bit_length()}\n")
    with open(session.path("policy.yaml"), "w", encoding="utf-8") as file:
        file.write(POLICY.replace("NUMBER", str(number)))


def must(answer, what):
    if answer.get("error"):
        raise SessionError(f"{what}: {answer['error']}")
    return answer


def publish_all(session, model):
    """Two of three generations are reloads with changed feeds, the third is what `add` and `del` publish."""
    for i in range(GENERATIONS):
        say(f"answers: generation {i + 1} of {GENERATIONS}, of {HOSTS + NETS} entries")
        if i % 3 == 2:
            added, gone = model.change_bans()
            must(session.call("add", name="bans", entries=[text_of(host) for host in added], comment="a model"), "add")
            model.published(session.call("status")["generation"]["number"])
            if gone:
                model.delete(gone)
                must(session.call("del", name="bans", entries=[text_of(host) for host in gone]), "del")
                model.published(session.call("status")["generation"]["number"])
            continue
        if i > 0:
            model.change_files()
            write_policy(session, model, i)
            must(session.call("reload"), "reload")
        model.published(session.call("status")["generation"]["number"])


def differences(answer, question, model, oldest):
    generation, address, name, line, entry = question
    wrong = []
    verdict = answer.get("as_source", {})
    because = verdict.get("because") or {}
    since, until = model.time_of(entry, generation)
    provenance = because.get("provenance") or {}
    told = {
        "generation": (answer.get("generation", {}).get("number"), generation),
        "verdict": (verdict.get("action"), "drop"),
        "list": (verdict.get("reason"), name),
        "line": (because.get("line"), line),
        "file": (because.get("file", "").rsplit("/", 1)[-1].split("-")[0], "controlctl add" if name == "bans" else name),
        "since": (provenance.get("since", {}).get("generation"), max(since, oldest)),
        "until": ((provenance.get("until") or {}).get("generation"), until),
    }
    if name != "bans":
        told["text"] = (provenance.get("text", "").split("/")[0], text_of(entry[1]))
    for what, (is_told, expected) in told.items():
        if is_told != expected:
            wrong.append(f"{text_of(address)} in generation {generation}: {what} is {is_told}, not {expected}")
    return wrong


def explain_of_the_past(build, folder):
    """The time of a call is that of a whole request on controld's socket. After the restart nothing is open yet: the first
    question of each generation reads its files."""
    model = Model(18)
    model.fill()
    wrong, milliseconds = [], []
    with PlacedSession(build) as session:
        path = session.path("policy.yaml")
        write_policy(session, model, 0)
        session.start_controld(path, targets=False)
        publish_all(session, model)
        generations = sorted(model.content)[-GENERATIONS:]
        each = -(-QUESTIONS // len(generations))
        questions = [question for generation in generations for question in model.questions(generation, each)]
        model.random.shuffle(questions)
        oldest = min(model.content)
        for is_restarted in (False, True):
            if is_restarted:
                session.stop("controld")
                session.start_controld(path, targets=False)
            say(f"answers: {len(questions)} drops are explained{', after a restart' if is_restarted else ''}")
            times = []
            for question in questions:
                begin = time.perf_counter()
                answer = session.call("explain", key=text_of(question[1]), number=question[0])
                times.append((time.perf_counter() - begin) * 1e3)
                wrong += [answer["error"]] if answer.get("error") else differences(answer, question, model, oldest)
            milliseconds.append(times)
    for text in wrong[:20]:
        say(f"answers: {text}")
    worst = max(max(times) for times in milliseconds)
    note = "; ".join(f"{name}: median {statistics.median(times):.2f}, first {times[0]:.1f}, greatest {max(times):.1f}"
                     for name, times in zip(("running", "after a restart"), milliseconds))
    entries = f"{len(questions)} drops of {len(generations)} generations of {HOSTS + NETS} entries, twice"
    return ([at_most("answers.explain_wrong", len(wrong), 0, "answers", entries),
             at_most("answers.explain_history_ms", worst, EXPLAIN_MS, "ms", note)],
            {"milliseconds": milliseconds, "wrong": wrong})


MEASUREMENTS = (
    (("answers.explain_wrong", "answers.explain_history_ms"), explain_of_the_past),
)
