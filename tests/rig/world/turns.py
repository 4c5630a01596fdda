"""Numbered policies on a data plane whose packets tell which of them judges. Root, for interfaces. Standard library only.

Policy number `turn` drops 32 addresses or passes them, each as a bit of the turn's signature says, which is random: from the
verdicts on all of them follows the turn. Besides, all policies drop `members`, pass `friends` although members names them, and
pass strangers. Frames go in by one veth; what passes comes back there, what is dropped comes out of another one, so that
each frame is accounted for.
"""

import errno
import ipaddress
import os
import random
import select
import socket
import struct
import subprocess
import threading

from namespaces import own_network
from pace import hold
from session import SLOW_SECONDS, Memory, Session, is_slow, tail
from until import Patience, until

PORT_IN, PORT_DROPPED = "in0", "drop0"           # the data plane's ends; ours are in1 and drop1
VDEVS = (f"net_af_packet0,iface={PORT_IN}", f"net_af_packet1,iface={PORT_DROPPED}")
CONFIG = "forward: hairpin\nports: [{port: 0}]\ndrop_port: 1\nidle: {mode: interrupt, sleep_us: 100}"
MBUFS = 4096
SIGNATURE_BITS = 32
MEMBERS, WIDE = 2000, 150_000
PAUSE_SECONDS = 0.003         # between two sweeps
UNANSWERED_SECONDS = 0.02, 0.3  # how long a sweep waits that a data plane which is not up need not answer: the first, the most
ROOM_SECONDS = 1              # until a full queue takes a frame again
LOST_SECONDS = 10             # after which a frame that a running data plane took is lost
KEPT_SWEEPS = 4096
MAGIC = b"weirturn"
BEHIND_HEADERS = struct.Struct("!8sIH")  # magic, sweep, frame

MEMBER, STRANGER, FRIEND = "member", "stranger", "friend"


