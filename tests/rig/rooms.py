"""Python modules of tests and benchmarks lie in rooms. `import rooms` puts these folders on the path; each name is there once."""

import os
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = (
    "rig/world",      # programs, namespaces, packets, files and peers that a test or a benchmark needs
    "rig/faults",     # what is broken on purpose: disks, calls of the kernel, programs, feeds, peers
    "rig/fleet",      # members of etcd and nodes
    "rig/xdp",        # interfaces that XDP programs filter
    "rig/page",       # a browser, and dashboards
    "rig/run",        # how scripts/test and scripts/fuzz run tests
    "bench/rows",     # what scripts/bench and scripts/compare measure
    "bench/figures",  # what scripts/figures prints
    "bench/papers",   # what scripts/reproduce repeats
    "release",        # packages, manuals, other systems
)
sys.path[1:1] = [os.path.join(TESTS, room) for room in ROOMS]
