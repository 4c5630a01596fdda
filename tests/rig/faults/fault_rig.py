"""controld and its enforcer under tests/inject/faults.cpp: a switch for each, under which calls of the kernel fail and clocks
jump; packets that tell whether what is blocked stays blocked, and what is innocent passes. Standard library only."""

import json
import mmap
import os
import socket
import struct
import time

from capture import Capture, write_capture
from session import Memory, Session, SessionError, is_slow, tail
from until import until
from wire import WIRE_HEADER, WIRE_STATS, question

LIBRARY = "tests/inject/faults.so"

# As tests/inject/fault_slots.h.
CALLS = ("open", "socket", "accept", "connect", "memfd", "dup", "event", "watch", "read", "write", "sync", "receive", "send",
         "rights", "wait", "map", "truncate", "bpf", "name", "thread", "fork")
KINDS = {"file": 1, "state": 2, "stream": 4, "packet": 8, "netlink": 16, "feed": 32, "snapshot": 64}
SHORT, LOST, HELD = 10_001, 10_002, 10_003
WHO = {"everybody": 0, "program": 1, "children": 2}
HEAD, SLOT = struct.Struct("<QQqqq"), struct.Struct("<IiIIQQQQQ")
MAGIC = 0x5745495246000000 + len(CALLS)
ALWAYS = (1 << 64) - 1

# What a data plane answers to WIRE_STATS (common/wire.h).
TOTALS = ("packets", "bytes", "passed", "dropped", "malformed", "not_ip", "incomplete", "default_passed", "default_dropped",
          "bypassed", "no_snapshot_passed", "no_snapshot_dropped")
STATS_BYTES, LIST_BYTES = 160, 160

ANSWER_SECONDS = 30   # for one request, whatever fails
SETTLE_SECONDS = 30   # after the fault: connected and acknowledged again
YEAR = 365 * 86400
DAY = 86400
SECOND_NS = 1_000_000_000


class Switch:
    """The memory that a program under tests/inject/faults.cpp looks into at each call."""

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(HEAD.size + SLOT.size * len(CALLS)))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        HEAD.pack_into(self.memory, 0, MAGIC, 1, 0, 0, 0)

    def environment(self, build):
        """Variables for a program that is to be started under it."""
        return {"LD_PRELOAD": os.path.join(os.path.abspath(build), LIBRARY), "WEIR_FAULTS": self.path}

    def _at(self, call):
        return HEAD.size + SLOT.size * CALLS.index(call)

    def arm(self, call, error=0, first=1, last=ALWAYS, every=1, who="everybody", kinds=()):
        """From now on, of the calls first to last each, or every other one, ends so; error 0: they are only counted."""
        mask = sum(KINDS[kind] for kind in kinds)
        SLOT.pack_into(self.memory, self._at(call), 0, error, WHO[who], mask, first, last, every, 0, 0)
        struct.pack_into("<I", self.memory, self._at(call), 1)

    def counts(self, call):
        """(calls, how many of them failed) since arm()."""
        return SLOT.unpack_from(self.memory, self._at(call))[7:9]

    def disarm(self):
        """Nothing fails any more, and calls that were held go on."""
        for call in CALLS:
            struct.pack_into("<I", self.memory, self._at(call), 0)

    def ahead(self, realtime=0, monotonic=0, boottime=0):
        """Seconds that the program's clocks are ahead."""
        struct.pack_into("<qqq", self.memory, 16, realtime * SECOND_NS, monotonic * SECOND_NS, boottime * SECOND_NS)

    def pass_time(self, seconds):
        """Time passes, in the program alone: what it waits for comes, as it would."""
        ahead = struct.unpack_from("<qqq", self.memory, 16)
        struct.pack_into("<qqq", self.memory, 16, *(one + int(seconds * SECOND_NS) for one in ahead))

    def time_of_day(self):
        """The program's."""
        return time.time() + struct.unpack_from("<q", self.memory, 16)[0] / SECOND_NS

    def set_time_of_day(self, seconds):
        """Sets the program's time of day; its other clocks stay."""
        struct.pack_into("<q", self.memory, 16, seconds * SECOND_NS - time.time_ns())


def udp_frame(source):
    payload = struct.pack(">HHHH", 1024, 53, 26, 0) + bytes(18)
    return (bytes.fromhex("020000000002020000000001") + struct.pack(">H", 0x0800)
            + struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, 17, 0) + socket.inet_aton(source)
            + socket.inet_aton("203.0.113.1") + payload)


# What is sent, again and again. Every frame is of a list that passes or drops it, so that one that passes by default, or
# because there is no snapshot, or by bypass, is one that was unblocked: counters say so, however short the moment.
GROUPS = {"innocents": ("192.0.2.", 8), "blocked": ("198.18.0.", 8), "expiring": ("198.18.1.", 4), "left": ("198.18.2.", 4),
          "right": ("198.18.3.", 6)}
