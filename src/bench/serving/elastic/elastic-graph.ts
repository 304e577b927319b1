/**
 * The elastic vision transformer as one ONNX graph (OTAS, Fig. 6): who runs it chooses per batch whether every layer adds
 * prompt tokens, merges r tokens away, or leaves them as they are. Merging is ToMe's (Bolya et al. 2023, section 3),
 * prompts are VPT-deep's (Jia et al. 2022, section 3.2) but stay once added, so that the sequence grows in every layer.
 *
 * The three ways are branches of two Ifs at the top and share their weights: a batch that merges nothing pays nothing
 * for it. Prompts and heads are inputs, gathered by each image's task, so that a batch may mix tasks.
 */
import { buildOnnx, type Initializer, type OnnxGraph, type OnnxNode } from "../onnx-builder.js";
import { type ElasticGeometry, type ElasticWeights, weightShapes } from "./elastic-weights.js";

/** TensorProto.DataType */
const FLOAT = 1;
const INT64 = 7;
/** Past every end, of Slice. */
const END = 2 ** 52;
/** Logit of the columns that are no class of an image's task. */
export const NO_CLASS = -1e9;

type Way = "plain" | "prompted" | "merged";

/**
 * image[b,1,side,side] in 0..1, task[b], r[1], prompts[T,layers,P,width], heads[T,width,C], biases[T,C], classes[T]
 * -> logits[b,C], confidence[b]. Prompts go before merging: r counts only where P is 0.
 */
export function elasticModel(geometry: ElasticGeometry, weights: ElasticWeights): Buffer {
  const { side, width, layers } = geometry;
  const float = (name: string, dims: readonly (number | string)[]) => ({ name, type: FLOAT, dims });
  const int = (name: string, dims: readonly (number | string)[]) => ({ name, type: INT64, dims });
  const initializers: Initializer[] = [
    ...weightShapes(geometry).map(([name, dims]) => ({ name, dims, floats: weights.get(name)! })),
    ...constants(geometry),
  ];
  return buildOnnx({
    opset: 20,
    inputs: [
      float("image", ["batch", 1, side, side]),
      int("task", ["batch"]),
      int("r", [1]),
      float("prompts", ["tasks", layers, "prompt_tokens", width]),
      float("heads", ["tasks", width, "classes_max"]),
      float("biases", ["tasks", "classes_max"]),
      int("classes", ["tasks"]),
    ],
    outputs: [float("logits", ["batch", "classes_max"]), float("confidence", ["batch"])],
    nodes: [...stem(), ...chooseWay(geometry), ...classify()],
    initializers,
  });
}

function constants({ width, heads }: ElasticGeometry): Initializer[] {
  const ints = (name: string, ...values: number[]): Initializer => ({ name, dims: [values.length], ints: values });
  return [
    ...[0, 1, 2].map((value) => ints(`int_${value}`, value)),
    ...[0, 1].map((value) => ({ name: `scalar_${value}`, dims: [], ints: [value] })),
    ints("last", -1),
    ints("end", END),
    ints("width", width),
    ints("as_tokens", 0, width, -1),
    ints("pad_first", 0, 1, 0, 0, 0, 0),
    ints("pad_size", 0, 0, 0, 0, 0, 1),
    ints("by_head", 0, 0, heads, width / heads),
    ints("heads_together", 0, 0, width),
    ints("last_two", 1, 2),
    { name: "one", dims: [], floats: [1] },
    { name: "no_class", dims: [], floats: [NO_CLASS] },
  ];
}

/** Three convolutions, to a token for every 4 x 4 pixels; before them goes the class token. */
function stem(): OnnxNode[] {
  const halved = { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] };
  const convolution = (from: string, at: number, attributes: OnnxNode["attributes"] = {}): OnnxNode => ({
    op: "Conv",
    inputs: [from, `stem${at}.weight`, `stem${at}.bias`],
    outputs: [`stem${at}`],
    attributes,
  });
  return [
    convolution("image", 1, halved),
    node("Gelu", ["stem1"], "stem1_active"),
    convolution("stem1_active", 2, halved),
    node("Gelu", ["stem2"], "stem2_active"),
    convolution("stem2_active", 3),
    node("Reshape", ["stem3", "as_tokens"], "patches_across"),
    node("Transpose", ["patches_across"], "patches", { perm: [0, 2, 1] }),
    node("Pad", ["patches", "pad_first"], "patches_and_first"),
    node("Add", ["patches_and_first", "place"], "tokens"),
  ];
}

