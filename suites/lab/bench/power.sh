#!/bin/bash
# Tells the bench board's control port one line: power.sh HOST:PORT power off|on|cycle. Status 1 unless it answers ok.
set -euo pipefail
exec 3<>"/dev/tcp/${1%:*}/${1##*:}"
shift
echo "$*" >&3
read -r -t 60 answer <&3
echo "$answer"
[[ $answer == ok* ]]
