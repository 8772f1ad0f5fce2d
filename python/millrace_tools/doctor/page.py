"""The page of an examination, for people: aligned lines, and the most important things to fix."""

from __future__ import annotations

import shutil
import string
import textwrap
from typing import Any, TextIO

from ..texts import aligned, count_text, size_text

_Rows = list[tuple[str, ...]]
_INDENT = " " * 14  # of text that does not fit into a line of a terminal
_BYPASSED = {
    "O_DIRECT": "past the page cache",
    "dropped": "its pages dropped before",
    "no": "perhaps from the page cache",
}
# (part of the examination, the entry that it must have for this line, the line's name, its text)
_TIMED = [
    ("disk", "error", "disk", "not timed: {error}"),
    ("disk", "random", "disk", "{place} ({kind}; {what_files}; {bypassed})"),
    (
        "disk",
        "random",
        "",
        "{order} {sequential:size}/s, {sequential_one:size}/s by one reader{written}",
    ),
    (
        "disk",
        "random",
        "",
        "{random:count} random reads of {random_bytes:size} a second by 16 readers, {random_one:count} by one"
        " ({latency_seconds:time} each)",
    ),
    ("disk", "random", "page cache", "{cached:size}/s by {threads} threads"),
    ("store", "error", "store", "not timed: {error}"),
    (
        "store",
        "many",
        "store",
        "{url}: {latency_seconds:time} a request, {one:size}/s by one at a time, {many:size}/s by up to"
        " {requests:.0f}",
    ),
    (
        "batches",
        "decode",
        "decoding",
        "{decode:count} {whose} ({bytes:size}) a second by one thread, {megapixels:,.0f} MP/s",
    ),
    ("batches", "one", "batches", "{one:count} {what} a second by one thread, {all:count} by {threads}"),
    ("memory_copy", "all", "memory", "{all:size}/s copied by {threads} threads, {one:size}/s by one"),
]
_LINK = (
    "{pinned:size}/s from page-locked memory, {pageable:size}/s from ordinary; memory is locked at"
    " {pin_bytes_per_second:size}/s"
)
_RED, _PLAIN = "\033[31m", "\033[0m"


def show(found: dict[str, Any], stream: TextIO) -> None:
    terminal = stream.isatty()
    width = min(120, shutil.get_terminal_size((120, 24)).columns) if terminal else 120
    sections = {
        "Machine": _machine(found),
        "Timed": _timed(found),
        "Attainable, samples a second per rank": _attainable(found),
    }
    for title, rows in sections.items():
        print(title, file=stream)
        for row, line in zip(rows, aligned(rows, right=[1])):
            if terminal:
                line = "\n".join(textwrap.wrap(line, width, subsequent_indent=_INDENT))
                line = f"{_RED}{line}{_PLAIN}" if "too slow" in row else line
            print(line.encode(errors="backslashreplace").decode(), file=stream)  # file names: any bytes
        print(file=stream)
    print("\n".join(_verdict(found, width)), file=stream)


def _machine(found: dict[str, Any]) -> _Rows:
    machine, software, budget = found["machine"], found["software"], found["millrace_threads"]
    cpu, memory, system, shm, limits = (
        machine[name] for name in ("cpu", "memory", "system", "shm", "limits")
    )
    quota, limit, swap = cpu["quota"], memory["limit"], memory["swap"]
    no_cuda = software["millrace_cuda"]
    return [
        (
            "system",
            _joined(
                system["distribution"],
                f"kernel {system['kernel'] or 'unknown'}",
                system["container"] and f"in {system['container']}",
                system["scheduler"],
            ),
        ),
        (
            "CPU",
            _joined(
                cpu["model"],
                f"{cpu['affinity']} of {cpu['online']} CPUs in the affinity mask",
                f"{cpu['cores']} cores",
                "no cgroup quota" if quota is None else f"a cgroup quota of {quota:.3g}",
                cpu["governor"] and f"governor {cpu['governor']}",
            ),
        ),
        ("", f"millrace uses {budget['threads']} thread{'s' * (budget['threads'] > 1)}: {budget['reason']}"),
        (
            "memory",
            _joined(
                memory["total"]
                and f"{size_text(memory['total'])}, {size_text(memory['available'] or 0)} free",
                "no cgroup limit" if limit is None else f"a cgroup limit of {size_text(limit)}",
                memory["huge_pages"] and f"transparent huge pages: {memory['huge_pages']}",
                f"swap {size_text(swap)}" if swap else "no swap",
            ),
        ),
        (
            "OOM",
            _joined(
                f"{memory['kills'] or 0} processes killed in this cgroup",
                *(
                    f"{name} {memory[name]}"
                    for name in ("oom_score_adj", "overcommit")
                    if memory[name] is not None
                ),
            ),
        ),
        (
            "NUMA",
            _joined(
                *(
                    f"node {node['number']}: {len(node['cpus'])} CPUs, {size_text(node['memory'] or 0)}"
                    for node in machine["numa"]
                )
            )
            or "not told",
        ),
        ("/dev/shm", f"{size_text(shm['size'])}, {size_text(shm['free'])} free" if shm else "none"),
        (
            "ulimits",
            _joined(
                f"-n {_limit(limits['open_files'])}",
                f"-u {_limit(limits['processes'])}",
                f"-l {_limit(limits['locked_memory'], size_text)}",
                limits["pids"] and f"pids.max {limits['pids']}",
            ),
        ),
        (
            "software",
            _joined(
                f"Python {software['python']}",
                None if software["gil"] else "no GIL",
                f"start method {software['start_method']}",
                f"torch {software['torch']}",
                f"{software['torch_threads']} threads",
                *(f"{name}={value}" for name, value in software["threads_environment"].items()),
            ),
        ),
        (
            "millrace",
            _joined(
                software["millrace"],
                f"no CUDA: {no_cuda}" if no_cuda else "CUDA",
                "NVTX" if software["nvtx"] else "no NVTX",
                f"libjpeg {software['libjpeg'] or 'inside'}",
                software["simd_is_off"] and "no SIMD",
            ),
        ),
        *([("GPU", f"none timed: {found['no_gpu']}")] if found["no_gpu"] else []),
        *(
            (
                "GPU",
                _joined(
                    f"{gpu['index']}: {gpu.get('name', 'unknown')}",
                    gpu.get("memory") and size_text(gpu["memory"]),
                    f"NUMA node {gpu['node']}" if gpu.get("node", -1) >= 0 else None,
                ),
            )
            for gpu in found.get("gpus") or []
        ),
    ]


