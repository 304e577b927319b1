/**
 * What becomes of each field of Triton's `config.pbtxt`: the one table that the reader, `check` and the documentation
 * follow. A field of no row has its parent's; one that no version of Triton knows is refused with the nearest name.
 */

export interface TritonField {
  /** Names joined by dots, without indices: "dynamic_batching.preserve_ordering". */
  readonly path: string;
  /**
   * obeyed: it says what is served. warned: it is not offered, and leaving it out costs no answer; said in the log and by
   * `check`. refused: leaving it out in silence would change answers, or when they come.
   */
  readonly kind: "obeyed" | "warned" | "refused";
  /** What it does here, or what there is instead. */
  readonly what: string;
}

const row = (kind: TritonField["kind"], path: string, what: string): TritonField => ({ path, kind, what });

export const TRITON_FIELD_TABLE: readonly TritonField[] = [
  row("obeyed", "name", "must be the folder's name"),
  row("obeyed", "platform", "onnxruntime_onnx; any other is refused"),
  row("obeyed", "backend", "onnxruntime; any other is refused"),
  row("warned", "runtime", "the runtime is the server's own"),
  row("obeyed", "version_policy", "latest n, all or specific; without it the greatest version is served"),
  row("obeyed", "max_batch_size", "largest batch, rows, at most 4096; 0: the model does not batch"),
  row("obeyed", "input", "name, data_type, dims, reshape, optional; what the model file says need not be repeated"),
  row("warned", "input.format", "the layout is the model's own"),
  row("refused", "input.is_shape_tensor", "shape tensors are not offered"),
  row(
    "refused",
    "input.allow_ragged_batch",
    "requests of different shapes do not share a batch; pad them with buckets",
  ),
  row("refused", "input.is_non_linear_format_io", "only linear tensors are offered"),
  row("obeyed", "output", "name, data_type, dims, reshape; where any is listed, only those are served"),
  row("warned", "output.label_filename", "classification is not offered: answers have no labels"),
  row("refused", "output.is_shape_tensor", "shape tensors are not offered"),
  row("refused", "output.is_non_linear_format_io", "only linear tensors are offered"),
  row("refused", "batch_input", "inputs made from the shape of a batch are not offered"),
  row("refused", "batch_output", "outputs cut by the shape of a batch are not offered"),
  row("warned", "optimization", "the runtime's own optimisations are used"),
  row("obeyed", "dynamic_batching", "every model with a batch axis batches, by deadlines"),
  row(
    "warned",
    "dynamic_batching.preferred_batch_size",
    "the size of a batch follows from deadlines and measured times",
  ),
  row("warned", "dynamic_batching.max_queue_delay_microseconds", "when a batch leaves follows from deadlines"),
  row("obeyed", "dynamic_batching.preserve_ordering", "a stream is answered in the order of its requests in any case"),
  row(
    "warned",
    "dynamic_batching.priority_levels",
    "order follows from deadlines: give what is urgent a shorter timeout",
  ),
  row("warned", "dynamic_batching.default_priority_level", "order follows from deadlines"),
  row(
    "refused",
    "dynamic_batching.priority_queue_policy",
    "limits by priority are not offered; use default_queue_policy",
  ),
  row("obeyed", "dynamic_batching.default_queue_policy", "unless rubato.yaml says slo_ms, default_timeout_ms or queue"),
  row(
    "refused",
    "dynamic_batching.default_queue_policy.timeout_action",
    "REJECT alone: what cannot be in time is answered early; DELAY is not offered",
  ),
  row(
    "obeyed",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "the deadline of a whole request that brings no timeout, execution included",
  ),
  row(
    "obeyed",
    "dynamic_batching.default_queue_policy.allow_timeout_override",
    "true: a request's timeout may shorten the default; false: it is not heard where there is a default",
  ),
  row("obeyed", "dynamic_batching.default_queue_policy.max_queue_size", "waiting requests; one more is a 429; 0: 1000"),
  row("refused", "sequence_batching", "state between requests is not kept here; let the client hold it"),
  row("refused", "ensemble_scheduling", "write it as pipeline.yaml (docs/pipelines.md)"),
  row("warned", "instance_group", "workers belong to accelerator groups: see groups of rubato.config.yaml"),
  row("obeyed", "default_model_filename", "inside the version's folder; default model.onnx"),
  row("warned", "cc_model_filenames", "one file serves every device"),
  row("warned", "metric_tags", "metrics have their own labels"),
  row("obeyed", "parameters", "shown in the model's configuration; they set nothing"),
  row("warned", "model_warmup", "every model is warmed up and measured when it is loaded"),
  row("refused", "model_operations", "libraries of custom operators are not loaded"),
  row("refused", "model_transaction_policy.decoupled", "one answer to each request"),
  row("obeyed", "model_transaction_policy", "decoupled: false is what is served"),
  row("refused", "model_repository_agents", "what an agent would do to the files is not done"),
  row("warned", "response_cache", "answers are not cached"),
  row("warned", "model_metrics", "metrics have their own buckets"),
];

const BY_PATH = new Map(TRITON_FIELD_TABLE.map((field) => [field.path, field]));

/** The row of a field: its own, or of the nearest parent that has one. */
export function tritonField(path: string): TritonField | null {
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const found = BY_PATH.get(at);
    if (found !== undefined) return found;
  }
  return null;
}

/** docs/config-pbtxt.md. */
export function renderTritonFields(): string {
  const kinds: Record<TritonField["kind"], string> = {
    obeyed: "Obeyed",
    warned: "Known, not offered: a warning",
    refused: "Known, not offered: refused",
  };
  const lines = [
    "<!-- Made by scripts/gen-docs.mjs from src/config/server/triton-fields.ts. Change that, then run it. -->",
    "",
    "# Triton's config.pbtxt",
    "",
    "Read beside `rubato.yaml`, which has the last word. The text is read as",
    "protobuf reads it: enums by name or number, escapes, `<` `>`, lists, comments. A field is of one of three kinds; one that Triton",
    "does not know is refused with the nearest name. Fields at their default (`false`, 0, empty) mean nothing and are passed over. A field",
    "without a row is of its parent's kind. `rubato check FOLDER` says the same as loading does.",
  ];
  for (const [kind, title] of Object.entries(kinds)) {
    lines.push("", `## ${title}`, "", "| field | what it does here |", "|---|---|");
    for (const field of TRITON_FIELD_TABLE)
      if (field.kind === kind) lines.push(`| \`${field.path}\` | ${field.what} |`);
  }
  return `${lines.join("\n")}\n`;
}