function chooseWay(geometry: ElasticGeometry): OnnxNode[] {
  const branch = (way: Way): OnnxGraph => encoder(geometry, way);
  const wayOut = (name: string): OnnxGraph["outputs"] => [
    { name, type: FLOAT, dims: ["batch", "tokens_left", geometry.width] },
  ];
  const unprompted: OnnxGraph = {
    inputs: [],
    outputs: wayOut("unprompted"),
    nodes: [
      node("Greater", ["r", "int_0"], "merges"),
      {
        op: "If",
        inputs: ["merges"],
        outputs: ["unprompted"],
        graphs: { then_branch: branch("merged"), else_branch: branch("plain") },
      },
    ],
  };
  return [
    node("Shape", ["prompts"], "prompt_tokens", { start: 2, end: 3 }),
    node("Greater", ["prompt_tokens", "int_0"], "prompts_any"),
    {
      op: "If",
      inputs: ["prompts_any"],
      outputs: ["encoded"],
      graphs: { then_branch: branch("prompted"), else_branch: unprompted },
    },
  ];
}

/** All layers; its names end in the way's, since a name may stand for one value only. */
function encoder({ layers, width }: ElasticGeometry, way: Way): OnnxGraph {
  const nodes: OnnxNode[] = [];
  let x = "tokens";
  if (way === "prompted") nodes.push(node("Gather", ["prompts", "task"], "own_prompts", { axis: 0 }));
  if (way === "merged") nodes.push(...numbersOfBatch());
  for (let at = 0; at < layers; at++) {
    const name = (value: string): string => `${way}_layer${at}_${value}`;
    if (way === "prompted") {
      nodes.push(
        { op: "Constant", inputs: [], outputs: [name("at")], attributes: { value_int: at } },
        node("Gather", ["own_prompts", name("at")], name("prompts"), { axis: 1 }),
        node("Concat", [x, name("prompts")], name("tokens"), { axis: 1 }),
      );
      x = name("tokens");
    }
    const size = way === "merged" && at > 0 ? `merged_layer${at - 1}_size` : null;
    nodes.push(...attention(x, at, name, size));
    x = name("attended");
    if (way === "merged") {
      nodes.push(...merging(x, name, size));
      x = name("left");
    }
    nodes.push(...perceptron(x, at, name));
    x = name("out");
  }
  return { inputs: [], outputs: [{ name: x, type: FLOAT, dims: ["batch", "tokens_left", width] }], nodes };
}

/** Keys by head are `key_heads` [b,N,heads,width/heads]. With sizes, a token counts as the tokens that went into it. */
function attention(x: string, at: number, name: (value: string) => string, size: string | null): OnnxNode[] {
  const weight = (what: string): string => `layer${at}.${what}`;
  const scores = size === null ? "scores" : "proportional";
  return [
    node("LayerNormalization", [x, weight("norm1.scale"), weight("norm1.bias")], name("normed1")),
    ...dense(name("normed1"), weight("qkv"), name("qkv")),
    {
      op: "Split",
      inputs: [name("qkv")],
      outputs: [name("query"), name("key"), name("value")],
      attributes: { axis: 2, num_outputs: 3 },
    },
    node("Reshape", [name("query"), "by_head"], name("query_heads")),
    node("Reshape", [name("key"), "by_head"], name("key_heads")),
    node("Reshape", [name("value"), "by_head"], name("value_heads")),
    node("Transpose", [name("query_heads")], name("queries"), { perm: [0, 2, 1, 3] }),
    node("Transpose", [name("key_heads")], name("keys"), { perm: [0, 2, 3, 1] }),
    node("Transpose", [name("value_heads")], name("values"), { perm: [0, 2, 1, 3] }),
    node("MatMul", [name("queries"), name("keys")], name("scores")),
    ...(size === null
      ? []
      : [
          node("Log", [size], name("size_log")),
          node("Transpose", [name("size_log")], name("size_log_row"), { perm: [0, 2, 1] }),
          node("Unsqueeze", [name("size_log_row"), "int_1"], name("size_log_rows")),
          node("Add", [name("scores"), name("size_log_rows")], name("proportional")),
        ]),
    node("Softmax", [name(scores)], name("shares"), { axis: -1 }),
    node("MatMul", [name("shares"), name("values")], name("mixed_heads")),
    node("Transpose", [name("mixed_heads")], name("mixed_tokens"), { perm: [0, 2, 1, 3] }),
    node("Reshape", [name("mixed_tokens"), "heads_together"], name("mixed")),
    ...dense(name("mixed"), weight("proj"), name("projected")),
    node("Add", [name("projected"), x], name("attended")),
  ];
}

