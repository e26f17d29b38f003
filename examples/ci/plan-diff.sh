#!/bin/sh
# What a change of manifests does to the nodes: sh plan-diff.sh BASE FOLDER
# Prints Markdown for a pull request. Fails only if a pod becomes unschedulable (1) or a manifest is wrong (2).
set -eu
base=${1:?"usage: sh plan-diff.sh BASE FOLDER, as in: sh plan-diff.sh origin/main clusters/prod"}
folder=${2:?"usage: sh plan-diff.sh BASE FOLDER, as in: sh plan-diff.sh origin/main clusters/prod"}
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" "$folder" | tar -x -C "$old"
code=0
wain plan --diff "$old/$folder" "$folder" -o markdown || code=$?
# 3: the plan changes, and every pod that was scheduled still is.
if [ "$code" = 3 ]; then code=0; fi
exit "$code"
