"""Send and expect (send_expect.py) through the XDP program, as the kernel runs it."""

import os
import sys

from weir_smoke import skip
from send_expect import main

if os.geteuid() != 0:
    skip("root: loading an XDP program needs it")
sys.argv += ["--plane", "xdp"]
main()
