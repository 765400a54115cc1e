#!/usr/bin/env python3
"""move.py ROOT: moves the files, rewrites what names them."""
import pathlib, re, subprocess, sys, collections
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from map import MAP
root = pathlib.Path(sys.argv[1]); src = root / "src"
dry = "--dry" in sys.argv
def stem_of(name):
    stem = name.rsplit(".", 1)[0]
    return stem
moves = {}
for old, rooms in MAP.items():
    table = {}
    for room, stems in rooms.items():
        for s in stems.split():
            a, _, b = s.partition("=")
            table[a] = (room, b or a)
    used = set()
    for path in sorted((src / old).iterdir()):
        if path.suffix not in (".h", ".cpp", ".c"): continue
        stem = stem_of(path.name)
        base = stem[:-5] if stem.endswith("_test") and stem not in table else stem
        if base not in table: continue
        used.add(base)
        room, new = table[base]
        if room.startswith("ulp/rsocket") and new.startswith("rsocket_") : new = new[8:]
        moves[f"{old}/{path.name}"] = f"{room}/{new}{'_test' if base != stem else ''}{path.suffix}"
    for s in table.keys() - used: print("unused stem", old, s)
count = collections.Counter()
after = {}
for path in src.rglob("*"):
    if path.is_file():
        rel = str(path.relative_to(src)); new = moves.get(rel, rel)
        count[str(pathlib.Path(new).parent)] += 1
for k in sorted(count): print(count[k], k)
if len(set(moves.values())) != len(moves): print("COLLISION", [v for v, c in collections.Counter(moves.values()).items() if c > 1])
if dry:
    left = [str(p.relative_to(src)) for p in src.rglob("*") if p.suffix in (".h", ".cpp") and str(p.relative_to(src)) not in moves]
    print("not moved:", " ".join(sorted(left)))
    sys.exit()
for old, new in moves.items():
    (src / new).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "-C", str(root), "mv", f"src/{old}", f"src/{new}"], check=True)
# Longest first; a path in any text file.
pattern = re.compile(r"(?<![\w./-])(src/)?(" + "|".join(re.escape(k) for k in sorted(moves, key=len, reverse=True)) + r")(?![\w])")
RUN = re.compile(r'(?:^#include "[^"\n]*"\n)+', re.MULTILINE)
for name in subprocess.run(["git", "-C", str(root), "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n"):
    path = root / name
    if not name or not path.is_file() or path.is_symlink(): continue
    try: text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError: continue
    def renamed(text): return pattern.sub(lambda m: (m[1] or "") + moves[m[2]], text)
    def sorted_run(m):
        lines = m[0].splitlines(); after = [renamed(line) for line in lines]
        return "\n".join(sorted(after)) + "\n"
    new = renamed(text) if path.suffix not in (".h", ".cpp", ".c") else renamed(RUN.sub(sorted_run, text))
    if new != text: path.write_text(new, encoding="utf-8")
