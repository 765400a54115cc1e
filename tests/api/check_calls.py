#!/usr/bin/env python3
"""Each member function, function, status and call of the public headers is named in a test of this folder."""

import re
import sys
from pathlib import Path

KEYWORDS = {"alignas", "bool", "check", "co_await", "for", "if", "noexcept", "operator", "return", "sizeof", "static_assert",
            "switch", "while"}
# Members of a coroutine's promise and of an awaiter: the compiler calls them.
LANGUAGE = {"await_ready", "await_resume", "await_suspend", "final_suspend", "get_return_object", "initial_suspend",
            "return_value", "return_void", "unhandled_exception", "throw_error"}
# For code that the library itself calls, or code close to it.
INNER = {"call_when_done", "handle", "resume_with"}


def without_block(text, begin):
    """Returns the text without the blocks that begin so, up to the closing brace of each."""
    while (at := text.find(begin)) >= 0:
        end, depth = at + len(begin), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[:at] + text[end:]
    return text


def public_text(text):
    """Returns the text without comments, macros, `detail`, and private or protected members."""
    text = without_block(re.sub(r"//.*|^#.*", "", text, flags=re.M), "namespace detail {")
    return re.sub(r"\n (?:private|protected):.*?\n\};", "\n};", text, flags=re.S)


def names_of(header):
    text = public_text(header.read_text(encoding="utf-8"))
    called = re.findall(r"[\w>&*\]] +&?([a-z]\w*)\(", text)
    return set(called) - KEYWORDS - LANGUAGE - INNER


def main():
    root = Path(sys.argv[1])
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "tests/api").glob("*.cpp")))
    tests += (root / "tests/api/test_util.h").read_text(encoding="utf-8")
    missing = []
    for header in sorted((root / "include/verbatim").glob("*.h")):
        names = names_of(header)
        missing += [f"{header.name}: {name}" for name in sorted(names) if not re.search(rf"\b{name}\b *[(<]", tests)]
        print(f"{header.name}: {len(names)} functions")
    for name in missing:
        print("no test names", name)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
