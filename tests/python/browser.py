"""A headless Chromium, as tests of pages use it: what a page wrote to its console, its elements when its
scripts have run, a picture.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


@dataclass
class Seen:
    """console: what was written there, errors of scripts and of the security policy included; elements: the
    page's HTML in the end;
    saved: {name: text} of the files that it gave to its reader.
    """

    console: list[str]
    elements: str
    picture: Image.Image
    saved: dict[str, str]


def browser_or_skip() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium here (scripts/setup.sh with CLIENTS=1 installs it)")
    return found


def run_browser(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Headless Chromium now and then never ends on a busy machine: that says nothing about the page, so a
    browser that hangs is started again, twice at most.
    """
    for seconds in (120, 180):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False, env=environment
            )
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def look(
    page: Path,
    *,
    dark: bool = False,
    height: int = 2400,
    width: int = 1100,
    address: str | None = None,
    budget_ms: int = 3000,
) -> Seen:
    """Opens `page`, for a reader who prefers `dark` or light, and waits until its scripts rest, `budget_ms`
    of their time at most. address: opened in the place of the page's own, whose folder is used all the same.
    """
    profile = page.parent / f"profile of {page.stem}"
    picture = page.with_suffix(".png")
    command = [
        browser_or_skip(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-extensions",
        "--no-first-run",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
        f"--window-size={width},{height}",
        "--enable-logging=stderr",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--virtual-time-budget={budget_ms}",
        "--dump-dom",
        f"--screenshot={picture}",
        address or page.as_uri(),
    ]
    home = {**os.environ, "HOME": str(profile)}
    done = run_browser(command, home)
    assert done.returncode == 0, done.stderr[-2000:]
    console = re.findall(r'CONSOLE[:(]\d+\)?\] "(.*)", source: ', done.stderr)
    with Image.open(picture) as opened:
        saved = {path.name: path.read_text(encoding="utf-8") for path in (profile / "Downloads").glob("*")}
        return Seen(console, done.stdout, opened.convert("RGB"), saved)
