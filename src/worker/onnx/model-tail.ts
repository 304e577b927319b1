/**
 * A model with a tail: nodes that go on from what it gives, from a file of their own. Bytes of a protobuf that follow another's
 * are merged with it (repeated fields are appended, messages merged), so the tail's graph is written behind the model's, without its
 * inputs, which have the names of the model's outputs.
 *
 * Source of the field numbers: onnx.proto (ModelProto 7 graph; GraphProto 1 node, 5 initializer, 12 output).
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

const GRAPH = 7;
const ADDED = [1, 5, 12];

/** @param model the bytes of its file. @param tail those of a model of the same operator set. */
export function withTail(model: Uint8Array, tail: Uint8Array): Uint8Array {
  const graphs = fieldsOf(tail, [GRAPH]).map(({ bytes }) => bytes);
  const writer = new BinaryWriter().raw(model);
  for (const graph of graphs) {
    const added = new BinaryWriter();
    for (const { number, bytes } of fieldsOf(graph, ADDED)) added.tag(number, WireType.LengthDelimited).bytes(bytes);
    writer.tag(GRAPH, WireType.LengthDelimited).bytes(added.finish());
  }
  return writer.finish();
}

function fieldsOf(message: Uint8Array, numbers: readonly number[]): { number: number; bytes: Uint8Array }[] {
  const reader = new BinaryReader(message);
  const fields: { number: number; bytes: Uint8Array }[] = [];
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (type === WireType.LengthDelimited && numbers.includes(number)) fields.push({ number, bytes: reader.bytes() });
    else reader.skip(type, number);
  }
  return fields;
}
