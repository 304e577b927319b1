/**
 * Lengths of requests as three public traces have them: quantiles of parts 0 to 1 in steps of a twentieth, so that no file is read. The last is not
 * the longest but such that the mean is the trace's: a straight line to the longest would have too many long ones.
 */
export interface Lengths {
  readonly name: string;
  readonly input: readonly number[];
  readonly output: readonly number[];
}

/** AzureLLMInferenceTrace_conv of November 2023 (Azure/AzurePublicDataset, CC-BY 4.0): mean 1155 and 211. */
export const AZURE_CONV: Lengths = {
  name: "azure conv",
  input: [
    2, 181, 207, 372, 387, 396, 403, 414, 703, 984, 1020, 1045, 1071, 1097, 1130, 1189, 1315, 1876, 2734, 4083, 4972,
  ],
  output: [7, 41, 54, 67, 77, 85, 91, 96, 103, 113, 129, 151, 177, 217, 384, 395, 400, 411, 424, 451, 706],
};

/** AzureLLMInferenceTrace_code, likewise: mean 2048 and 28. */
export const AZURE_CODE: Lengths = {
  name: "azure code",
  input: [
    3, 75, 147, 232, 386, 578, 770, 939, 1075, 1261, 1469, 1690, 1909, 2164, 2433, 2744, 3192, 3920, 5188, 7303, 7437,
  ],
  output: [6, 6, 7, 7, 8, 9, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 29, 39, 55, 90, 315],
};

/** ShareGPT conversations of at most 8k Llama-2 tokens (microsoft/sarathi-serve, Apache-2.0): mean 2340 and 439. */
export const SHAREGPT: Lengths = {
  name: "sharegpt",
  input: [
    1, 29, 74, 180, 382, 580, 777, 973, 1203, 1457, 1730, 2060, 2401, 2799, 3235, 3734, 4278, 4918, 5696, 6563, 7462,
  ],
  output: [2, 44, 84, 130, 181, 228, 271, 312, 346, 381, 415, 453, 493, 534, 581, 628, 683, 754, 834, 920, 1002],
};

/** Of straight lines between the quantiles. */
export function meanLength(quantiles: readonly number[]): number {
  const steps = quantiles.length - 1;
  return quantiles.slice(1).reduce((sum, each, index) => sum + (each + quantiles[index]!) / 2, 0) / steps;
}

/** Answers cut off, as by max_tokens. */
export const cutAt = ({ name, input, output }: Lengths, tokens: number): Lengths => ({
  name: `${name} <= ${tokens}`,
  input,
  output: output.map((each) => Math.min(each, tokens)),
});
