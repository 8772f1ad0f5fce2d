"""A dump for people: the answer to "why does nothing come" in the first lines, then everything."""

from __future__ import annotations

import json
import os
from typing import Any

_FACTS = {
    "task": " task {}",
    "index": " index {}",
    "path": " ({})",
    "indices": " of samples {}",
    "samples": " of {} samples",
}


def as_text(moment: dict[str, Any]) -> str:
    """Lines of plain text."""
    lines = [f"millrace: state of process {moment['pid']}"]
    for number, loader in enumerate(moment["loaders"]):
        lines += _loader(number, loader)
    for transfer in moment["transfers"]:
        lines.append("  transfer " + ", ".join(f"{key} {value}" for key, value in transfer.items()))
    for thread in moment["python_threads"]:
        lines += [f"Python thread {thread['name']} (most recent call first)", *thread["stack"]]
    return "\n".join(lines) + "\n"


def written(moment: dict[str, Any], path: str) -> None:
    """As JSON where the name ends in .json, else as text; appears whole or not at all."""
    text = json.dumps(moment, indent=1, default=repr) + "\n" if path.endswith(".json") else as_text(moment)
    temporary = f"{path}.{os.getpid()}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def _loader(number: int, loader: dict[str, Any]) -> list[str]:
    head = f"loader {number}: {loader['dataset']}, engine {loader['engine']}, {loader['num_workers']} workers"
    head += f", iterator {loader['iterator']}"
    if "step" in loader:
        head += f", epoch {loader['epoch']}, {loader['step']} batches handed out"
    if "seconds_since_last_batch" in loader:
        head += f", the last one {loader['seconds_since_last_batch']:.1f} s ago"
    lines = [head]
    if "error" in loader:
        lines.append(f"  not all could be found out: {loader['error']}")
    if "indices" in loader:
        lines.append(f"  in the training process: samples {loader['indices']}")
    if "queue" in loader:
        lines.append("  queue: " + ", ".join(f"{key} {value}" for key, value in loader["queue"].items()))
    if loader.get("on_their_way_to_the_device"):
        lines.append(
            f"  {loader['on_their_way_to_the_device']} batches on their way to the device, or there and not"
            " handed out"
        )
    for worker in loader.get("workers", ()):
        lines += _worker(worker)
    return lines


def _worker(worker: dict[str, Any]) -> list[str]:
    if worker.get("alive") is False:
        return [
            f"  {worker['name']}: dead"
            + (f", exit code {worker['exitcode']}" if "exitcode" in worker else "")
        ]
    line = f"  {worker['name']}: {worker['doing']}"
    for key, form in _FACTS.items():
        if worker.get(key) not in (None, ""):
            line += form.format(worker[key])
    if worker.get("doing") != "idle":
        line += f", for {worker.get('sample_seconds', worker.get('seconds', 0.0)):.1f} s"
    if worker.get("waiting_tasks"):
        line += f", {worker['waiting_tasks']} more waiting"
    if worker.get("system"):
        line += f" [{worker['system']}]"
    lines = [line]
    if "stack" in worker:
        stack = worker["stack"]
        lines += (
            [f"    {call}" for call in stack]
            if stack
            else ["    no Python stack: it did not answer, or is still starting"]
        )
    return lines
