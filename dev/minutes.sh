# Sourced by test.sh and .ci/run: how long each stage of a run takes.
# shellcheck shell=bash
minutes=()
stage_name=
stage_begin=$SECONDS

# stage NAME: the stage before ends, and this one begins.
stage() {
  local seconds=$((SECONDS - stage_begin))
  if [[ -n $stage_name ]]; then
    minutes+=("$(printf '%6d.%d min  %s' $((seconds / 60)) $((seconds % 60 / 6)) "$stage_name")")
  fi
  stage_name=$1
  stage_begin=$SECONDS
}
