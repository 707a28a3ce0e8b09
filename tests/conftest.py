"""For all tests: a terminal's Ctrl-C means the same wherever they run."""

from __future__ import annotations

import signal

# A job that a shell starts in the background ignores SIGINT, and so would every process that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
