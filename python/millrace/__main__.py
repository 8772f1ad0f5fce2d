"""The command line: `python -m millrace`."""

from __future__ import annotations

import sys

from .run_command import USAGE, run

HELP = f"""{USAGE}

run    runs a training script (or, with -m, a module) with millrace.DataLoader in the place of torch.utils.data.DataLoader,
       in its imports and in the libraries it uses, as if it began with `import millrace; millrace.install()`.
       --explain prints, when a loader is first iterated, what runs natively and why.

Launchers take it as a module: torchrun --nproc-per-node 2 -m millrace run train.py. torch is imported before the script: set
environment variables that torch reads at its import outside."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
        return 0
    if arguments[0] == "run":
        return run(arguments[1:])
    print(f"millrace: there is no command {arguments[0]!r}\n{USAGE}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
