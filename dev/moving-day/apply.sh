#!/bin/bash
# apply.sh ROOT: moving day, whole.
set -euo pipefail
cd "$1"; M=$(cd "$(dirname "$0")" && pwd)
python3 ../shared/house/rename.py . ; git add -A; python3 $M/move.py . ; python3 $M/cmake_patch.py . ; python3 $M/readmes.py . ; python3 $M/texts.py .
cp $M/includes.py $M/check_includes.py $M/check_includes_test.py tests/tree/
git add -A
git ls-files '*.h' '*.cpp' '*.c' | xargs -P2 -n 40 clang-format-19 -i
python3 $M/gen.py . > $M/gen.out; grep '^#  *src' $M/gen.out || true
{ echo; sed -n '/^# What is not yet/,$d;p' /dev/null; } >/dev/null
python3 - <<'P'
import re
p = "tests/tree/includes.py"; s = open(p).read(); g = open("dev/moving-day/gen.out").read()
g = g[g.index("NOT_YET"):]
open(p, "w").write(s[:s.index("NOT_YET = {}")] + g)
P
python3 tests/tree/check_includes.py . | head; python3 tests/tree/check_shape.py . | head -20; python3 tests/tree/check_security.py . | tail -3
