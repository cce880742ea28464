#!/bin/sh
# Time of a training row as tasks grow; with SUITES=folder also the memory of a training on nhc8.
set -eu
onepass bench training ${SUITES:+--suite "$SUITES/nhc8.yaml" train.epochs=1}
