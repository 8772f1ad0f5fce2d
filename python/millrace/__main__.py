"""The command line: `python -m millrace`, or `millrace` if its script is installed."""

from __future__ import annotations

import sys

from ._common.lazy import tool

# verb: (module of millrace_tools, function of the arguments that returns the exit status)
VERBS = {
    "run": ("commands.run", "run"),
    "pack": ("commands.pack", "main"),
    "inspect": ("commands.inspect", "main"),
    "bench": ("commands.bench", "main"),
    "doctor": ("commands.doctor", "main"),
    "estimate": ("commands.estimate", "main"),
    "profile": ("commands.profile", "main"),
}
USAGE = f"usage: python -m millrace ({' | '.join(VERBS)}) ...; python -m millrace --help says what they do"
HELP = """usage: python -m millrace run [--explain] (SCRIPT | -m MODULE) [ARGUMENTS...]
       python -m millrace pack SRC DST [OPTIONS]
       python -m millrace inspect URL... [OPTIONS]
       python -m millrace bench module:dataset [OPTIONS]
       python -m millrace doctor [PATH | URL...] [OPTIONS]
       python -m millrace estimate --step-ms MS --batch-size N [OPTIONS]
       python -m millrace profile DATASET [--out FILE] [OPTIONS]

run      runs a training script (or, with -m, a module) with millrace.DataLoader in the place of
         torch.utils.data.DataLoader, in its imports and in the libraries it uses, as if it began with
         `import millrace; millrace.install()`. --explain prints, when a loader is first iterated,
         what runs natively and why.
pack     writes a data set (class folders, Parquet, shards, a torch Dataset) as shards that stream,
         without loss by default.
inspect  says what is in shards: samples, fields, sizes, labels, duplicates, and what is broken, and
         fails when something is.
bench    measures your own dataset over workers, prefetch and methods, next to torch's loader, and
         says the best arguments.
doctor   times this machine's disk, memory, decoding, store and GPU link, compares with what a model
         needs, and says what to fix first.
estimate says what a run needs of its loader, what the loader gives, and what waiting costs.
profile  looks at samples of a dataset and writes their statistics: the reference that
         millrace.watch() compares a run with.

All but run take --help and --json; --version says what is installed. Launchers take run as a module:
torchrun --nproc-per-node 2 -m millrace run train.py. torch is imported before the script: set
environment variables that torch reads at its import outside."""


def main(arguments: list[str]) -> int:
    """Runs the verb that comes first; the exit status."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
        return 0
    if arguments[0] == "--version":
        print(versions())
        return 0
    if arguments[0] in VERBS:
        module, function = VERBS[arguments[0]]
        return tool(module, function)(arguments[1:])
    print(f"millrace: there is no command {arguments[0]!r}\n{USAGE}", file=sys.stderr)
    return 2


def versions() -> str:
    """The versions of millrace, torch and Python, for the beginning of a fault report."""
    import platform

    import torch

    import millrace

    return f"millrace {millrace.__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def script() -> int:
    """The entry point of the installed `millrace` script."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
