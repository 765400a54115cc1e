#!/bin/bash
# Builds Verbatim and its tests if needed, and runs them. See --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit
. dev/minutes.sh

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

VERBATIM_RERUN_MAX=N: if at most N tests of a suite failed, they run once more, alone, one at a time. What passes
then counts as passed, and is listed as a chance failure; one that tests/chance_failures.txt names has failed.

VERBATIM_BUILD_UNTIL=SECONDS: a build of another preset that has not ended by then (seconds of `date +%s`) is stopped,
and what it is for does not run; the end says so.
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

say() {
  stage "$*"
  printf '\n%s\n' "test: $*"
}

passed=0
failed=0
# Prints each failed test and its output at the end, where one looks first in a log of thousands of lines.
failures=()
# Tests that failed, and then passed alone.
chances=()
# What had no time.
stopped=()

count() {
  passed=$((passed + $1))
  failed=$((failed + $2))
}

# failed_tests LOG [LINES]: prints each failed test of ctest's log with the last LINES (30) lines of its output.
failed_tests() {
  awk -v lines="${2:-30}" '
    function flush() { for (i = n > lines ? n - lines : 0; i < n; i++) print kept[i]; n = 0; failing = 0 }
    / Test +#[0-9]+: / || /^ +Start +[0-9]+: / || /% tests passed/ { flush() }
    / Test +#[0-9]+: .*\*\*\*/ && !/\*\*\*Skipped/ { print "\n" $0; failing = 1; next }
    failing { kept[n++] = $0 }' "$1"
}

# run_ctest FOLDER LOG ARGUMENTS...: sets `ran` and `failing`.
run_ctest() {
  local folder=$1 log=$2 status last
  shift 2
  ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  ran=0 failing=0
  last=$(grep -E 'tests passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1)
  if [[ $last =~ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    failing=${BASH_REMATCH[1]} ran=${BASH_REMATCH[2]}
  fi
  # ctest can also fail without a failed test: if it finds none, for instance.
  if [[ $status -ne 0 && $failing -eq 0 ]]; then count 0 1; fi
}

# rerun FOLDER: runs what has failed once more, alone, one at a time. What passes is a chance failure, unless it was one
# before. Sets `failing`.
rerun() {
  local folder=$1 kept name names again=()
  kept=$folder/chance_failures/$(date -u +%Y%m%dT%H%M%SZ).log
  mapfile -t names < <(cut -d: -f2- "$folder/Testing/Temporary/LastTestsFailed.log")
  mkdir -p "$folder/chance_failures"
  failed_tests "$folder/test.log" 100000 >"$kept"
  say "what has failed, once more, alone"
  run_ctest "$folder" "$folder/rerun.log" --rerun-failed -j 1
  if [[ $failing -gt 0 ]]; then mapfile -t again < <(cut -d: -f2- "$folder/Testing/Temporary/LastTestsFailed.log"); fi
  for name in "${names[@]}"; do
    if printf '%s\n' "${again[@]}" | grep -qxF -e "$name"; then continue; fi
    if grep -qxsF -e "$name" tests/chance_failures.txt; then
      failing=$((failing + 1))
      failures+=("$name has failed by chance before (tests/chance_failures.txt): its cause must be found; $kept")
    else
      chances+=("$name: $kept")
    fi
  done
}

# run_suite FOLDER CTEST_ARGUMENTS...
run_suite() {
  local folder=$1 log=$1/test.log tests
  shift
  run_ctest "$folder" "$log" -j "$(nproc)" "$@"
  tests=$ran
  if [[ $failing -gt 0 && $failing -le ${VERBATIM_RERUN_MAX:-0} ]]; then
    rerun "$folder"
    log=$folder/rerun.log
  fi
  count $((tests - failing)) "$failing"
  if [[ $failing -gt 0 ]]; then failures+=("$(failed_tests "$log")"); fi
}

# build_preset PRESET [TARGET]: returns false if that fails, or if VERBATIM_BUILD_UNTIL comes first.
build_preset() {
  local preset=$1 target=${2-all} limit=() status
  say "building the $preset preset"
  if [[ -n ${VERBATIM_BUILD_UNTIL-} ]]; then
    limit=(timeout "$((VERBATIM_BUILD_UNTIL > EPOCHSECONDS ? VERBATIM_BUILD_UNTIL - EPOCHSECONDS : 1))")
  fi
  cmake --preset "$preset" >/dev/null &&
    NINJA_STATUS="$preset: [%f/%t] " "${limit[@]}" cmake --build --preset "$preset" --target "$target" && return
  status=$?
  if [[ ${#limit[@]} -gt 0 && $status -eq 124 ]]; then
    stopped+=("the $preset preset was not built in time, and what it is for did not run")
    return 1
  fi
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

say "building what it needs"
./setup.sh test || exit 1
for name in "${stages[@]}"; do "stage_$name"; done

say "minutes"
printf '%s\n' "${minutes[@]}"
if [[ ${#stopped[@]} -gt 0 ]]; then
  say "no time"
  printf '%s\n' "${stopped[@]}"
fi
if [[ ${#chances[@]} -gt 0 ]]; then
  say "chance failures: failed, and passed alone; each is a bug"
  printf '%s\n' "${chances[@]}"
fi
if [[ ${#failures[@]} -gt 0 ]]; then
  say "what failed"
  printf '%s\n' "${failures[@]}"
fi
if [[ $((passed + failed)) -gt 0 || ${#stopped[@]} -eq 0 ]]; then printf '\n%s\n' "$passed passed, $failed failed"; fi
[[ $failed -eq 0 ]]