function perceptron(x: string, at: number, name: (value: string) => string): OnnxNode[] {
  const weight = (what: string): string => `layer${at}.${what}`;
  return [
    node("LayerNormalization", [x, weight("norm2.scale"), weight("norm2.bias")], name("normed2")),
    ...dense(name("normed2"), weight("up"), name("hidden")),
    node("Gelu", [name("hidden")], name("active")),
    ...dense(name("active"), weight("down"), name("lowered")),
    node("Add", [name("lowered"), x], name("out")),
  ];
}

/**
 * Merges min(r, (N - 1) / 2) tokens at even places into the most alike one at an odd place each, alike by the mean of
 * their keys over the heads; weighted by size. The class token, at place 0, stays itself. Kept tokens stay in order,
 * since what is even in the next layer depends on it.
 */
function merging(x: string, name: (value: string) => string, size: string | null): OnnxNode[] {
  const slice = (from: string, to: string, start: string, end: string, axis: string, step = "int_1"): OnnxNode =>
    node("Slice", [from, start, end, axis, step], to);
  return [
    node("Shape", [x], name("count"), { start: 1, end: 2 }),
    node("Sub", [name("count"), "int_1"], name("patches")),
    node("Div", [name("patches"), "int_2"], name("pairs")),
    node("Min", ["r", name("pairs")], name("merges")),
    node("ReduceMean", [name("key_heads"), "int_2"], name("key_mean"), { keepdims: 0 }),
    node("ReduceL2", [name("key_mean"), "last"], name("key_length")),
    node("Div", [name("key_mean"), name("key_length")], name("key_unit")),
    slice(name("key_unit"), name("key_even"), "int_2", "end", "int_1", "int_2"),
    slice(name("key_unit"), name("key_odd"), "int_1", "end", "int_1", "int_2"),
    node("Transpose", [name("key_odd")], name("key_odd_across"), { perm: [0, 2, 1] }),
    node("MatMul", [name("key_even"), name("key_odd_across")], name("alike")),
    node("ReduceMax", [name("alike"), "int_2"], name("best"), { keepdims: 0 }),
    node("ArgMax", [name("alike")], name("best_odd"), { axis: 2, keepdims: 0 }),
    node("Shape", [name("best")], name("evens"), { start: 1, end: 2 }),
    { op: "TopK", inputs: [name("best"), name("evens")], outputs: [name("best_sorted"), name("by_likeness")] },
    slice(name("by_likeness"), name("gone"), "int_0", name("merges"), "int_1"),
    slice(name("by_likeness"), name("stays_unsorted"), name("merges"), "end", "int_1"),
    node("Sub", [name("evens"), name("merges")], name("stay_count")),
    {
      op: "TopK",
      inputs: [name("stays_unsorted"), name("stay_count")],
      outputs: [name("stays"), name("stays_at")],
      attributes: { largest: 0 },
    },
    node("GatherElements", [name("best_odd"), name("gone")], name("into"), { axis: 1 }),
    ...(size === null
      ? [node("Pad", [x, "pad_size", "one"], name("sums"))]
      : [
          node("Mul", [x, size], name("weighted")),
          node("Concat", [name("weighted"), size], name("sums"), { axis: 2 }),
        ]),
    slice(name("sums"), name("sums_first"), "int_0", "int_1", "int_1"),
    slice(name("sums"), name("sums_even"), "int_2", "end", "int_1", "int_2"),
    slice(name("sums"), name("sums_odd"), "int_1", "end", "int_1", "int_2"),
    node("Unsqueeze", [name("gone"), "int_2"], name("gone_at")),
    node("Unsqueeze", [name("stays"), "int_2"], name("stays_index")),
    node("GatherND", [name("sums_even"), name("gone_at")], name("sums_gone"), { batch_dims: 1 }),
    node("GatherND", [name("sums_even"), name("stays_index")], name("sums_stay"), { batch_dims: 1 }),
    node("Unsqueeze", [name("into"), "int_2"], name("into_at")),
    node("Shape", [name("into_at")], name("into_shape")),
    node("Expand", ["batch_numbers", name("into_shape")], name("into_batch")),
    node("Concat", [name("into_batch"), name("into_at")], name("into_index"), { axis: 2 }),
    node("ScatterND", [name("sums_odd"), name("into_index"), name("sums_gone")], name("sums_merged"), {
      reduction: "add",
    }),
    node("Concat", [name("sums_first"), name("sums_stay"), name("sums_merged")], name("sums_left"), { axis: 1 }),
    slice(name("sums_left"), name("size"), "width", "end", "int_2"),
    slice(name("sums_left"), name("weighted_left"), "int_0", "width", "int_2"),
    node("Div", [name("weighted_left"), name("size")], name("left")),
  ];
}

