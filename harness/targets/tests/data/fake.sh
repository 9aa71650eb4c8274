#!/bin/sh
if [ "$1" = --version ]; then
  echo {version}
  exit 0
fi
if [ "$1" = --list-params ]; then
  echo "unknown option --list-params"
  exit 1
fi
for argument in "$@"; do
  case "$argument" in
    *uart0.out_file=*) uart="${{argument#*out_file=}}" ;;
    *semihosting-cwd=*) cd "${{argument#*semihosting-cwd=}}" ;;
  esac
done
{body}
