# Remove from an installation what the engine never loads of OpenVINO: plugins for GPUs and NPUs, and readers of other
# formats. Give the Python of the installation:
#     sh deploy/slim.sh .venv/bin/python
# What is left computes on the CPU. `pip install --force-reinstall openvino` brings the rest back.
set -e
find="import importlib.util as u, pathlib as p; print(p.Path(u.find_spec('openvino').origin).parent / 'libs')"
libs=$("${1:-python}" -c "$find")
cd "$libs"
rm -f cache.json libopenvino_c.so*
for part in intel_gpu intel_npu auto auto_batch hetero; do rm -f "libopenvino_${part}_plugin.so"; done
for part in gguf jax onnx paddle pytorch tensorflow tensorflow_lite; do rm -f "libopenvino_${part}_frontend.so"*; done
