"""Both planes agree with the reference on every capture of the test data, with policies of real lists."""

import pytest

from weir_smoke import BUILD, needs_root
from agreement import agree_on_captures

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("plane", ("dataplane", pytest.param("xdp", marks=needs_root("XDP needs it"))))
def test_a_plane_agrees_with_the_reference(folder, plane):
    result = agree_on_captures(BUILD, folder, plane == "xdp")
    assert result["disagreements"] == 0, "disagreements"
    assert plane != "xdp" or result["by_xdp"] > 1_000_000, "frames that the XDP program judged"
    assert result["policies"] >= 6, "policies"
    assert result["captures"] > 500, "captures, with those in archives"
    assert all(policy["hits"] > 1000 for policy in result["each"]), "every policy's lists are hit"