class _Words(string.Formatter):
    """Templates in which {x:size}, {x:count} and {x:time} are written as people read them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        written = {"size": size_text, "count": count_text, "time": lambda s: f"{1e3 * s:.3g} ms"}
        return written.get(format_spec, lambda value: format(value, format_spec))(value)


def _timed(found: dict[str, Any]) -> _Rows:
    disk, store, made, need = (found.get(name) or {} for name in ("disk", "store", "batches", "need"))
    own_file = "a file of our own"
    files = f"{disk.get('files', 0):,} files, {size_text(disk.get('bytes', 0))}"
    words = {
        "threads": found["millrace_threads"]["threads"],
        "place": found.get("disk_place"),
        "kind": (found.get("file_system") or {}).get("kind") or "unknown file system",
        "bypassed": _BYPASSED.get(disk.get("bypass", ""), ""),
        "what_files": files + ("" if disk.get("complete") else " and more") if found["path"] else own_file,
        "order": "file after file" if disk.get("as_files") else "in a row",
        "written": f"; written {size_text(disk['write'])}/s" if "write" in disk else "",
        "whose": f"{made.get('photos')} of these photos" if made.get("own") else "made up photos",
        "what": {
            "jpeg224": "RandomResizedCrop(224) samples",
            "tokens": f"rows of {need['length']} tokens",
            "rows": f"rows of {size_text(need['sample_bytes'])}",
        }[need["kind"]],
        "megapixels": made.get("pixels", 0) / 1e6,
    }
    parts = {"disk": disk, "store": store, "batches": made, "memory_copy": found.get("memory_copy") or {}}
    rows = [
        (name, _Words().format(text, **{**words, **parts[part]}))
        for part, key, name, text in _TIMED
        if parts[part].get(key)
    ]
    timed = [gpu for gpu in found.get("gpus") or [] if "pageable" in gpu]
    return [*rows, *((f"to GPU {gpu['index']}", _Words().format(_LINK, **gpu)) for gpu in timed)]


def _attainable(found: dict[str, Any]) -> _Rows:
    needed = found["need"]["rate"]
    rows: _Rows = []
    for row in found["attainable"]:
        mark, rate = "", row["rate"]
        if rate is not None and not row["counts"]:
            mark = "no limit"
        elif rate is not None and needed:
            mark = "too slow" if rate < needed else "fine"
        rows.append((row["name"], "not timed" if rate is None else count_text(rate), mark, row["how"]))
    return rows


def _verdict(found: dict[str, Any], width: int) -> list[str]:
    need, slowest, listed = found["need"], found["tightest"], found["findings"]
    what = {
        "jpeg224": f"JPEGs of {size_text(need['sample_bytes'])}, 224 x 224 float32 in a batch",
        "tokens": f"rows of {need['length']} tokens",
        "rows": f"rows of {size_text(need['sample_bytes'])}",
    }[need["kind"]]
    verdict = f"For {what}: nothing was timed."
    if slowest is not None:
        rate = slowest["rate"]
        verdict = f"For {what}: {count_text(rate)} samples/s are attainable, by {slowest['name']}."
        if need["rate"] is not None:
            times = rate / need["rate"]
            met = f"{times:.3g} times that is there" if times >= 1 else "too slow"
            verdict += f" The model needs {count_text(need['rate'])}: {met}."
    lines = [verdict]
    only_notes = not listed or listed[0]["level"] == "note"
    if listed:
        lines += ["", "Good to know:" if only_notes else "What to fix first:"]
    for number, finding in enumerate(listed, 1):
        note = " (note)" if finding["level"] == "note" and not only_notes else ""
        lines += textwrap.wrap(
            f"{number}. {finding['subject']}: {finding['text']}{note}",
            width,
            subsequent_indent="   ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        lines += [f"   > {finding['command']}"] * bool(finding["command"])
    return lines


def _joined(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part)


def _limit(pair: Any, shown: Any = "{:,}".format) -> str:
    if not pair:
        return "unknown"
    return "unlimited" if pair[0] is None else shown(pair[0])
