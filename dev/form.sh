#!/bin/bash
# The form of every source and script: clang-format, shellcheck. `./setup.sh lint` installs both. Seconds; .ci/run
# runs it, and so does whoever is about to submit a change.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# The checkout may belong to another user.
git=(git -c safe.directory="$PWD")
status=0

mapfile -t sources < <("${git[@]}" ls-files '*.h' '*.cpp' '*.c')
echo "form: clang-format on ${#sources[@]} files"
if [[ ${#sources[@]} -gt 0 ]] && ! clang-format-19 --dry-run --Werror "${sources[@]}"; then
  echo "form: run: clang-format-19 -i FILE..." >&2
  status=1
fi

mapfile -t scripts < <("${git[@]}" ls-files '*.sh' '.ci/run')
echo "form: shellcheck on ${#scripts[@]} files"
if [[ ${#scripts[@]} -gt 0 ]] && ! shellcheck "${scripts[@]}"; then status=1; fi

exit "$status"
