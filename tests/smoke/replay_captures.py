"""Real and hostile frames: every Ethernet capture of the test data, and the capture corpora, joined into one, replayed
and compared with the reference frame by frame: VLAN, MPLS, PPPoE, fragments, extension headers, lengths that lie."""

import glob
import gzip
import io
import os
import tarfile

from weir_smoke import (Capture, agrees_with_reference, check, data_folder, read, read_capture, skip,
                        temporary_folder, write, write_capture)
from capture import CaptureError

LONGEST = 65407  # of a net_pcap port

# Half of each address space drops as source, another half as destination, with a hole that passes: every header that
# is read wrongly by one side shows as another verdict.
POLICY = """\
version: 1
policy: {default: pass, unparsed: drop}
lists:
  - {name: hole, action: pass, match: dst, entries: [192.168.0.0/17, 10.0.0.0/9, "fe80::/10"]}
  - {name: odd, action: drop, match: src, entries: [1.0.0.0/8, 10.0.0.0/8, 128.0.0.0/2, "2001::/17", "fe80::/11"]}
  - {name: far, action: drop, match: dst, entries: [64.0.0.0/2, 224.0.0.0/3, "ff00::/8", "2001:8000::/17"]}
  - {name: both, action: drop, mode: monitor, match: either, entries: [172.16.0.0/12, 192.0.0.0/3, "2000::/3"]}
"""


def captures(folder):
    """(name, bytes) of all that may be a capture."""
    for path in sorted(glob.glob(f"{folder}/*.pcap*")):
        if not path.endswith(".xz"):  # mix_shared has a test of its own
            yield path, gzip.decompress(read(path)) if path.endswith(".gz") else read(path)
    for path in sorted(glob.glob(f"{folder}/*.tar.xz")):
        with tarfile.open(fileobj=io.BytesIO(read(path))) as archive:
            for member in archive:
                if member.isfile():
                    yield f"{path}/{member.name}", archive.extractfile(member).read()


with temporary_folder() as folder:
    source = data_folder("pcaps")
    joined, files = Capture(nanoseconds=True), 0
    for name, data in captures(source):
        path = os.path.join(folder, "one")
        with open(path, "wb") as file:
            file.write(data)
        try:
            capture = read_capture(path)
        except CaptureError:
            continue  # another link type, or no capture
        files += 1
        for frame, header in zip(capture.frames, capture.headers):
            if len(frame) <= LONGEST:
                joined.frames.append(frame)
                joined.headers.append(header)
    if not joined.frames:
        skip(f"data: no captures in {source}")
    path = os.path.join(folder, "joined.pcap")
    write_capture(path, joined)
    totals = agrees_with_reference(folder, write(folder, "weir.yaml", POLICY), path)
    print(f"{totals['packets']} frames of {files} captures: dropped {totals['dropped']}, malformed "
          f"{totals['malformed']}, not_ip {totals['not_ip']}, incomplete {totals['incomplete']}")
    for reason in ("dropped", "malformed", "not_ip", "incomplete"):
        check(totals[reason] > 0, f"there are frames that are {reason}")
