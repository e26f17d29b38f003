#!/bin/sh
# Shows what there is to see so far: a folder of manifests with mistakes, and what is said of it.
set -eu
wain=${WAIN:-wain}

echo '$ wain validate examples/mistakes'
code=0
"$wain" validate examples/mistakes 2>&1 || code=$?
echo "(exit code $code: nothing of this would be accepted)"
