import sys, pathlib, collections
root = pathlib.Path(sys.argv[1]); sys.path.insert(0, str(root / "tests/tree"))
import check_includes as c
src = root / "src"; found = collections.Counter()
for path in sorted(src.rglob("*")):
    if path.suffix in (".h", ".cpp", ".c"):
        for room, other, s in c.uses_of(path, src):
            if room is None: print("#", s)
            else: found[room, other] += 1
print("NOT_YET = {"); [print(f"    {k}: {v},".replace("'", '"')) for k, v in sorted(found.items())]; print("}")
print("# Units that include each other. A knot here only goes.\nKNOTS = (")
for k in c.knots_of(src): print(f"    {k},".replace("'", '"'))
print(")")
