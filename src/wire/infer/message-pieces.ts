/**
 * A protobuf message as the runs of bytes that it is made of, so that the tensors of an answer travel from the worker's
 * frame to the socket as they lie: joined, 64 MiB of them would take the main thread tens of milliseconds.
 *
 * Whoever makes one gives the pieces away: they may not change until the message has left.
 */
import { ModelInferResponse } from "../proto/inference.js";

export class MessagePieces {
  readonly length: number;

  constructor(readonly pieces: readonly Uint8Array[]) {
    let length = 0;
    for (const piece of pieces) length += piece.byteLength;
    this.length = length;
  }

  join(): Buffer {
    return this.pieces.length === 1 ? asBuffer(this.pieces[0]!) : Buffer.concat(this.pieces, this.length);
  }

  /** The bytes in portions of at most `bytesMax`: views of pieces longer than that, and copies of what lies between. */
  *portions(bytesMax: number): Generator<Buffer> {
    let short: Uint8Array[] = [];
    let shortBytes = 0;
    for (const piece of this.pieces) {
      if (shortBytes > 0 && shortBytes + piece.byteLength > bytesMax) {
        yield new MessagePieces(short).join();
        short = [];
        shortBytes = 0;
      }
      let at = 0;
      for (; piece.byteLength - at > bytesMax; at += bytesMax) yield asBuffer(piece.subarray(at, at + bytesMax));
      short.push(at === 0 ? piece : piece.subarray(at));
      shortBytes += piece.byteLength - at;
    }
    yield new MessagePieces(short).join();
  }
}

const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const RAW_OUTPUT_TAG = (6 << 3) | 2;
const RESPONSE_IN_STREAM_TAG = (2 << 3) | 2;

/** A ModelStreamInferResponse around its infer_response. */
export function wrapInStream(response: MessagePieces): MessagePieces {
  return new MessagePieces([prefixOf(RESPONSE_IN_STREAM_TAG, response.length), ...response.pieces]);
}

/** Raw contents come last: fields may follow each other in any order, and raw_output_contents has the highest number. */
export function encodeProto(response: ModelInferResponse): MessagePieces {
  const raw = response.rawOutputContents;
  const pieces: Uint8Array[] = [
    ModelInferResponse.encode(raw.length === 0 ? response : { ...response, rawOutputContents: [] }).finish(),
  ];
  const isPart = isSmallPart(raw);
  for (const tensor of raw)
    pieces.push(prefixOf(RAW_OUTPUT_TAG, tensor.byteLength), isPart ? Uint8Array.from(tensor) : tensor);
  return new MessagePieces(pieces);
}

/** Views keep all the memory that they lie in, a whole batch's perhaps, for as long as a slow client likes. */
function isSmallPart(tensors: readonly Uint8Array[]): boolean {
  const buffers = new Set<ArrayBufferLike>();
  let bytes = 0;
  let heldBytes = 0;
  for (const { buffer, byteLength } of tensors) {
    bytes += byteLength;
    if (!buffers.has(buffer)) heldBytes += buffer.byteLength;
    buffers.add(buffer);
  }
  return 2 * bytes < heldBytes;
}

/** Tag and length of a field of bytes. */
function prefixOf(tag: number, length: number): Uint8Array {
  const prefix = [tag];
  let left = length;
  for (; left >= 0x80; left >>>= 7) prefix.push((left & 0x7f) | 0x80);
  prefix.push(left);
  return Uint8Array.from(prefix);
}
