import type { ExpandedTokens } from "../../config/scenario/llm/expand-llm.js";

/** Uniform in [0, 1), the same for the same request and part; see Draws. */
export interface UniformByNumber {
  uniform(number: number, part: number): number;
}

/** Lengths of a model's requests, drawn by their numbers: the same under every policy, and nothing is kept of them. */
export class TokenLengths {
  readonly endsFirst: boolean;
  private readonly tokens: ExpandedTokens;
  private readonly draws: UniformByNumber;

  constructor(tokens: ExpandedTokens, draws: UniformByNumber) {
    this.tokens = tokens;
    this.draws = draws;
    this.endsFirst = tokens.endsFirst;
  }

  /** @param path 0, or the request's place as a part of a pipeline's. */
  promptOf(number: number, path: number): number {
    return this.lengthAt(this.tokens.input, this.draws.uniform(number, 2 * path));
  }

  answerOf(number: number, path: number): number {
    return this.lengthAt(this.tokens.output, this.draws.uniform(number, 2 * path + (this.tokens.areRows ? 0 : 1)));
  }

  private lengthAt(lengths: Float64Array, part: number): number {
    if (this.tokens.areRows) return Math.round(lengths[Math.floor(part * lengths.length)]!);
    const place = part * (lengths.length - 1);
    const step = Math.floor(place);
    return Math.round(lengths[step]! + (place - step) * (lengths[step + 1]! - lengths[step]!));
  }
}
