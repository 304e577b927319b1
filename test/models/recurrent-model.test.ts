import { createHash } from "node:crypto";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { expect, test } from "vitest";
import { recurrentModel } from "../../src/bench/serving/recurrent-model.js";

const size = { steps: 3, vocabulary: 20, embedding: 8, hidden: 16 };

test("runs in ONNX Runtime: words of one row bear on its scores alone, all of them and their order", async () => {
  const session = await InferenceSession.create(recurrentModel(size));
  const scores = async (...rows: readonly (readonly number[])[]): Promise<number[][]> => {
    const data = BigInt64Array.from(rows.flat().map(BigInt));
    const result = (await session.run({ ids: new Tensor("int64", data, [rows.length, size.steps]) })).scores!;
    expect(result.dims).toEqual([rows.length, size.vocabulary]);
    const values = [...(result.data as Float32Array)];
    return rows.map((_, row) => values.slice(row * size.vocabulary, (row + 1) * size.vocabulary));
  };
  const [first, second, third] = await scores([1, 2, 3], [3, 2, 1], [4, 2, 3]);
  const [alone] = await scores([1, 2, 3]);
  for (const [index, score] of first!.entries()) expect(score).toBeCloseTo(alone![index]!, 5);
  expect(first).not.toEqual(second);
  expect(first).not.toEqual(third);
  await session.release();
});

test("its weights are those of the seed", () => {
  const digest = (): string => createHash("sha256").update(recurrentModel(size)).digest("hex").slice(0, 12);
  expect([digest(), digest()]).toEqual(["8c53e334e5d4", "8c53e334e5d4"]);
});
