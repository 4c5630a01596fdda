#!/usr/bin/env python3
"""docs/develop/why-not.md has a row or a sentence for each system that the three texts name which weir starts from, and for each
filter that tests/reproduce measures beside them."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/develop/why-not.md"
# By text, in the order in which it names them. Words as the page writes them, whatever their case.
NAMED = {
    "the encyclopedia article": (
        "search trees", "tries", "hash table", "arrays", "linked lists", "bit array", "k = 1", "enhanced double hashing", "triple hashing",
        "removed", "anew", "union", "intersection", "superimposed codes", "Zatocoding", "Akamai", "Bigtable", "HBase", "Cassandra",
        "Chrome", "Squid", "Bitcoin", "Venti", "SPIN", "Cascading", "Exim", "Medium", "Pagh, Pagh, Rao", "hash compaction", "blocked",
        "Golomb-coded", "cuckoo", "counting Bloom", "d-left", "variable increments", "DIAS", "data synchronization", "Bloomier",
        "compact approximator", "stable Bloom", "scalable Bloom", "layered Bloom", "attenuated Bloom", "OceanStore", "Daylight", "Indigo",
        "MACCS", "CACTVS", "retouched", "Mullin", "Swamidass"),
    "Madison and Zipper": (
        "counting Bloom", "blocked Bloom", "d-left", "quotient", "fuzzy-folded", "cuckoo", "Golomb-coded", "ABySS", "Minia",
        "device discovery", "Facebook", "Yahoo", "Tinder", "URL shorteners", "YouTube"),
    "Walther and others": (
        "Rational", "variably-sized", "perfect hashing", "partitioned in slices", "partitioned hashing (Hao", "weighted", "non-uniform hash",
        "incremental", "dynamic", "scalable", "combinatorial", "partitioned* combinatorial", "learned", "sandwich", "BloomStore", "Dynamo",
        "GloBiMaps"),
    "Zawierucha": ("page-blocked", "generalized Bloom", "flood"),
}


def main():
    text = PAGE.read_text(encoding="utf-8").lower()
    faults = [f"{PAGE.relative_to(ROOT)}: nothing about `{word}`, which {source} names"
              for source, words in NAMED.items() for word in words if word.lower() not in text]
    names = [name for file in ("survey.cpp", "survey_family.cpp")
             for name in re.findall(r'(?:candidate|bloom)\("([^"]+)"', (ROOT / "tests/reproduce" / file).read_text(encoding="utf-8"))]
    faults += [f"{PAGE.relative_to(ROOT)}: nothing about `{name}`, which tests/reproduce measures" for name in names
               if re.split(r"[,(]| and ", name)[0].strip().lower() not in text]
    for fault in faults:
        print(fault)
    print(f"{sum(map(len, NAMED.values()))} names of the texts, {len(names)} filters, {len(faults)} faults")
    return bool(faults) or len(names) < 18


if __name__ == "__main__":
    sys.exit(main())
