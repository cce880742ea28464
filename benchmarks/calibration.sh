#!/bin/sh
# Calibration error and the precision that thresholds reach, on the test rows of the suite `content`. Needs the suites
# (SUITES=folder) and, to end today, a GPU.
set -eu
test -n "${SUITES:-}" || { echo "calibration.sh: left out; set SUITES to the folder of the suites"; exit 0; }
onepass bench calibration --suite "$SUITES/content.yaml" "$@"
