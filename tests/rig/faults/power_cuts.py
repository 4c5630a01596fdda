"""Power cuts: what was not synced is lost, in part or in a wrong order.

    python3 tests/rig/faults/power_cuts.py --build DIR [--reloads N] [--starts N] [--seed N]      root: it makes interfaces

controld and the data plane run from nothing, through reloads, orders of bypass and restarts, and each operation on their state
folders is written down (tests/inject/disk.cpp), with the places at which something was acknowledged. Then, for every place
of that journal, folders are made as a disk might hold them after a cut there, and looked at by the programs' own code
(tests/inject/saved_state.cpp); some of them by the programs themselves, under packets.

What a disk may hold, of a file: what was in it when it was synced last, and of what came after nothing, all, a beginning, or its
length with zeros; of a folder: the names it had when it was synced last, and any of the changes after. No order between files
and folders is taken for granted. Prints JSON: {"places", "states", "starts", "lost", "wrong"}.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import rooms  # noqa: E402,F401
from disk import MAKE, OPEN, REMOVE, RENAME, SYNC, TRUNCATE, WRITE, Disk  # noqa: E402 (path first)
from report import report  # noqa: E402
from rig import say  # noqa: E402
from session import Session, SessionError  # noqa: E402
from turns import Rig, make_interfaces  # noqa: E402

SAVED_STATE = "tests/inject/saved_state"
JOURNAL_BYTES = 1 << 30        # most of it is never touched
RANDOM_STATES = 12             # of each place, besides those below
ALL, NOTHING = "all", "nothing"
PROGRAMS = ("controld", "dataplane")


class File:
    def __init__(self, serial):
        self.serial = serial
        self.synced, self.syncs = b"", 0
        self.later = []      # (offset, data) since; (size, None): cut to it

    def sync(self):
        self.synced, self.syncs = self.content(ALL), self.syncs + 1
        self.later = []

    def key(self, how):
        """Two of the same key have the same content."""
        return self.serial, self.syncs, (0, ALL) if how == NOTHING else (len(self.later), how)

    def content(self, how):
        """how: ALL, NOTHING, ("beginning", share) or ("zeros", share): of the bytes that came since."""
        if how == NOTHING or not self.later:
            return self.synced
        whole = bytearray(self.synced)
        for offset, data in self.later:
            if data is None:
                del whole[offset:]
                whole.extend(bytes(offset - len(whole)))
            else:
                whole.extend(bytes(max(0, offset - len(whole))))
                whole[offset:offset + len(data)] = data
        if how == ALL:
            return bytes(whole)
        kind, share = how
        kept = int(len(whole) * share)
        return bytes(whole[:kept]) + (bytes(len(whole) - kept) if kind == "zeros" else b"")


class Folder:
    def __init__(self, serial):
        self.serial = serial
        self.names = {}      # as programs see it
        self.synced = {}
        self.later = []      # functions that change such a table

    def change(self, function):
        function(self.names)
        self.later.append(function)

    def sync(self):
        self.synced, self.later = dict(self.names), []


class DiskModel:
    """The two state folders, in the folder `root`, record after record of a journal."""

    def __init__(self, root, folders):
        self.root, self.paths = root, folders
        self.serial = 0
        self.top = Folder(self.next_serial())
        self.inodes = {}

    def next_serial(self):
        self.serial += 1
        return self.serial

    def place(self, path):
        """(folder, name)"""
        at = self.top
        *way, name = os.path.relpath(path, self.root).split("/")
        for one in way:
            at = at.names[one]
        return at, name

    def take(self, record):
        if record.kind in (MAKE, OPEN):
            folder, name = self.place(record.first)
            if record.kind == MAKE:
                new = (Folder if record.flags else File)(self.next_serial())
                folder.change(lambda names: names.__setitem__(name, new))
            self.inodes[record.inode] = folder.names[name]
            if record.flags & os.O_TRUNC and record.kind == OPEN:
                folder.names[name].later.append((0, None))
        elif record.kind == WRITE:
            self.inodes[record.inode].later.append((record.offset, record.data))
        elif record.kind == TRUNCATE:
            self.inodes[record.inode].later.append((record.offset, None))
        elif record.kind == SYNC:
            if not record.first:
                self.inodes[record.inode].sync()
            elif len(record.first) < len(self.root):
                pass
            elif record.first == self.root:
                self.top.sync()
            else:
                folder, name = self.place(record.first)
                folder.names[name].sync()
        elif record.kind == REMOVE:
            folder, name = self.place(record.first)
            folder.change(lambda names: names.pop(name, None))
        elif record.kind == RENAME:
            folder, old = self.place(record.first)
            other, new = self.place(record.second)
            if other is not folder:
                raise ValueError(f"from folder to folder is not modelled: {record.first} to {record.second}")
            node = folder.names[old]

            def rename(names):
                if names.get(old) is node:
                    del names[old]
                names[new] = node

            folder.change(rename)

    def state(self, choose_names, choose_content):
        """{program: None or {name: (file, how)}}: what may be there after a cut now. choose_names(number of changes) says
        which are kept; choose_content() how much of a file."""

        def table(folder):
            names = dict(folder.synced)
            for is_kept, change in zip(choose_names(len(folder.later)), folder.later):
                if is_kept:
                    change(names)
            return names

        top, found = table(self.top), {}
        for program, path in zip(PROGRAMS, self.paths):
            folder = top.get(os.path.basename(path))
            found[program] = None if folder is None else {
                name: (node, choose_content() if node.later else ALL) for name, node in sorted(table(folder).items())
                if isinstance(node, File)}
        return found

    def states(self, random_):
        """Those in which all or nothing is kept of one kind, and random ones."""
        def every(count):
            return [True] * count

        def none(count):
            return [False] * count

        for names in (every, none):
            for content in (ALL, NOTHING, ("beginning", 0.5), ("zeros", 0), ("zeros", 0.5)):
                yield self.state(names, lambda content=content: content)
        for _ in range(RANDOM_STATES):
            yield self.state(lambda count: [random_.random() < 0.5 for _ in range(count)],
                             lambda: random_.choice((ALL, NOTHING, ("beginning", random_.random()), ("zeros", random_.random()))))


def lay_out(files, path):
    """A folder with these contents."""
    os.mkdir(path, 0o700)
    for name, (file, how) in files.items():
        with open(os.path.join(path, name), "wb") as out:
            out.write(file.content(how))
        os.chmod(os.path.join(path, name), 0o600)


def key_of(files):
    return None if files is None else tuple((name, *file.key(how)) for name, (file, how) in files.items())


class Looker:
    """tests/inject/saved_state, which is asked about one folder after the other."""

    def __init__(self, build, folder):
        self.folder = os.path.join(folder, "looked-at")
        self.process = subprocess.Popen([os.path.join(build, SAVED_STATE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.known = {}

    def look(self, program, files):
        """Its answer; asked once about each state."""
        key = (program, key_of(files))
        if key not in self.known:
            shutil.rmtree(self.folder, ignore_errors=True)
            if files is not None:
                lay_out(files, self.folder)
            self.process.stdin.write(f"{program} {self.folder}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            self.known[key] = json.loads(line) if line else {"error": "it ended"}
        return self.known[key]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Acknowledged:
    """What was acknowledged, by place of the journal. An order that is on its way may be so or so."""

    def __init__(self):
        self.rows = []

    def add(self, place, turn, generation, bypass):
        self.rows.append((place, turn, generation, set(bypass)))

    def at(self, place):
        """(turn, generation number, what bypass may be)."""
        turn, number, bypass = 0, 0, {False}
        for at, new_turn, generation, states in self.rows:
            if at > place:
                break
            turn, number, bypass = max(turn, new_turn), max(number, generation["number"]), states
        return turn, number, bypass


def record_life(session, rig, disk, reloads):
    """Runs the programs, and says what was acknowledged where."""
    known = Acknowledged()
    rig.begin()
    known.add(disk.position(), rig.truth.low, session.call("status")["generation"], {False})
    generation = None

    def reload():
        nonlocal generation
        answer = rig.reload()
        if not answer.get("ok"):
            raise SessionError(f"a reload failed: {answer}")
        generation = answer["generation"]
        known.add(disk.position(), rig.truth.low, generation, rig.truth.bypass)

    def switch(is_on):
        known.add(disk.position(), rig.truth.low, generation, {True, False})
        answer = rig.bypass(is_on)
        if not answer.get("ok"):
            raise SessionError(f"bypass failed: {answer}")
        known.add(disk.position(), rig.truth.low, generation, {is_on})

    for number in range(reloads):
        reload()
        if number % 3 == 1:
            for is_on in (True, True, False, False) if number % 2 else (True, False):
                switch(is_on)
        if number % 4 == 2:
            rig.truth.killed()
            session.stop("dataplane")
            rig.truth.killed()
            rig.start_dataplane()
            session.wait_enforced()
        if number % 4 == 3:
            session.stop("controld")
            rig.start_controld()
            session.wait_enforced()
            generation = session.call("status")["generation"]
            known.add(disk.position(), rig.truth.low, generation, rig.truth.bypass)
    wrong = rig.traffic.take_wrong()
    rig.traffic.stop()
    session.stop("controld")
    session.stop("dataplane")
    return known, wrong


NOT_JOURNALLED = ("journal.db-shm",)  # written through a mapping, and made anew at every start


def compare(model, disk):
    """SessionError when the journal does not lead to what is on the disk: then it misses something. Folders in them hold what a start can do
    without: history, and what was fetched."""
    for path in disk.folders:
        folder, name = model.place(path)
        expected = {one: node.content(ALL) for one, node in folder.names[name].names.items()
                    if isinstance(node, File) and one not in NOT_JOURNALLED}
        found = {}
        for one in os.listdir(path):
            if one in NOT_JOURNALLED or os.path.isdir(os.path.join(path, one)):
                continue
            with open(os.path.join(path, one), "rb") as file:
                found[one] = file.read()
        if found != expected:
            raise SessionError(f"{path} is not what the journal says: {sorted(found)} and {sorted(expected)}, of "
                               f"{[(one, len(found.get(one, b'')), len(expected.get(one, b''))) for one in found]} bytes")


class Frozen:
    """A file as it was."""

    def __init__(self, content):
        self.bytes = content

    def content(self, _how):
        return self.bytes


def frozen(files):
    """The same state, which later records do not change."""
    return {program: table and {name: (Frozen(file.content(how)), ALL) for name, (file, how) in table.items()}
            for program, table in files.items()}


def check_saved(answer, program, number, bypass, epoch):
    """Texts: what is wrong with what a program would take from a folder."""
    if answer.get("error"):
        return [f"{program} does not start: {answer['error']}"]
    wrong = []
    if answer["refused"]:
        wrong.append(f"{program} refuses a file: {answer['refused']}")
    enforced = answer.get("enforced", ["", 0])
    if number and (enforced[0] != epoch or enforced[1] < number):
        wrong.append(f"{program} would enforce generation {enforced[1]}, {number} was acknowledged")
    if program == "controld" and number:
        if answer["last"][0] != epoch or answer["last"][1] < enforced[1]:
            wrong.append(f"controld would use numbers up to {enforced[1]} again: it knows {answer['last'][1]}")
        if not answer["knows_targets"]:
            wrong.append("controld does not know who enforces")
    if bool(answer["bypass"]) not in bypass:
        wrong.append(f"{program}: bypass would be {bool(answer['bypass'])}")
    return wrong


def start_programs(session, rig, disk, files, number, turn, bypass):
    """Texts: what is wrong when the programs themselves start on such a disk."""
    for program, path in zip(PROGRAMS, disk.folders):
        shutil.rmtree(path, ignore_errors=True)
        if files[program] is not None:
            lay_out(files[program], path)
    rig.truth.low, rig.truth.number = turn, ("", number)
    rig.truth.bypass, rig.truth.open = set(bypass), {}
    wrong = []
    rig.new_traffic()
    try:
        rig.start_dataplane()
        rig.traffic.start()
        if number:
            wrong += [f"the data plane alone: {text}" for text in rig.expect(is_newest=False)]
        rig.traffic.stop()
        # What is enforced before anything was acknowledged is of no interest.
        if number:
            wrong += [f"the data plane alone: {text}" for text in rig.traffic.take_wrong()]
        with open(rig.policy, "w", encoding="ascii") as file:
            file.write("lists: [nonsense\n" if number else rig.world.policy(rig.truth.high, False))
        rig.start_controld()
        session.wait_enforced()
        status = session.call("status")
        if number and (not status["from_last_good"] or status["generation"]["number"] < number):
            wrong.append(f"controld alone: generation {status['generation']}, {number} was acknowledged")
        if len(bypass) == 1 and status["bypass"] not in bypass:
            wrong.append(f"controld alone: bypass {status['bypass']}")
        with open(rig.policy, "w", encoding="ascii") as file:
            file.write(rig.world.policy(rig.truth.high, False))
        answers = rig.bypass(False), session.call("reload")
        if not all(answer.get("ok") for answer in answers):
            wrong.append(f"afterwards: {answers}")
        rig.truth.bypass = {False}
        rig.new_traffic()
        rig.traffic.start()
        wrong += [f"afterwards: {text}" for text in rig.expect()]
        rig.traffic.stop()
    except SessionError as error:
        wrong.append(f"it does not start: {error}")
    rig.traffic.stop()
    for program in ("controld", "dataplane"):
        process = getattr(session, program)
        if process is not None:
            process.kill()
            process.wait()
            setattr(session, program, None)
    return wrong


def run(build, reloads=12, starts=60, seed=1, progress=say):
    make_interfaces()
    random_ = random.Random(seed)
    begun = time.monotonic()
    with Session(build) as session:
        disk = Disk(session, JOURNAL_BYTES)
        rig = Rig(session, seed)
        known, wrong = record_life(session, rig, disk, reloads)
        wrong = [f"before any cut: {text}" for text in wrong]
        session.environment.clear()
        records = list(disk.records())
        progress(f"power cuts: {len(records)} operations, {disk.position() >> 10} KiB written")
        epoch = known.rows[-1][2]["epoch"]
        looker = Looker(build, session.folder)
        model = DiskModel(session.states, disk.folders)
        states = lost = 0
        kept = []        # of states that are different, to start the programs on: reservoir sampling
        seen = set()
        for number_of_record, record in enumerate(records, 1):
            model.take(record)
            turn, number, bypass = known.at(record.end)
            for files in model.states(random_):
                states += 1
                texts = [text for program in PROGRAMS
                         for text in check_saved(looker.look(program, files[program]), program, number, bypass, epoch)]
                if texts:
                    lost += 1
                    wrong += [f"after operation {number_of_record} ({record.first or 'a write or sync'}): {text}" for text in texts]
                key = (number, *(key_of(files[program]) for program in PROGRAMS))
                if key in seen:
                    continue
                seen.add(key)
                place = len(kept) if len(kept) < starts else random_.randrange(len(seen))
                if place < starts:
                    kept[place:place + 1] = [(number_of_record, frozen(files), number, turn, bypass)]
        compare(model, disk)
        looker.stop()
        progress(f"power cuts: {states} states, {len(seen)} of them different, {lost} lost")
        for count, (number_of_record, files, number, turn, bypass) in enumerate(kept, 1):
            texts = start_programs(session, rig, disk, files, number, turn, bypass)
            lost += bool(texts)
            wrong += [f"programs started as after operation {number_of_record}: {text}" for text in texts]
            if count % 10 == 0:
                progress(f"power cuts: {count} starts, {lost} lost")
    for text in wrong[:20]:
        progress(f"power cuts: {text}")
    return {"places": len(records), "states": states, "different": len(seen), "starts": len(kept),
            "lost": lost + any(text.startswith("before") for text in wrong), "wrong": wrong[:200], "seconds": time.monotonic() - begun}


if __name__ == "__main__":
    report(run, __doc__, reloads=12, starts=60)
