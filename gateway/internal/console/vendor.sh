#!/bin/sh
# Fetches what the console takes from others, in the versions and with the
# hashes of package-lock.json, and copies the published files and their licences
# to assets/vendor. SHA256SUMS says what they must be.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json "$work"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --omit=optional >/dev/null)
from=$work/node_modules to=assets/vendor

rm -rf "$to"
mkdir -p "$to"
take() { # package, file, name to be served by
	grep -v '^//# sourceMappingURL=' "$from/$1/$2" >"$to/$3"
	cp "$from/$1/LICENSE" "$to/$(echo "$1" | tr -d @ | tr / -).LICENSE.txt"
}
take preact dist/preact.mjs preact.mjs
take preact hooks/dist/hooks.mjs preact-hooks.mjs
take @preact/signals-core dist/signals-core.mjs preact-signals-core.mjs
take @preact/signals dist/signals.mjs preact-signals.mjs
take htm dist/htm.mjs htm.mjs
take uplot dist/uPlot.esm.js uplot.js
take uplot dist/uPlot.min.css uplot.css
cd "$to" && sha256sum -- * >"$work/sums" && mv "$work/sums" ../../SHA256SUMS
