"""An examination for people: tables by rich on a terminal that has it, else aligned lines."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any, TextIO

from .attainable import count_text, size_text

_Rows = list[tuple[str, ...]]


def show(found: dict[str, Any], stream: TextIO) -> None:
    sections = [
        ("Machine", _machine(found)),
        ("Timed", _timed(found)),
        ("Attainable, samples a second per rank", _attainable(found)),
    ]
    table = _rich_table if stream.isatty() and _has_rich() else _plain_table
    for title, rows in sections:
        table(title, rows, stream)
    width = min(120, shutil.get_terminal_size((120, 24)).columns) if stream.isatty() else 120
    print("\n".join(_verdict(found, width)), file=stream)


def _machine(found: dict[str, Any]) -> _Rows:
    machine, software = found["machine"], found["software"]
    cpu, memory, system, shm, limits = (
        machine["cpu"],
        machine["memory"],
        machine["system"],
        machine["shm"],
        machine["limits"],
    )
    budget = found["millrace_threads"]
    rows = [
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
                "no cgroup quota" if cpu["quota"] is None else f"a cgroup quota of {cpu['quota']:.3g}",
                cpu["governor"] and f"governor {cpu['governor']}",
            ),
        ),
        ("", f"millrace uses {budget['threads']} thread{'s' * (budget['threads'] > 1)}: {budget['reason']}"),
        (
            "memory",
            _joined(
                memory["total"]
                and f"{size_text(memory['total'])}, {size_text(memory['available'] or 0)} free",
                (
                    "no cgroup limit"
                    if memory["limit"] is None
                    else f"a cgroup limit of {size_text(memory['limit'])}"
                ),
                memory["huge_pages"] and f"transparent huge pages: {memory['huge_pages']}",
                "no swap" if not memory["swap"] else f"swap {size_text(memory['swap'])}",
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
        ("/dev/shm", "none" if shm is None else f"{size_text(shm['size'])}, {size_text(shm['free'])} free"),
        (
            "ulimits",
            _joined(
                *(
                    f"{name} {_limit(limits[key])}"
                    for name, key in (("-n", "open_files"), ("-u", "processes"))
                ),
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
                f"for torch {software['built_for_torch']}",
                "CUDA" if not software["millrace_cuda"] else f"no CUDA: {software['millrace_cuda']}",
                "NVTX" if software["nvtx"] else "no NVTX",
                f"libjpeg {software['libjpeg'] or 'inside'}"
                + (", SIMD" if found.get("libjpeg_simd") else ""),
            ),
        ),
    ]
    if found["no_gpu"]:
        rows.append(("GPU", f"none timed: {found['no_gpu']}"))
    for gpu in found.get("gpus") or []:
        rows.append(
            (
                "GPU",
                _joined(
                    f"{gpu['index']}: {gpu.get('name', 'unknown')}",
                    gpu.get("memory") and size_text(gpu["memory"]),
                    f"NUMA node {gpu['node']}" if gpu.get("node", -1) >= 0 else None,
                ),
            )
        )
    return rows


def _timed(found: dict[str, Any]) -> _Rows:
    disk, store, made, copied = (
        found.get(name) or {} for name in ("disk", "store", "batches", "memory_copy")
    )
    rows: _Rows = []
    if "random" in disk:
        kind = (found["file_system"] or {}).get("kind") or "unknown file system"
        how = {
            "O_DIRECT": "past the page cache",
            "dropped": "its pages dropped before",
            "no": "perhaps from the page cache",
        }[disk["bypass"]]
        what = f"{disk['files']:,} files, {size_text(disk['bytes'])}" + (
            "" if disk["complete"] else " and more"
        )
        rows.append(
            (
                "disk",
                f"{found['disk_place']} ({kind}; {what if found['path'] else 'a file of our own'}; {how})",
            )
        )
        order = "file after file" if disk["as_files"] else "in a row"
        rows.append(
            (
                "",
                f"{order} {size_text(disk['sequential'])}/s, {size_text(disk['sequential_one'])}/s by one"
                " reader" + (f"; written {size_text(disk['write'])}/s" if "write" in disk else ""),
            )
        )
        rows.append(
            (
                "",
                (
                    f"{count_text(disk['random'])} random reads of {size_text(disk['random_bytes'])} a second"
                    f" by 16 readers, {count_text(disk['random_one'])} by one"
                    f" ({disk['latency_seconds'] * 1e3:.3g} ms each)"
                ),
            )
        )
        rows.append(
            ("page cache", f"{size_text(disk['cached'])}/s by {found['millrace_threads']['threads']} threads")
        )
    elif disk.get("error"):
        rows.append(("disk", f"not timed: {disk['error']}"))
    if store.get("error"):
        rows.append(("store", f"not timed: {store['error']}"))
    elif store:
        rows.append(
            (
                "store",
                (
                    f"{store['url']}: {store['latency_seconds'] * 1e3:.3g} ms a request,"
                    f" {size_text(store['one'])}/s by one at a time, {size_text(store['many'])}/s by up to"
                    f" {store['requests']:.0f}"
                ),
            )
        )
    if "decode" in made:
        whose = f"{made['photos']} of these photos" if made["own"] else "made up photos"
        rows.append(
            (
                "decoding",
                (
                    f"{count_text(made['decode'])} {whose} ({size_text(made['bytes'])}) a second by one"
                    f" thread, {made['pixels'] / 1e6:,.0f} MP/s"
                ),
            )
        )
    if "one" in made:
        what = {
            "jpeg224": "RandomResizedCrop(224) samples",
            "tokens": f"rows of {found['need']['length']} tokens",
            "rows": f"rows of {size_text(found['need']['sample_bytes'])}",
        }[found["need"]["kind"]]
        rows.append(
            (
                "batches",
                (
                    f"{count_text(made['one'])} {what} a second by one thread, {count_text(made['all'])} by"
                    f" {made['threads']}"
                ),
            )
        )
    if copied:
        rows.append(
            (
                "memory",
                (
                    f"{size_text(copied['all'])}/s copied by {found['millrace_threads']['threads']} threads, "
                    f"{size_text(copied['one'])}/s by one"
                ),
            )
        )
    for gpu in found.get("gpus") or []:
        if "pinned" in gpu:
            text = (
                f"{size_text(gpu['pinned'])}/s from page-locked memory, {size_text(gpu.get('pageable', 0))}/s"
                " from ordinary"
            )
            rows.append(
                (
                    f"to GPU {gpu['index']}",
                    f"{text}; memory is locked at {size_text(gpu['pin_bytes_per_second'])}/s",
                )
            )
    return rows


def _attainable(found: dict[str, Any]) -> _Rows:
    rate = found["need"]["rate"]
    rows: _Rows = []
    for row in found["attainable"]:
        number = "not timed" if row["rate"] is None else f"{count_text(row['rate'])}"
        mark = (
            ""
            if row["rate"] is None or not row["counts"]
            else "too slow"
            if rate and row["rate"] < rate
            else "fine"
            if rate
            else ""
        )
        rows.append(
            (
                row["name"],
                number,
                mark if row["counts"] else "no limit" if row["rate"] is not None else "",
                row["how"],
            )
        )
    return rows


def _verdict(found: dict[str, Any], width: int) -> list[str]:
    need, slowest, listed = found["need"], found["tightest"], found["findings"]
    what = {
        "jpeg224": f"JPEGs of {size_text(need['sample_bytes'])}, 224 x 224 float32 in a batch",
        "tokens": f"rows of {need['length']} tokens",
        "rows": f"rows of {size_text(need['sample_bytes'])}",
    }[need["kind"]]
    lines = [
        f"For {what}: "
        + (
            "nothing was timed."
            if slowest is None
            else f"{count_text(slowest['rate'])} samples/s are attainable, by {slowest['name']}."
        )
    ]
    if need["rate"] is not None and slowest is not None:
        times = slowest["rate"] / need["rate"]
        lines[0] += f" The model needs {count_text(need['rate'])}: " + (
            f"{times:.3g} times that is there." if times >= 1 else "too slow."
        )
    if listed:
        lines += ["", "What to fix first:" if listed[0]["level"] != "note" else "Good to know:"]
    for number, finding in enumerate(listed, 1):
        note = " (note)" if finding["level"] == "note" and listed[0]["level"] != "note" else ""
        text = f"{number}. {finding['subject']}: {finding['text']}{note}"
        lines += textwrap.wrap(
            text, width, subsequent_indent="   ", break_on_hyphens=False, break_long_words=False
        )
        if finding["command"]:
            lines.append(f"   > {finding['command']}")
    return lines


def _plain_table(title: str, rows: _Rows, stream: TextIO) -> None:
    print(title, file=stream)
    widths = [
        max((len(row[i]) for row in rows if i < len(row)), default=0)
        for i in range(max((len(row) for row in rows), default=0))
    ]
    for row in rows:
        cells = [
            cell.rjust(widths[i]) if len(row) > 2 and i == 1 else cell.ljust(widths[i])
            for i, cell in enumerate(row)
        ]
        print("  " + "  ".join(cells).rstrip(), file=stream)
    print(file=stream)


def _rich_table(title: str, rows: _Rows, stream: TextIO) -> None:
    import rich.box
    import rich.console
    import rich.table
    import rich.text

    table = rich.table.Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=rich.box.SIMPLE,
        show_header=False,
        pad_edge=False,
    )
    count = max((len(row) for row in rows), default=0)
    for i in range(count):
        table.add_column(
            justify="right" if count > 2 and i == 1 else "left",
            no_wrap=i + 1 < count,
            style="cyan" if i == 0 else None,
        )
    for row in rows:
        style = "red" if "too slow" in row else None
        table.add_row(*(rich.text.Text(cell) for cell in row), style=style)
    rich.console.Console(file=stream).print(table)


def _has_rich() -> bool:
    try:
        import rich.table  # noqa: F401
    except ImportError:
        return False
    return True


def _joined(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part)


def _limit(pair: Any, shown: Any = lambda number: f"{number:,}") -> str:
    if not pair:
        return "unknown"
    return "unlimited" if pair[0] is None else shown(pair[0])
