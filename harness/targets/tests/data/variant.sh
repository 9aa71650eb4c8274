#!/bin/sh
here={here}
launcher={launcher}
case "$1" in --*) echo "$1" >> "$here/questions" ;; esac
case "$1" in
  --version) echo {version}; exit 0 ;;
  --list-params) {listing} ;;
esac
# A real FVP refuses parameters that it does not have.
for argument in "$@"; do
  if [ "$option" = -C ] && ! grep -qF -- "${{argument%%=*}}=" "$here/listing"; then
    echo "Error: ${{argument%%=*}} is not a parameter of this model"
    exit 1
  fi
  case "$argument" in
    *uart0.out_file=*) uart="${{argument#*out_file=}}" ;;
    *semihosting-cwd=*) cd "${{argument#*semihosting-cwd=}}" ;;
  esac
  option="$argument"
done
printf '%s\n' "$@" > "$here/arguments"
# What the launcher has another name for.
count=$#
while [ $count -gt 0 ]; do
  set -- "$@" "${{1#{prefix}}}"
  shift
  count=$((count - 1))
done
{body}
