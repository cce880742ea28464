#!/bin/sh
# The accuracy table of RESULTS.md. Needs the suites (SUITES=folder) and, to end today, a GPU (JOBS=12).
set -eu
test -n "${SUITES:-}" || { echo "accuracy.sh: left out; set SUITES to the folder of the suites"; exit 0; }
measure() {
  onepass bench accuracy --jobs "${JOBS:-1}" "$@" --methods readers --share-teachers \
    --vary "train.preset=default train.preset=best"
  onepass bench accuracy --jobs "${JOBS:-1}" "$@" --methods single train.epochs=5 train.encoder_rate=5e-5 train.head_rate=5e-4
}
for suite in nhc8 nhc41 glue; do measure --suite "$SUITES/$suite.yaml"; done
measure --suite "$SUITES/content.yaml" --without emotions
onepass bench accuracy --suite "$SUITES/nhc8.yaml" --jobs "${JOBS:-1}" \
  --methods "readers single mtop mtdnn camtl mttag ptuning ptuning2 adapter pals prefix frozen"
