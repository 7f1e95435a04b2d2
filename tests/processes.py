"""Starting processes from tests."""

import sys

LISTENING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


def listening(command):
    """The command, made to hear Ctrl-C: what a shell runs in the background ignores it, and its children do too."""
    return [sys.executable, "-c", LISTENING, *command]
