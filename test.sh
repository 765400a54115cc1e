#!/bin/bash
# Builds Verbatim and its tests if needed, and runs them. See --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

usage() {
  cat <<'END'
Usage: ./test.sh [OPTION]...

Without an option: the release build's suite, then the unit tests under AddressSanitizer and
UndefinedBehaviorSanitizer. With options, only what they name:

  --long          the release suite with its long set: every program at every MTU, with polling and
                  events, one and eight queue pairs, one way and both (two hours: an hour of it is one test);
                  as root, --arm64 and --packages as well
  --peers         against Linux's own rdma_rxe and siw, in a kernel under QEMU (needs /dev/net/tun and
                  network namespaces; seven minutes)
  --asan          the whole suite, but the long set, under address and undefined sanitizers
  --tsan          the unit tests under ThreadSanitizer, but the simulations, which have one thread
  --fuzz SECONDS  each fuzz target for that long
  --fresh [12|13] in minimal Debian systems made with debootstrap, of that release or of both: a clean
                  clone, ./demo.sh and ./test.sh as root and as an ordinary user with sudo (needs root
                  and a network)
  --packages [12|13]  in two minimal Debian systems of that release, or of each: makes the Debian packages in one, and in
                  the other installs them, uses them, and removes them (needs root and a network)
  --arm64         in a minimal Debian 13: builds everything for aarch64 with Debian's cross compiler, and
                  runs the unit tests of base, wire, transport, cm and region under qemu-user (needs
                  root and a network)
  --help          this text

The last line says how many tests passed and failed; the exit status is 0 where none failed.
END
}

stages=()
fuzz_seconds=
releases=(12 13)
while [[ $# -gt 0 ]]; do
  case $1 in
    --peers | --asan | --tsan | --arm64) stages+=("${1#--}") ;;
    --long)
      stages+=(long)
      if [[ $EUID -eq 0 ]]; then stages+=(arm64 packages); fi
      ;;
    --fresh | --packages)
      stages+=("${1#--}")
      if [[ ${2-} =~ ^1[23]$ ]]; then
        releases=("$2")
        shift
      fi
      ;;
    --fuzz)
      fuzz_seconds=${2-}
      [[ $fuzz_seconds =~ ^[0-9]+$ ]] || { usage >&2 && exit 2; }
      stages+=(fuzz)
      shift
      ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done
if [[ ${#stages[@]} -eq 0 ]]; then stages=(release asan_unit); fi

say() { printf '\n%s\n' "test: $*"; }

passed=0
failed=0
# Prints each failed test and its output at the end, where one looks first in a log of thousands of lines.
failures=()

count() {
  passed=$((passed + $1))
  failed=$((failed + $2))
}

# failed_tests LOG: prints each failed test of ctest's log with the last 30 lines of its output.
failed_tests() {
  awk '
    function flush() { for (i = n > 30 ? n - 30 : 0; i < n; i++) print kept[i]; n = 0; failing = 0 }
    / Test +#[0-9]+: / || /^ +Start +[0-9]+: / || /% tests passed/ { flush() }
    / Test +#[0-9]+: .*\*\*\*/ && !/\*\*\*Skipped/ { print "\n" $0; failing = 1; next }
    failing { kept[n++] = $0 }' "$1"
}

# run_suite FOLDER CTEST_ARGUMENTS...
run_suite() {
  local folder=$1 log last
  shift
  log=$folder/test.log
  ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$(nproc)" "$@" 2>&1 |
    tee "$log"
  local status=${PIPESTATUS[0]}
  last=$(grep -E 'tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1)
  if [[ $last =~ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    count $((BASH_REMATCH[2] - BASH_REMATCH[1])) "${BASH_REMATCH[1]}"
  fi
  if [[ $status -ne 0 ]]; then failures+=("$(failed_tests "$log")"); fi
  # ctest can also fail without a failed test: if it finds none, for instance.
  if [[ $status -ne 0 && ${BASH_REMATCH[1]:-0} -eq 0 ]]; then count 0 1; fi
}

# build_preset PRESET [TARGET]: returns false if that fails.
build_preset() {
  local preset=$1 target=${2-all}
  say "building the $preset preset"
  cmake --preset "$preset" >/dev/null &&
    NINJA_STATUS="$preset: [%f/%t] " cmake --build --preset "$preset" --target "$target" && return
  echo "test: error: the $preset preset does not build (above)" >&2
  count 0 1
  return 1
}

stage_release() {
  say "the suite"
  run_suite build -LE long
}

stage_long() {
  say "the suite with its long set"
  run_suite build
}

stage_peers() {
  ./setup.sh test peers || return
  say "Linux's own stack as the peer"
  run_suite build -L peers
}

stage_asan_unit() {
  build_preset asan unit_tests || return
  say "unit tests under address and undefined sanitizers"
  run_suite build/asan -L unit
}

stage_asan() {
  build_preset asan || return
  say "the suite under address and undefined sanitizers"
  run_suite build/asan -LE long
}

stage_tsan() {
  build_preset tsan unit_tests || return
  say "unit tests under ThreadSanitizer (the simulations have one thread)"
  run_suite build/tsan -L unit -E '^sim\.'
}

stage_fuzz() {
  build_preset fuzz fuzz || return
  local target name found
  for target in build/fuzzing/bin/fuzz_*; do
    name=${target##*/fuzz_}
    found=build/fuzzing/found/$name
    say "fuzzing $name for $fuzz_seconds seconds"
    mkdir -p "$found"
    # libFuzzer tells each new input: that is of use only if one of them is wrong.
    if "$target" -max_total_time="$fuzz_seconds" -print_final_stats=1 -artifact_prefix="$found/" \
      "$found" "fuzz/corpus/$name" >"$found.log" 2>&1; then
      grep -E '^Done ' "$found.log"
      count 1 0
    else
      tail -n 60 "$found.log"
      failures+=("fuzz_$name: see $found.log and $found/")
      count 0 1
    fi
  done
}

# fresh RELEASE WHAT
fresh() {
  say "a fresh Debian $1: $2"
  if dev/fresh.sh "$1" "$2"; then count 1 0; else count 0 1; fi
}

stage_fresh() {
  local release who
  for release in "${releases[@]}"; do
    for who in user root; do fresh "$release" "$who"; done
  done
}

stage_packages() {
  local release
  for release in "${releases[@]}"; do fresh "$release" package; done
}

stage_arm64() {
  fresh 13 arm64
}

./setup.sh test || exit 1
for stage in "${stages[@]}"; do "stage_$stage"; done

if [[ ${#failures[@]} -gt 0 ]]; then
  say "what failed"
  printf '%s\n' "${failures[@]}"
fi
printf '\n%s\n' "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