/** batch_numbers [b,1,1]: 0, 1, ... */
function numbersOfBatch(): OnnxNode[] {
  return [
    node("Size", ["task"], "batch_count"),
    node("Range", ["scalar_0", "batch_count", "scalar_1"], "batch_line"),
    node("Unsqueeze", ["batch_line", "last_two"], "batch_numbers"),
  ];
}

/** The class token through its image's head; columns that the task does not have get NO_CLASS. */
function classify(): OnnxNode[] {
  return [
    node("Slice", ["encoded", "int_0", "int_1", "int_1"], "class_token"),
    node("LayerNormalization", ["class_token", "norm.scale", "norm.bias"], "features"),
    node("Gather", ["heads", "task"], "own_heads", { axis: 0 }),
    node("MatMul", ["features", "own_heads"], "class_rows"),
    node("Squeeze", ["class_rows", "int_1"], "unbiased"),
    node("Gather", ["biases", "task"], "own_biases", { axis: 0 }),
    node("Add", ["unbiased", "own_biases"], "all_logits"),
    node("Gather", ["classes", "task"], "own_classes", { axis: 0 }),
    node("Unsqueeze", ["own_classes", "int_1"], "own_classes_column"),
    node("Shape", ["biases"], "columns_list", { start: 1, end: 2 }),
    node("Squeeze", ["columns_list"], "columns_count"),
    node("Range", ["scalar_0", "columns_count", "scalar_1"], "columns"),
    node("Less", ["columns", "own_classes_column"], "is_class"),
    node("Where", ["is_class", "all_logits", "no_class"], "logits"),
    node("Softmax", ["logits"], "probabilities", { axis: -1 }),
    node("ReduceMax", ["probabilities", "int_1"], "confidence", { keepdims: 0 }),
  ];
}

const dense = (from: string, weight: string, to: string): OnnxNode[] => [
  node("MatMul", [from, `${weight}.weight`], `${to}_unbiased`),
  node("Add", [`${to}_unbiased`, `${weight}.bias`], to),
];

function node(op: string, inputs: readonly string[], output: string, attributes?: OnnxNode["attributes"]): OnnxNode {
  return { op, inputs, outputs: [output], ...(attributes === undefined ? {} : { attributes }) };
}