FRAMES = [udp_frame(f"{prefix}{1 + i}") for prefix, count in GROUPS.values() for i in range(count)]
LISTS = ("turn", "innocents", "blocked", "expiring", "both")
MOST_READINGS = 20
UNBLOCKED = ("default_passed", "no_snapshot_passed", "bypassed")
WRONGLY_DROPPED = ("default_dropped", "no_snapshot_dropped")
POLICY = """version: 1
{targets}
lists:
  - {{name: turn, action: pass, file: turn.txt}}
  - {{name: innocents, action: pass, entries: [192.0.2.0/24]}}
  - {{name: blocked, action: drop, entries: [198.18.0.0/24]}}
  - {{name: expiring, action: drop, entries: [{{entry: 198.18.1.0/24, expires: {expires}}}]}}
  - {{name: both, action: drop, entries: [198.18.2.0/23]}}
"""
OTHERS = "".join(f"100.64.{i >> 8}.{i & 255}\n" for i in range(2000))  # a feed of some length


class Wrong(Exception):
    """What the programs did, and should not have."""


class Rig:
    """controld and a data plane that loops packets, each with a switch."""

    enforcer = "dataplane"
    programs = ("controld", "dataplane")

    def __init__(self, build):
        self.session = Session(build)
        self.session.seccomp = "kill"
        self.switches = {name: Switch(self.session.path(f"{name}.faults")) for name in self.programs}
        self.passes = "left"

    def __enter__(self):
        self.session.__enter__()
        self.write_policy()
        self.write_turn()
        self.start()
        return self

    def __exit__(self, *error):
        self.session.__exit__(*error)

    def targets(self):
        return ""

    def write_policy(self):
        expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + YEAR // 2))
        with open(self.session.path("weir.yaml"), "w", encoding="ascii") as file:
            file.write(POLICY.format(targets=self.targets(), expires=expires))

    def write_turn(self):
        prefix = GROUPS[self.passes][0]
        path = self.session.path("turn.txt")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{prefix}0/24\n{OTHERS}")
        os.rename(path + ".new", path)

    def turn(self):
        self.passes = "right" if self.passes == "left" else "left"
        self.write_turn()

    def preloaded(self, name):
        self.session.environment = self.switches[name].environment(self.session.build)

    def start(self):
        capture = Capture(frames=FRAMES, headers=[(0, 0, len(frame)) for frame in FRAMES])
        write_capture(self.session.path("in.pcap"), capture)
        self.start_dataplane()
        self.start_controld()
        self.session.wait_enforced()

    def start_dataplane(self, extra=("--wait-for-snapshot",)):
        self.preloaded("dataplane")
        config = "forward: hairpin\nports: [{port: 0, queues: 1}]\nprivileges: {user: root, seccomp: kill}"
        self.session.start_dataplane(config, ["net_pcap0,rx_pcap=in.pcap,infinite_rx=1"], 1, Memory(len(FRAMES) + 2048, 1518),
                                     extra=extra)

    def restart(self, name):
        """As after a crash. "ok", or why it ended; how it ended is looked at."""
        self.session.kill(name)
        try:
            if name == "controld":
                self.start_controld()
            else:
                self.start_dataplane(extra=())  # takes packets at once: what it has on disk is enforced, or nothing
        except SessionError as error:
            return self.ended(name, str(error))
        return "ok"

    def ended(self, name, text):
        process = getattr(self.session, name)
        if process.poll() is None:
            raise Wrong(text)
        setattr(self.session, name, None)
        if process.returncode < 0:
            raise Wrong(f"{name} ended by signal {-process.returncode}: {text}")
        lines = text.splitlines()
        if len(lines) < 2:
            raise Wrong(f"{name} ended without a word")
        return f"it does not start: {lines[-1]}"

    def mend(self):
        """After a case that failed: both are started anew, on a disk of their own that is well."""
        for name in self.programs:
            process = getattr(self.session, name)
            if process is not None:
                self.session.kill(name)
        self.complete()
        self.session.wait_enforced()
        self.switch(False)

    def complete(self):
        """Starts what did not start, now that nothing fails."""
        if self.session.dataplane is None and "dataplane" in self.programs:
            self.start_dataplane()
        if self.session.controld is None:
            self.start_controld()

    def start_controld(self):
        self.preloaded("controld")
        self.session.start_controld(self.session.path("weir.yaml"))

    # What the programs say.

    def ask(self, command, **fields):
        """The answer of controld; or why there is none, as text."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            answer = b""
            try:
                name = "controld.sock.bypass" if command == "bypass" else "controld.sock"
                connection.connect(self.session.path(name))
                connection.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
                while part := connection.recv(1 << 16):
                    answer += part
                return json.loads(answer)
            except TimeoutError:
                raise Wrong(f"{command}: no answer within {ANSWER_SECONDS} s") from None
            except (OSError, ValueError) as error:
                return f"no answer: {error}" if not answer else f"half an answer: {answer[:80]!r}"

    def ask_well(self, command, **fields):
        answer = self.ask(command, **fields)
        if isinstance(answer, str):
            raise Wrong(f"{command} when nothing fails any more: {answer}")
        return answer

    def switch(self, on):
        """The answer to an order of the panic switch, given again while it is in force and a slow disk does not have it yet."""
        answers = []

        def is_answered():
            answers.append(self.ask_well("bypass", on=on))
            return answers[-1]["ok"] or not is_slow(answers[-1])

        until("an order of the panic switch", is_answered, SETTLE_SECONDS, error=None)
        return answers[-1]

    # What packets meet.

    def counters(self):
        """{total or list: packets} as the data plane has them, asked without controld."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(self.session.path("dataplane.sock"))
            connection.send(question(WIRE_STATS))
            body = connection.recv(1 << 17)[WIRE_HEADER.size:]
        if len(body) < STATS_BYTES:
            raise OSError("no counters")
        found = dict(zip(TOTALS, struct.unpack_from(f"<{len(TOTALS)}Q", body, 24)))
        for at in range(STATS_BYTES, len(body), LIST_BYTES):
            name = body[at:at + 64].split(b"\0")[0].decode()
            found[f"dropped by {name}"], found[f"passed by {name}"] = struct.unpack_from("<8x2Q", body, at + 64)
        return found

    def traffic(self, packets=6000):
        """How the counters grow over some packets."""
        before, after = self.counters(), {}

        def are_judged():
            after.update(self.counters())
            return after["packets"] >= before["packets"] + packets

        until("packets to be judged", are_judged, SETTLE_SECONDS, Wrong, turn=0.002)
        return {name: after[name] - before.get(name, 0) for name in after}

    def wait_for_clock(self):
        """Until the enforcer has read its clock. It does so in a thread of its own, which sleeps in between."""
        before = self.clock_turns()
        until("the data plane to read its clock", lambda: self.clock_turns() >= before + 2, SETTLE_SECONDS, Wrong)

    def clock_turns(self):
        """How often that thread has slept."""
        folder = f"/proc/{self.session.dataplane.pid}/task"
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/status", encoding="utf-8") as file:
                text = file.read()
            if text.startswith("Name:\tweir-clock\n"):
                return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
        raise Wrong("the data plane has no thread that reads its clock")

    def passing(self):
        """Which group passes by `turn`, of left and right."""
        for _ in range(MOST_READINGS):
            grown = self.traffic()
            # A worker that went on between the totals and the lists, as they were read, says nothing of verdicts.
            credited = sum(grown[f"{verdict} by {name}"] for name in LISTS for verdict in ("passed", "dropped"))
            if abs(credited - grown["packets"]) * 50 <= grown["packets"]:
                break
        share = grown["passed by turn"] / max(1, grown["packets"]) * len(FRAMES)
        for name in ("left", "right"):
            if abs(share - GROUPS[name][1]) < 0.9:
                return name
        raise Wrong(f"neither left nor right passes: {grown}")

    def watch(self):
        """Begins to watch; check_watch() says whether a packet was unblocked, or an innocent one dropped, since."""
        return self.counters()

    def check_watch(self, before, may=()):
        after = self.counters()
        for name in (*UNBLOCKED, *WRONGLY_DROPPED, "malformed", "not_ip"):
            grown = after[name] - before[name]
            if grown and name not in may:
                raise Wrong(f"{grown} packets are {name}")
        for name in ("blocked", "innocents"):
            counter = f"{'passed' if name == 'innocents' else 'dropped'} by {name}"
            if after[counter] <= before[counter]:
                raise Wrong(f"nothing more is {counter}")

    def check_alive(self):
        for name in ("dataplane", "controld"):
            process = getattr(self.session, name)
            if process is not None and process.poll() is not None:
                raise Wrong(f"{name} ended with {process.returncode}:\n{tail(self.session.log(name), 5)}")

    def settle(self):
        """Nothing fails any more: controld and the enforcer come to terms by themselves."""
        self.complete()
        errors = []

        def settled():
            self.check_alive()
            status = self.ask_well("status")
            target, = status["targets"]
            errors.append(target["last_error"] or "not acknowledged")
            return status if (target["connected"] and target["acknowledged"] and target["generation"] == status["generation"]
                              and all(interface["attached"] for interface in target.get("interfaces", ()))) else None

        return until("the enforcer afterwards", settled, SETTLE_SECONDS, Wrong, about=lambda: f": {errors[-1]}")

    def published(self):
        """Which group passes by what controld has published. It may publish between two questions: then they are asked again."""
        while True:
            answers = {name: self.ask_well("explain", key=f"{GROUPS[name][0]}1") for name in ("left", "right")}
            for name, answer in answers.items():
                if answer["as_source"]["action"] == "pass":
                    return name
            if answers["left"]["generation"] == answers["right"]["generation"]:
                raise Wrong("explain says that neither left nor right passes")
