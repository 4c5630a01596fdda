"""scripts/reproduce, from the command to the plot: its shortest part."""

import os

import pytest

from weir_smoke import BUILD, ROOT, run


@pytest.mark.timeout(300)
def test_a_paper_is_repeated():
    told = run(os.path.join(ROOT, "scripts/reproduce"), "--quick", "--build", BUILD, "rational")
    assert "rational" in told, told
