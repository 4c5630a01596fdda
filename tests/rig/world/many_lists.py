"""A policy of all lists of the test data as lists of their own: every plain feed, the P2P ranges, and each country."""

import os
import tarfile

from all_lists import COUNTRIES, P2P, PLAIN, write_ranges
from rig import test_data

MOST_COUNTRIES = 120  # with the most prefixes; the others are one list


def countries(folder):
    """{name: path}: the prefixes of both families of a country."""
    texts = {}
    with tarfile.open(test_data("blocklists/" + COUNTRIES, folder)) as archive:
        for member in archive.getmembers():
            if not member.isfile() or not ("ipv4/" in member.name or "ipv6/" in member.name):
                continue
            name = os.path.basename(member.name).split(".")[0]
            texts[name] = texts.get(name, b"") + archive.extractfile(member).read()
    by_size = sorted(texts, key=lambda name: len(texts[name]), reverse=True)
    files = {}
    for place, name in enumerate(by_size):
        of_list = "country-" + (name if place < MOST_COUNTRIES else "others")
        files[of_list] = os.path.join(folder, of_list + ".txt")
        with open(files[of_list], "ab") as file:
            file.write(texts[name])
    return files


def many_lists(folder):
    """Unpacks the lists into folder; the policy's text. Skip when the test data is not there."""
    files = {name.split(".")[0]: test_data("blocklists/" + name, folder) for name in PLAIN}
    files["p2p"] = os.path.join(folder, "p2p-ranges.txt")
    write_ranges(test_data("blocklists/" + P2P, folder), files["p2p"])
    files.update(countries(folder))
    lists = [f"  - {{name: {name}, action: drop, match: src, allow_any: true, file: '{path}'}}\n"
             for name, path in files.items()]
    return "version: 1\ntargets: []\nfilter: {memory: 2GiB}\nlists:\n" + "".join(lists)
