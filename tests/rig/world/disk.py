"""Disks that are watched, fail, fill up or kill: a program that is started with tests/inject/disk.so changes its state folders
through it. Standard library only."""

import ctypes
import errno
import mmap
import os
from dataclasses import dataclass

LIBRARY = "tests/inject/disk.so"
MAGIC = 0x314B534944524557
KINDS = MAKE, OPEN, WRITE, SYNC, RENAME, REMOVE, TRUNCATE = range(7)   # enum class Kind of tests/inject/disk.h
KIND_NAMES = ("make", "open", "write", "sync", "rename", "remove", "truncate")
DEATHS = BEFORE, HALFWAY, AFTER = range(3)
NOTHING_FAILS, FOR_EVER = 0, 1 << 62

# Which operations fail, and how: a disk without room, one that was made read-only, one that is broken.
ENOSPC = (errno.ENOSPC, (MAKE, WRITE))
EROFS = (errno.EROFS, (MAKE, OPEN, WRITE, RENAME, REMOVE, TRUNCATE))
EIO = (errno.EIO, KINDS)


class Shared(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint64), ("journal_bytes", ctypes.c_uint64), ("used", ctypes.c_uint64),
                ("operations", ctypes.c_uint64), ("first_fault", ctypes.c_uint64), ("end_of_faults", ctypes.c_uint64),
                ("error", ctypes.c_uint32), ("kinds", ctypes.c_uint32), ("is_short", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("failed", ctypes.c_uint64), ("deadly", ctypes.c_uint64),
                ("death", ctypes.c_uint32), ("kind_of_deadly", ctypes.c_uint32)]


class RecordHead(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint32), ("is_whole", ctypes.c_uint32), ("kind", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("inode", ctypes.c_uint64), ("offset", ctypes.c_uint64),
                ("name_bytes", ctypes.c_uint32), ("second_bytes", ctypes.c_uint32), ("data_bytes", ctypes.c_uint64)]


@dataclass
class Record:
    end: int       # place of the journal behind it
    kind: int
    flags: int
    inode: int
    offset: int
    first: str
    second: str
    data: bytes


class Disk:
    """What the programs of a session do to their state folders, once environment() is theirs."""

    def __init__(self, session, journal_bytes=0):
        self.build = session.build
        # In a folder of their own: what else the programs sync would sync their names, too.
        session.states = session.path("states")
        os.mkdir(session.states, 0o700)
        self.folders = [session.state_path("controld"), session.state_path("dataplane")]
        self.path = session.path("disk")
        with open(self.path, "wb") as file:
            file.truncate(ctypes.sizeof(Shared) + journal_bytes)
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.shared = Shared.from_buffer(self.memory)
        self.shared.magic, self.shared.journal_bytes = MAGIC, journal_bytes
        session.environment.update(LD_PRELOAD=os.path.join(self.build, LIBRARY), WEIR_DISK=self.path,
                                   WEIR_DISK_FOLDERS=":".join(self.folders))

    # The operation after which so many were begun is number 0; the next one is 1.
    def operations(self):
        return self.shared.operations

    def fail(self, how, first=1, count=FOR_EVER, is_short=False):
        """From the first-th operation after now on, so many of those that how names fail."""
        self.shared.end_of_faults = NOTHING_FAILS
        self.shared.error, self.shared.is_short, self.shared.failed = how[0], int(is_short), 0
        self.shared.kinds = sum(1 << kind for kind in how[1])
        self.shared.first_fault = self.operations() + first
        self.shared.end_of_faults = self.shared.first_fault + count

    def heal(self):
        """How many operations failed."""
        self.shared.end_of_faults = NOTHING_FAILS
        return self.shared.failed

    def kill_at(self, which, death):
        """The which-th operation after now ends the program that begins it."""
        self.shared.death = death
        self.shared.deadly = self.operations() + which

    def spare(self):
        """No operation is deadly any more. Which kind it was, when one was."""
        at, self.shared.deadly = self.shared.deadly, 0
        return KIND_NAMES[self.shared.kind_of_deadly] if at and self.operations() >= at else None

    def position(self):
        return self.shared.used

    def records(self):
        """The journal. What a killed program had not finished writing down is left out."""
        at, start = 0, ctypes.sizeof(Shared)
        while at < self.shared.used:
            head = RecordHead.from_buffer_copy(self.memory, start + at)
            if not head.bytes:
                raise ValueError(f"the journal has a hole at {at}")
            body = start + at + ctypes.sizeof(RecordHead)
            names = body + head.name_bytes, body + head.name_bytes + head.second_bytes
            at += head.bytes
            if head.is_whole:
                yield Record(at, head.kind, head.flags, head.inode, head.offset, self.memory[body:names[0]].decode(),
                             self.memory[names[0]:names[1]].decode(), self.memory[names[1]:names[1] + head.data_bytes])
