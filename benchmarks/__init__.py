"""Millrace against its peers: see README.md in this folder."""

import os
import sys

# pip compiles what it installs, peers and torch among it. A source tree is compiled by its first process, or,
# where this is set, by each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
