/**
 * What PARD's text says of lv under tweet (§5.3), as drop rates; its figures have no numbers. PARD-back's 9.5 % and -sf's 4.5 % are given; PARD's own is from "PARD-oc [...] 2.1x higher", "-back [...] 3.6x
 * higher": 9.5 / 4.6. The others are that many times higher than PARD's, as it says.
 */
const PARD = 0.095 / 4.6;

export const PAPER_DROPS: Readonly<Record<string, number>> = {
  PARD,
  "PARD-back": 0.095,
  "PARD-sf": 0.045,
  "PARD-oc": PARD * 3.1,
  "PARD-split": PARD * 3.6,
  "PARD-WCL": PARD * 3.8,
  "PARD-upper": PARD * 2.3,
  "PARD-FCFS": PARD * 2.8,
  "PARD-LBF": PARD * 3.2,
  "PARD-HBF": PARD * 1.5,
  "PARD-instant": PARD * 1.25,
};

/** §7, Figure 15a: "reduces drop rate by 22%, [...] 17% of requests dropped. With oracle knowledge [...] 11%"; the first as a part of reactive's. In points it would be 39 %. */
export const PAPER_RAG: Readonly<Record<string, number>> = {
  reactive: 0.17 / (1 - 0.22),
  proactive: 0.17,
  predict: 0.11,
};