def frame_to(source, sweep, number):
    payload = BEHIND_HEADERS.pack(MAGIC, sweep & 0xFFFFFFFF, number)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, 17, 0, ipaddress.ip_address(source).packed,
                     bytes([192, 0, 2, 1]))
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    udp = struct.pack("!HHHH", 4660, 4661, 8 + len(payload), 0)
    return (b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0" + ip + udp + payload).ljust(60, b"\0")


class World:
    """The addresses of a sweep, and what policy of which turn does to them."""

    def __init__(self, seed):
        self.seed = seed
        random_ = random.Random(seed)
        self.members = [f"10.1.{i >> 8}.{i & 255}" for i in range(MEMBERS)]
        self.friends = random_.sample(self.members, 2)
        self.signed = [f"10.2.0.{i}" for i in range(SIGNATURE_BITS)]
        strangers = [f"10.3.{random_.randrange(256)}.{i}" for i in range(8)]
        members = random_.sample([one for one in self.members if one not in self.friends], 8)
        # (address, kind or bit), mixed, so that what is judged first is of every kind
        self.frames = [*((one, MEMBER) for one in members), *((one, STRANGER) for one in strangers),
                       *((one, FRIEND) for one in self.friends), *((one, bit) for bit, one in enumerate(self.signed))]
        random_.shuffle(self.frames)
        self.templates = [frame_to(one, 0, number) for number, (one, _) in enumerate(self.frames)]

    def signature(self, turn):
        return random.Random(self.seed * 1_000_003 + turn).getrandbits(SIGNATURE_BITS)

    def drops(self, number, turn):
        kind = self.frames[number][1]
        if isinstance(kind, int):
            return bool(self.signature(turn) >> kind & 1)
        return kind == MEMBER

    def policy(self, turn, is_wide):
        dropped = ", ".join(one for bit, one in enumerate(self.signed) if self.signature(turn) >> bit & 1)
        wide = "  - {name: wide, action: drop, match: src, file: wide.txt}\n" if is_wide else ""
        return (f"version: 1\n# turn {turn}\nlists:\n"
                f"  - {{name: friends, action: pass, match: src, entries: [{', '.join(self.friends)}]}}\n"
                "  - {name: members, action: drop, match: src, file: members.txt}\n"
                f"  - {{name: signed, action: drop, match: src, entries: [{dropped}]}}\n{wide}")

    def turn_of(self, verdicts, turns):
        """("bypass", None), ("turn", number) or ("wrong", text): what judged a sweep of which every frame came back.
        verdicts: by frame, True: dropped."""
        if not any(verdicts):
            return "bypass", None
        for number, (address, kind) in enumerate(self.frames):
            if not isinstance(kind, int) and verdicts[number] != (kind == MEMBER):
                return "wrong", f"{kind} {address} was {'dropped' if verdicts[number] else 'passed'}"
        found = sum(1 << kind for number, (_, kind) in enumerate(self.frames) if isinstance(kind, int) and verdicts[number])
        for turn in turns:
            if self.signature(turn) == found:
                return "turn", turn
        return "wrong", f"the signature {found:08x} is no policy's"


class Truth:
    """What may be enforced. Whoever gives an order says so before and after; the traffic is judged by it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.low = self.high = 0        # turns: the newest that is known to be enforced, the newest that was written
        self.number = ("", 0)           # (epoch, number) of the newest generation that was acknowledged
        self.bypass = {False}           # what it may be
        self.life = 0                   # of the data plane: rises when it is killed
        self.open = {}                  # sweep: (low, set of what bypass may have been since)

    def may_bypass(self, states):
        with self.lock:
            self.bypass = set(states)
            for _, seen in self.open.values():
                seen |= self.bypass

    def write(self, turn):
        with self.lock:
            self.high = turn

    def raise_low(self, turn):
        with self.lock:
            self.low = max(self.low, turn)

    def acknowledge(self, turn, generation):
        with self.lock:
            self.low = max(self.low, turn)
            self.number = (generation["epoch"], generation["number"])

    def killed(self):
        with self.lock:
            self.life += 1


class Traffic(threading.Thread):
    """Sweeps without end, each judged; what is wrong is in `wrong`: texts."""

    def __init__(self, world, truth):
        super().__init__(daemon=True)
        self.world, self.truth = world, truth
        self.inside, self.dropped = packet_socket("in1"), packet_socket("drop1")
        self.number = 0
        self.patience = UNANSWERED_SECONDS[0]
        self.answering = -1               # the life of the data plane that has answered a whole sweep
        self.begun, self.whole = 0, None  # of sweeps; the last whole one: (number, verdicts)
        self.is_ended = threading.Event()
        self.wrong = []
        self.packets = self.lost = 0
        self.lock = threading.Lock()  # guards wrong

    def stop(self):
        self.is_ended.set()
        if self.is_alive():
            self.join()
        for one in (self.inside, self.dropped):
            one.close()

    def take_wrong(self):
        with self.lock:
            wrong, self.wrong = self.wrong, []
        return wrong

    def say_wrong(self, text):
        with self.lock:
            if len(self.wrong) < 100:
                self.wrong.append(text)

    def run(self):
        try:
            while not self.is_ended.is_set():
                self.sweep()
                hold(PAUSE_SECONDS)
        except Exception as error:  # pylint: disable=broad-except  # a thread that ends silently judges nothing
            self.say_wrong(f"the traffic ended: {type(error).__name__} {error}")

    def sweep(self):
        self.number += 1
        number, truth = self.number, self.truth
        with truth.lock:
            life = truth.life
            truth.open[number] = (truth.low, set(truth.bypass))
            truth.open.pop(number - KEPT_SWEEPS, None)
        for template in self.world.templates:
            frame = template[:50] + struct.pack("!I", number) + template[54:]
            until("room for a frame", lambda one=frame: self.is_sent(one), ROOM_SECONDS, error=None, turn=0.001)
        verdicts = [None] * len(self.world.frames)
        missing = len(verdicts)
        is_answering = self.answering == life
        patience = Patience(LOST_SECONDS if is_answering else self.patience)
        while missing and not self.is_ended.is_set():
            for sweep, frame, is_dropped in self.receive():
                self.judge(sweep, frame, is_dropped)
                if sweep == number:
                    missing -= verdicts[frame] is None
                    verdicts[frame] = is_dropped
            if missing and (truth.life != life or patience.is_over()):
                break
        with truth.lock:
            is_same_life = truth.life == life
            turns, bypass = range(truth.low, truth.high + 1), truth.open[number][1]
        if not missing:
            self.finish(number, verdicts, turns, bypass, life)
        elif not is_answering:  # one that is up may be slow
            self.patience = min(2 * self.patience, UNANSWERED_SECONDS[1])
        elif is_same_life and not self.is_ended.is_set():
            self.lost += missing
            self.say_wrong(f"{missing} frames of a sweep did not come back")

    def is_sent(self, frame):
        """False: the queue is full."""
        try:
            self.inside.send(frame)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                raise
            return False
        return True

    def finish(self, number, verdicts, turns, bypass, life):
        self.packets += len(verdicts)
        self.answering, self.patience = life, UNANSWERED_SECONDS[0]
        if bypass == {False}:
            what, turn = self.world.turn_of(verdicts, turns)
            if what == "turn":  # else a swap went through it: each frame was judged by itself
                self.truth.raise_low(turn)
        self.whole = (number, verdicts)

    def receive(self):
        """[(sweep, frame, is_dropped)] that are there, after waiting for some."""
        found = []
        ready, _, _ = select.select([self.inside, self.dropped], [], [], 0.01)
        for one in ready:
            while True:
                try:
                    data = one.recv(2048)
                except BlockingIOError:
                    break
                if data[42:50] == MAGIC:
                    _, sweep, frame = BEHIND_HEADERS.unpack_from(data, 42)
                    found.append((sweep, frame, one is self.dropped))
        return found

    def judge(self, sweep, frame, is_dropped):
        """By all that may have been enforced between the frame's departure and now."""
        with self.truth.lock:
            if sweep not in self.truth.open:
                return
            low, bypass = self.truth.open[sweep]
            high, bypass = self.truth.high, set(bypass)
        if True in bypass and not is_dropped:
            return
        if False in bypass and any(self.world.drops(frame, turn) == is_dropped for turn in range(low, high + 1)):
            return
        address, kind = self.world.frames[frame]
        self.say_wrong(f"{address} ({kind}) was {'dropped' if is_dropped else 'passed'}, between turns {low} and {high}"
                       + (", with bypass on" if bypass == {True} else ""))

    def look(self, seconds=30):
        """Verdicts on a whole sweep that begins after now; None: there was none in time."""
        after = self.number
        is_there = until("a whole sweep", lambda: self.whole is not None and self.whole[0] > after, seconds, error=None, turn=0.002)
        return self.whole[1] if is_there else None


def packet_socket(interface):
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    one.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
    one.bind((interface, 0))
    one.setblocking(False)
    return one


def make_interfaces():
    """In a network of this process's own."""
    own_network()
    for ours, theirs in (("in1", PORT_IN), ("drop1", PORT_DROPPED)):
        for command in (("link", "add", theirs, "type", "veth", "peer", "name", ours), ("link", "set", theirs, "up"),
                        ("link", "set", ours, "up")):
            subprocess.run(("ip", *command), check=True)


class Rig:
    """A session whose policies are numbered, and what is known of it. What a test finds wrong it says with `say`."""

    def __init__(self, session: Session, seed):
        self.session, self.random = session, random.Random(seed)
        self.world, self.truth = World(seed), Truth()
        self.traffic = Traffic(self.world, self.truth)
        self.policy = session.path("weir.yaml")
        with open(session.path("members.txt"), "w", encoding="ascii") as file:
            file.writelines(one + "\n" for one in self.world.members)
        with open(session.path("wide.txt"), "w", encoding="ascii") as file:
            file.writelines(f"{20 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.{i % 253}\n" for i in range(WIDE))
        session.at_exit(lambda: self.traffic.stop())  # pylint: disable=unnecessary-lambda  # there may be another one then

    def new_traffic(self):
        self.traffic.stop()
        self.traffic = Traffic(self.world, self.truth)

    def write(self, is_wide=False):
        """The next policy, in one step."""
        turn = self.truth.high + 1
        with open(self.policy + ".next", "w", encoding="ascii") as file:
            file.write(self.world.policy(turn, is_wide))
        self.truth.write(turn)
        os.replace(self.policy + ".next", self.policy)
        return turn

    def start_dataplane(self):
        # Without --wait-for-snapshot: what it has on disk judges the first frame, or everything passes.
        self.session.start_dataplane(CONFIG, VDEVS, 1, Memory(MBUFS, 2048), extra=())

    def start_controld(self):
        self.session.start_controld(self.policy)

    def begin(self):
        """Both, with the first policy enforced, under packets."""
        turn = self.write()
        self.start_dataplane()
        self.start_controld()
        self.session.wait_enforced()
        self.truth.acknowledge(turn, self.session.call("status")["generation"])
        self.traffic.start()

    def reload(self, is_wide=False):
        """The answer."""
        turn = self.write(is_wide)
        answer = self.session.call("reload")
        if answer.get("ok"):
            self.truth.acknowledge(turn, answer["generation"])
        return answer

    def bypass(self, is_on):
        self.truth.may_bypass(self.truth.bypass | {is_on})
        answers = []

        def is_answered():
            answers.append(self.session.call("bypass", on=is_on))
            return answers[-1].get("ok") or not is_slow(answers[-1])

        until("an order of the panic switch", is_answered, SLOW_SECONDS, error=None)
        answer = answers[-1]
        if answer.get("ok"):
            self.truth.may_bypass({is_on})
        return answer

    def kill(self, name):
        if name == "dataplane":
            self.truth.killed()  # no frame is missed from now on
        self.session.kill(name)
        if name == "dataplane":
            self.truth.killed()  # nor of a sweep that began before it was dead

    def look(self):
        """("bypass", None), ("turn", number) or ("wrong", text): what judges packets now."""
        verdicts = self.traffic.look()
        if verdicts is None:
            return "wrong", "no packet comes back:\n" + tail(self.session.log("dataplane"))
        with self.truth.lock:
            turns = range(self.truth.high, -1, -1)
        return self.world.turn_of(verdicts, turns)

    def expect(self, is_newest=True):
        """Texts: what is wrong with what judges packets now. is_newest: it must be the newest policy that was written; else
        also one before it, down to what was known to be enforced."""
        with self.truth.lock:
            low, bypass = self.truth.low, set(self.truth.bypass)
        what, turn = self.look()
        with self.truth.lock:
            high, bypass = self.truth.high, bypass | self.truth.bypass
        low = high if is_newest else low
        if what == "wrong":
            return [f"lost: {turn}"]
        if what == "bypass":
            return [] if True in bypass else ["lost: everything passes"]
        if False not in bypass:
            return [f"lost: bypass is on, and turn {turn} judges"]
        if low <= turn <= high:
            return []
        return [f"{'older' if turn < low else 'lost'}: turn {turn} judges, not one from {low} to {high}"]
