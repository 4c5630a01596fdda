"""Every encapsulation with every kind of entry, cut at every byte (tests/rig/world/send_expect.py), on each plane."""

import pytest

from send_expect import SHOWN, send_all
from weir_smoke import needs_root

XDP = pytest.param("xdp", marks=needs_root("loading an XDP program needs it"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("plane", ["dpdk", XDP])
def test_verdicts_and_counts(plane, folder):
    found = send_all(folder, plane)
    assert found["rows"] > 0 and not found["failures"], "\n".join(found["failures"][:SHOWN])
