# How large an installation without torch is: engine and server, and what they need.
#     sh benchmarks/install_size.sh
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
before=$(du -sm "$folder/venv" | cut -f1)
"$folder/venv/bin/pip" install -q "$(dirname "$0")/..[engine,serve]"
after=$(du -sm "$folder/venv" | cut -f1)
"$folder/venv/bin/python" -c "import onepass.engine.engine, importlib.util; assert importlib.util.find_spec('torch') is None"
echo "{\"installed_mb\": $((after - before))}"
