"""The time of day of one process, changed from outside, for programs that no preloaded library reaches (etcd is one: Go asks the vDSO).

The kernel's vDSO is code in every process; a process that is written to gets a copy of its own. There, clock_gettime gets another body: a system
call, and for CLOCK_REALTIME a number of seconds is added that stands beside it. Root, x86-64, the kernel's own vDSO.
"""

import os
import signal
import struct
import subprocess

from pace import hold
from session import pause
from until import until

FUNCTION = b"__vdso_clock_gettime"
AHEAD = 8                       # bytes of the number in front of the code
# mov eax, 228; syscall; test edi, edi; jne +10; mov rdx, [rip - 28]; add [rsi], rdx; ret   (edi: the clock; rsi: where the time goes)
CODE = bytes.fromhex("b8e4000000" "0f05" "85ff" "750a") + b"\x48\x8b\x15" + struct.pack("<i", -(AHEAD + 18)) + bytes.fromhex("480116" "c3")
JUMP = struct.Struct("<Bi")


def why_not():
    """Why no process here can get another time of day; None: it can."""
    with subprocess.Popen(["sleep", "infinity"], stdin=subprocess.DEVNULL) as process:
        try:
            OtherClock(process.pid)
        except OSError as error:
            return str(error)
        finally:
            process.kill()
    return None


class OtherClock:
    """From now on the process's time of day is `seconds` from everybody else's; ahead(0) gives it back."""

    def __init__(self, process):
        self.process = process
        begin, end = _place_of_vdso(process)
        image = _read(process, begin, end - begin)
        entry, size = _find(image)
        if len(CODE) + AHEAD > len(image) - (room := len(image.rstrip(b"\0")) + 15 & ~15):
            raise OSError("the vDSO has no room for other code")
        self.number = begin + room
        code, entry = begin + room + AHEAD, begin + entry
        _write(process, self.number, struct.pack("<q", 0) + CODE)
        pause(process)
        try:
            _wait_until_outside(process, entry, entry + size)
            _write(process, entry, JUMP.pack(0xE9, code - entry - JUMP.size))
        finally:
            os.kill(process, signal.SIGCONT)

    def ahead(self, seconds):
        _write(self.process, self.number, struct.pack("<q", seconds))


def _place_of_vdso(process):
    """Of a process that may have just begun to be another program: it has none for a moment."""
    def found():
        with open(f"/proc/{process}/maps", encoding="utf-8") as file:
            for line in file:
                if line.rstrip().endswith("[vdso]"):
                    return tuple(int(text, 16) for text in line.split()[0].split("-"))
        return None

    return until(f"the vDSO of process {process}", found, 5, OSError)


def _read(process, address, size):
    with open(f"/proc/{process}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)


def _write(process, address, what):
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as file:
        file.seek(address)
        if file.write(what) != len(what):
            raise OSError(f"process {process} cannot be written to")


def _find(image):
    """Where the function begins in the image, and its size."""
    offset, entry_size, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + number * entry_size) for number in range(count)]
    for section in sections:
        if section[1] != 11:  # the dynamic symbols
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, _, value, size = struct.unpack_from("<IBBHQQ", image, at)
            begin = names + name
            if image[begin:image.index(b"\0", begin)] == FUNCTION:
                return value, size
    raise OSError("the vDSO has no clock_gettime")


def _wait_until_outside(process, begin, end):
    """No thread of the stopped process is inside the function."""
    for _ in range(100):
        places = []
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/syscall", encoding="ascii") as file:
                words = file.read().split()
            places.append(begin if words == ["running"] else int(words[-1], 16))
        if not any(begin <= place < end for place in places):
            return
        os.kill(process, signal.SIGCONT)
        hold(0.001)  # they run for so long
        pause(process)
    raise OSError(f"threads of process {process} do not leave clock_gettime")
