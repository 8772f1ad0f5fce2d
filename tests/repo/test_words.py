"""Words that make sentences hard to read for those who learned English later stay rare.

python tests/repo/test_words.py prints how often each stands among 100,000 words of python, src, include and
docs. The limits are a fifth of the counts before these texts were rewritten.
"""

from __future__ import annotations

import re

from repo_tree import ROOT, files

#: {pattern: at most so many per 100,000 words}
LIMITS = {
    "whose": 63 / 5,
    "what is": 64 / 5,
    "behind": 75 / 5,
    "stands?": 21 / 5,
    "who": 25 / 5,
    "whoever": 14 / 5,
}


def frequencies() -> dict[str, float]:
    folders = [ROOT / folder for folder in ("python", "src", "include", "docs")]
    paths = [
        path
        for path in files(".py", ".pyi", ".h", ".cpp", ".cu", ".md")
        if any(folder in path.parents for folder in folders)
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths).lower()
    words = len(re.findall(r"[a-z']+", text))
    return {word: len(re.findall(rf"\b{word}\b", text)) * 1e5 / words for word in LIMITS}


def test_hard_words_are_rare() -> None:
    frequent = {word: n for word, n in frequencies().items() if n > LIMITS[word]}
    assert not frequent, "name the thing; see CONTRIBUTING.md"


if __name__ == "__main__":
    for word, n in frequencies().items():
        print(f"{word:8} {n:5.1f} of 100,000 words, at most {LIMITS[word]:.1f}")
