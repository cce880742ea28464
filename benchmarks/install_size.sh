# How large an installation without torch is, engine and server and what they need: as files (pip install --no-compile, or
# uv), with the bytecode of every module, which pip writes unless told not to, and of the latter after deploy/slim.sh.
#     sh benchmarks/install_size.sh
set -e
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
size() { du -sm "$folder/venv" | cut -f1; }
before=$(size)
"$folder/venv/bin/pip" install -q --no-compile "$here/..[engine,serve]"
files=$(size)
"$folder/venv/bin/python" -m compileall -q "$folder/venv/lib" || true  # templates among the packages are not Python yet
compiled=$(size)
sh "$here/../deploy/slim.sh" "$folder/venv/bin/python"
slim=$(size)
"$folder/venv/bin/python" -c "import onepass.engine.engine, importlib.util; assert importlib.util.find_spec('torch') is None"
"$folder/venv/bin/python" -c "import openvino; assert openvino.Core().available_devices == ['CPU']"
echo "{\"installed_mb\": $((files - before)), \"with_bytecode_mb\": $((compiled - before)), \"slim_mb\": $((slim - before))}"
