#!/bin/bash
# Builds each program of this folder with nvcc and runs it, on a machine with an NVIDIA GPU:
#
#     tests/driver_defects/run.sh [NAME...]
#
# Prints what each program says, and a table. Exit code: 0 no defect, 1 a defect, 2 only that some could not run.
cd "$(dirname "$0")" || exit 2
build=$(mktemp -d) || exit 2
trap 'rm -rf "$build"' EXIT

programs=("$@")
[ $# -gt 0 ] || programs=(*.cu)
for program in "${programs[@]}"; do
  name=${program%.cu}
  nvcc -o "$build/$name" "$name.cu" &
done
wait

table="" result=0
for program in "${programs[@]}"; do
  name=${program%.cu}
  printf '\n%s\n' "$name"
  timeout --kill-after=5 200 "$build/$name"
  code=$?
  case $code in
    0) outcome=absent ;;
    1) outcome=present result=1 ;;
    124 | 137) outcome="ended after 200 s" ;;
    *) outcome="could not run" ;;
  esac
  [ $code -le 1 ] || [ $result = 1 ] || result=2
  table+=$(printf '%-28s %s' "$name" "$outcome")$'\n'
done
printf '\n%s' "$table"
exit $result
