#!/bin/sh
# Shows the main job: a reservation filling up and falling back, one pod explained, and what is
# said of a manifest with mistakes.
set -eu
wain=${WAIN:-wain}

run() {
    echo "\$ wain $*"
    code=0
    "$wain" "$@" 2>&1 || code=$?
    [ "$code" -eq 0 ] || echo "(exit code $code)"
    echo
}

run plan examples/reserved-then-spot
run explain pod web-5 examples/reserved-then-spot
run reservations examples/reserved-then-spot
run validate examples/mistakes/nodepool.yaml
