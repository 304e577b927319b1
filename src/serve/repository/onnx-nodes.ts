/**
 * What a graph's nodes say about its inputs: an input whose every value is looked up in a table of N rows must hold
 * numbers in [-N, N - 1], else the runtime fails the whole batch.
 *
 * Source of the field numbers: onnx.proto (NodeProto 1 input, 2 output, 4 op_type, 5 attribute; AttributeProto 1 name,
 * 3 i, 5 t, 6 g, 10 tensors, 11 graphs).
 */
import type { ProtoFile, Span } from "./proto-file.js";

/** Lowest and highest value. */
export type Range = readonly [number, number];

export interface Node {
  readonly op: string;
  readonly inputs: readonly string[];
  readonly output: string;
  /** The attribute `axis`, or 0. */
  readonly axis: number;
  /** What its attributes hold: the branches of an If, the body of a Loop, the value of a Constant. */
  readonly graphs: readonly Span[];
  readonly tensors: readonly Span[];
}

/** Their first output holds all values of their first input, and no others. */
const CARRYING = new Set(["Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose"]);
const LOOKUP = "Gather";

export function readNode(proto: ProtoFile, span: Span): Node {
  let op = "";
  let output = "";
  let number = 0;
  const inputs: string[] = [];
  const graphs: Span[] = [];
  const tensors: Span[] = [];
  proto.each(span, (field) => {
    if (field.number === 1) inputs.push(proto.text(field.span));
    else if (field.number === 2) output ||= proto.text(field.span);
    else if (field.number === 4) op = proto.text(field.span);
    else if (field.number === 5)
      proto.each(field.span, (part) => {
        if (part.number === 3) number = part.value;
        else if (part.number === 5 || part.number === 10) tensors.push(part.span);
        else if (part.number === 6 || part.number === 11) graphs.push(part.span);
      });
  });
  return { op, inputs, output, axis: op === LOOKUP ? number : 0, graphs, tensors };
}

/** @param nodes in the order of the file, which is that of their execution. */
export function indexRanges(
  nodes: readonly Node[],
  inputs: ReadonlySet<string>,
  tables: ReadonlyMap<string, { readonly dims: readonly number[] }>,
): Map<string, Range> {
  const carried = new Map([...inputs].map((name) => [name, name]));
  const ranges = new Map<string, Range>();
  for (const { op, inputs: sources, output, axis } of nodes) {
    if (CARRYING.has(op)) {
      const input = carried.get(sources[0] ?? "");
      if (input !== undefined) carried.set(output, input);
    } else if (op === LOOKUP) {
      const input = carried.get(sources[1] ?? "");
      const rows = tables.get(sources[0] ?? "")?.dims.at(axis);
      if (input === undefined || rows === undefined) continue;
      const [low, high] = ranges.get(input) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
      ranges.set(input, [Math.max(low, -rows), Math.min(high, rows - 1)]);
    }
  }
  return ranges;
}
