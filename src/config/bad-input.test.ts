/** Malformed scenarios, configurations and data: each message names the file, the field, the bound and the value. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { refusal } from "../../test/support/refusal.js";
import { ConfigError } from "./config-error.js";
import { loadScenarioFrom } from "./scenario/scenario.js";
import { parseRateTrace, parseReplay } from "./scenario/traces.js";
import { serverConfigFrom } from "./server/server.js";
import { parseSource, readText, sourceOf } from "./source.js";

/** What is wrong, the text, and what the message must say (each must occur in it). */
type Case = readonly [what: string, text: string, says: readonly string[]];

const MODEL = "{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25}";
const HEAD = `accelerators: 2\nmodels: [${MODEL}]\n`;
const GOOD = `${HEAD}arrivals: {process: poisson, rate_rps: 100}\n`;
const withModel = (model: string) =>
  `accelerators: 2\nmodels:\n  - ${model}\narrivals: {process: poisson, rate_rps: 100}\n`;
const withArrivals = (arrivals: string) => `${HEAD}arrivals: ${arrivals}\n`;
const withAutoscale = (autoscale: string) => `${GOOD}autoscale: ${autoscale}\n`;
const withFault = (fault: string) => `${GOOD}faults:\n  - ${fault}\n`;

const SCENARIOS: readonly Case[] = [
  // The text itself.
  ["an empty file", "", ["bad.yaml: ", "must be a mapping", "null"]],
  ["a list instead of a mapping", "- 1\n", ["must be a mapping", "[1]"]],
  ["a flow sequence that never ends", "accelerators: [1\n", ["bad.yaml:2", "Flow sequence"]],
  ["a key given twice", `${GOOD}accelerators: 3\n`, ["bad.yaml:4", "Map keys must be unique"]],
  ["a tab for indentation", "models:\n\t- name: a\n", ["bad.yaml:2"]],
  ["an alias to nothing", "accelerators: *none\n", ["none"]],
  [
    "an alias bomb",
    `a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n`,
    ["bad.yaml: ", "alias"],
  ],
  ["nesting without end", `${"[".repeat(100)}${"]".repeat(100)}`, ["at most 64 levels"]],
  [
    "a list in a list in a list, in one line",
    `a: 1\nb:\n  ${"- ".repeat(20_000)}1\n`,
    ["bad.yaml: must nest at most 64 levels"],
  ],
  ["a key that is a list that is a key", `${"? ".repeat(20_000)}1\n`, ["bad.yaml: must nest at most 64 levels"]],
  [
    "brackets that are text",
    `${GOOD}notes: a[[[ # ${"[".repeat(100)}\nmore: |\n  ${"[".repeat(100)}\n`,
    ["notes: unknown key"],
  ],
  ["a prototype key within", `${GOOD}a: [{b: {__proto__: 1}}]\n`, ["bad.yaml:4: a[0].b.__proto__: unknown key"]],
  // Unknown and missing keys.
  ["a misspelt key at the top", `${GOOD}polcy: eager\n`, ["bad.yaml:4: polcy: unknown key; did you mean policy?"]],
  [
    "a misspelt key inside",
    withModel("{name: a, profile: {alpha_ms: 1, beta: 5}, slo_ms: 25}"),
    [
      "bad.yaml:3: models[0].profile.beta: unknown key; did you mean beta_ms?",
      "models[0].profile.beta_ms: is required",
    ],
  ],
  ["a key near nothing", `${GOOD}zzzzzz: 1\n`, ["zzzzzz: unknown key; known are name, seed"]],
  ["a prototype key", `${GOOD}__proto__: {polluted: 1}\n`, ["__proto__: unknown key"]],
  [
    "a key of a later version",
    withModel("{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25, load_ms: 12}"),
    ["models[0].load_ms: not supported by this version"],
  ],
  [
    "no accelerators",
    `models: [${MODEL}]\narrivals: {process: poisson, rate_rps: 1}\n`,
    ["accelerators: is required", "a whole number"],
  ],
  ["no arrivals", HEAD, ["arrivals: is required: must be a mapping"]],
  ["no models", "accelerators: 1\narrivals: {process: poisson, rate_rps: 1}\n", ["models: is required", "models_from"]],
  [
    "an empty list of models",
    "accelerators: 1\nmodels: []\narrivals: {process: poisson, rate_rps: 1}\n",
    ["models: must be at least 1 long", "was []"],
  ],
  // Numbers out of bounds.
  ["a seed below 0", `${GOOD}seed: -1\n`, ["bad.yaml:4: seed: must be at least 0; was -1"]],
  ["a seed past 32 bits", `${GOOD}seed: 4294967296\n`, ["seed: must be at most 4294967295; was 4294967296"]],
  ["a seed that is not whole", `${GOOD}seed: 1.5\n`, ["seed: must be a whole number; was 1.5"]],
  ["a duration of 0", `${GOOD}duration_s: 0\n`, ["duration_s: must be greater than 0; was 0"]],
  ["a duration in words", `${GOOD}duration_s: a minute\n`, ['duration_s: must be a number; was "a minute"']],
  ["an endless duration", `${GOOD}duration_s: .inf\n`, ["duration_s: must be a number; was Infinity"]],
  ["a duration that is no number", `${GOOD}duration_s: .nan\n`, ["duration_s: must be a number; was NaN"]],
  [
    "warm-up as long as the run",
    `${GOOD}duration_s: 10\nwarmup_s: 10\n`,
    ["bad.yaml:5: warmup_s: must be less than duration_s (10); was 10"],
  ],
  [
    "warm-up as long as the default run",
    `${GOOD}warmup_s: 60\n`,
    ["warmup_s: must be less than the duration (60 s); was 60"],
  ],
  [
    "no accelerator at all",
    GOOD.replace("accelerators: 2", "accelerators: 0"),
    ["bad.yaml:1: accelerators: must be at least 1; was 0"],
  ],
  [
    "half an accelerator",
    GOOD.replace("accelerators: 2", "accelerators: {count: 1.5}"),
    ["accelerators.count: must be a whole number; was 1.5"],
  ],
  [
    "accelerators in words",
    GOOD.replace("accelerators: 2", "accelerators: two"),
    ["accelerators: must be a whole number or a mapping of count or a list", 'was "two"'],
  ],
  [
    "a scale of 0",
    GOOD.replace("accelerators: 2", "accelerators: [{scale: 0}]"),
    ["accelerators[0].scale: must be greater than 0; was 0"],
  ],
  [
    "too many accelerators in all",
    GOOD.replace("accelerators: 2", "accelerators: [{count: 65536}, {count: 1}]"),
    ["accelerators: must be at most 65536 in all; was 65537"],
  ],
  ["a negative delay", `${GOOD}network: {control_us: -1}\n`, ["network.control_us: must be at least 0; was -1"]],
  [
    "a delay of hours",
    `${GOOD}network: {response_us: 1e9}\n`,
    ["network.response_us: must be at most 60000000; was 1000000000"],
  ],
  // Models.
  [
    "a model without a name",
    withModel("{profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25}"),
    ["bad.yaml:3: models[0].name: is required: must be a text"],
  ],
  [
    "a name with a space",
    withModel("{name: a b, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25}"),
    ["models[0].name: must be letters, digits", 'was "a b"'],
  ],
  [
    "two models of one name",
    `accelerators: 1\nmodels: [${MODEL}, ${MODEL}]\narrivals: {process: poisson, rate_rps: 1}\n`,
    ['models[1].name: must be unique; was "a" twice'],
  ],
  [
    "an SLO of 0",
    withModel("{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 0}"),
    ["models[0].slo_ms: must be greater than 0; was 0"],
  ],
  [
    "an SLO shorter than one request",
    withModel("{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 5}"),
    ["bad.yaml:3: models[0].slo_ms: of a must be at least the 6 ms", "was 5"],
  ],
  [
    "an SLO eaten up by delays",
    `${GOOD}network: {control_us: 15000, response_us: 5000}\n`,
    ["models[0].slo_ms: of a must be at least the 26 ms", "was 25"],
  ],
  [
    "a negative alpha",
    withModel("{name: a, profile: {alpha_ms: -1, beta_ms: 5}, slo_ms: 25}"),
    ["models[0].profile.alpha_ms: must be at least 0; was -1"],
  ],
  [
    "a profile of no time",
    withModel("{name: a, profile: {alpha_ms: 0, beta_ms: 0}, slo_ms: 25}"),
    ["models[0].profile: alpha_ms + beta_ms must be greater than 0; was 0"],
  ],
  [
    "a profile that is a number",
    withModel("{name: a, profile: 3, slo_ms: 25}"),
    [
      "models[0].profile: must be a mapping of alpha_ms, beta_ms or a mapping of table_ms or a mapping of by_gamma; was 3",
    ],
  ],
  [
    "an empty table",
    withModel("{name: a, profile: {table_ms: []}, slo_ms: 25}"),
    ["models[0].profile.table_ms: must be at least 1 long"],
  ],
  [
    "a table that decreases",
    withModel("{name: a, profile: {table_ms: [3, 5, 4]}, slo_ms: 25}"),
    ["models[0].profile.table_ms[2]: must be at least the entry before it (5); was 4"],
  ],
  [
    "a batch longer than the table",
    withModel("{name: a, profile: {table_ms: [3, 5]}, slo_ms: 25, batch_max: 3}"),
    ["models[0].batch_max: must be at most the length of table_ms (2); was 3"],
  ],
  [
    "a batch of 0",
    withModel("{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25, batch_max: 0}"),
    ["models[0].batch_max: must be at least 1; was 0"],
  ],
  [
    "a batch past the limit",
    withModel("{name: a, profile: {alpha_ms: 1, beta_ms: 5}, slo_ms: 25, batch_max: 1025}"),
    ["models[0].batch_max: must be at most 1024; was 1025"],
  ],
  [
    "too many copies",
    `accelerators: 1\nmodels: [${MODEL.replace("a,", "a, count: 9999,")}, ${MODEL.replace("a,", "b, count: 2,")}]\narrivals: {process: poisson, rate_rps: 1}\n`,
    ["models[1].count: must leave at most 10000 models in all; was 2"],
  ],
  [
    "an unknown zoo",
    "accelerators: 1\nmodels_from: {zoo: h100}\narrivals: {process: poisson, rate_rps: 1}\n",
    ["models_from.zoo: must be one of 1080ti, a100", 'was "h100"'],
  ],
  [
    "an unknown model of a zoo",
    "accelerators: 1\nmodels_from: {zoo: a100, select: [ResNet5]}\narrivals: {process: poisson, rate_rps: 1}\n",
    ['models_from.select[0]: must be a model of the a100 zoo; was "ResNet5"; did you mean ResNet50?'],
  ],
  [
    "an unknown part of a zoo",
    "accelerators: 1\nmodels_from: {zoo: a100, select: strongest}\narrivals: {process: poisson, rate_rps: 1}\n",
    ["models_from.select: must be", "strong or weak", 'was "strongest"'],
  ],
  // Rates from exactly one place.
  ["no rate", withArrivals("{process: poisson}"), ["arrivals.rate_rps: is required", "missing"]],
  [
    "a rate of 0",
    withArrivals("{process: poisson, rate_rps: 0}"),
    ["arrivals.rate_rps: must be greater than 0; was 0"],
  ],
  [
    "a rate beyond memory",
    `${withArrivals("{process: poisson, rate_rps: 1e8}")}duration_s: 600\n`,
    ["arrivals: rate times duration must be at most 2000000000 requests; was 60000000000"],
  ],
  [
    "a total and a model's own rate",
    `accelerators: 2\nmodels: [${MODEL.replace("slo_ms: 25", "slo_ms: 25, rate_rps: 7")}]\narrivals: {process: poisson, rate_rps: 100}\n`,
    ["arrivals.rate_rps: must not stand beside models[0].rate_rps; was 100"],
  ],
  [
    "a share and a rate",
    `accelerators: 2\nmodels: [${MODEL.replace("slo_ms: 25", "slo_ms: 25, rate_rps: 7, share: 2")}]\narrivals: {process: poisson}\n`,
    ["models[0].share: must not stand beside models[0].rate_rps; was 2"],
  ],
  [
    "shares of some models only",
    `accelerators: 2\nmodels: [${MODEL}, ${MODEL.replace("name: a", "name: b, share: 2")}]\narrivals: {process: poisson, rate_rps: 1}\n`,
    ["models[1].share: must be given for all models or for none; was 2 here and missing in 1"],
  ],
  [
    "a share and popularity",
    `accelerators: 2\nmodels: [${MODEL.replace("name: a", "name: a, share: 2")}]\narrivals: {process: poisson, rate_rps: 1}\npopularity: {zipf: 1}\n`,
    ["popularity: must not stand beside models[0].share (2)", '{"zipf":1}'],
  ],
  [
    "rates of 0 for all",
    `accelerators: 2\nmodels: [${MODEL.replace("name: a", "name: a, rate_rps: 0")}]\narrivals: {process: poisson}\n`,
    ["models[0].rate_rps: must be greater than 0 for some model; was 0 for all"],
  ],
  ["a negative exponent", `${GOOD}popularity: {zipf: -0.5}\n`, ["popularity.zipf: must be at least 0; was -0.5"]],
  ["an unknown popularity", `${GOOD}popularity: skewed\n`, ["popularity: must be", "uniform", "zipf", 'was "skewed"']],
  // Arrivals.
  [
    "an unknown process",
    withArrivals("{process: poison, rate_rps: 1}"),
    ['arrivals.process: must be one of poisson, gamma, uniform, trace, replay; was "poison"; did you mean poisson?'],
  ],
  [
    "gamma without shape",
    withArrivals("{process: gamma, rate_rps: 1}"),
    ["arrivals.shape: is required with process gamma; was missing"],
  ],
  [
    "a shape with poisson",
    withArrivals("{process: poisson, rate_rps: 1, shape: 2}"),
    ["arrivals.shape: goes only with process gamma or trace; was 2 with poisson"],
  ],
  [
    "a shape of 0",
    withArrivals("{process: gamma, rate_rps: 1, shape: 0}"),
    ["arrivals.shape: must be at least 0.001; was 0"],
  ],
  [
    "trace without a file",
    withArrivals("{process: trace}"),
    ["arrivals.trace: is required with process trace; was missing"],
  ],
  [
    "a trace that is not there",
    withArrivals("{process: trace, trace: none.csv}"),
    ['"none.csv"', "is not in .", "RUBATO_DATA"],
  ],
  [
    "a trace outside the project",
    withArrivals("{process: trace, trace: ../../etc/passwd}"),
    ["must be a relative path without '..'", '"../../etc/passwd"'],
  ],
  [
    "a trace by an absolute path",
    withArrivals("{process: trace, trace: /etc/passwd}"),
    ["must be a relative path", '"/etc/passwd"'],
  ],
  [
    "replay without a file",
    withArrivals("{process: replay}"),
    ["arrivals.replay: is required with process replay; was missing"],
  ],
  [
    "a rate with a replay",
    withArrivals("{process: replay, replay: r.csv, rate_rps: 5}"),
    ["arrivals.rate_rps: goes only with process poisson or gamma or uniform; was 5 with replay"],
  ],
  [
    "steps out of order",
    withArrivals("{process: poisson, steps: [{at_s: 0, rate_rps: 1}, {at_s: 5, rate_rps: 2}, {at_s: 5, rate_rps: 3}]}"),
    ["arrivals.steps[2].at_s: must be greater than the step before (5); was 5"],
  ],
  [
    "steps that start late",
    withArrivals("{process: poisson, steps: [{at_s: 5, rate_rps: 2}]}"),
    ["arrivals.steps[0].at_s: must be 0 when arrivals.rate_rps is not given; was 5"],
  ],
  [
    "steps of no load",
    withArrivals("{process: poisson, steps: [{at_s: 0, rate_rps: 0}]}"),
    ["arrivals.steps: must have a rate_rps greater than 0 in some step; was 0 in all"],
  ],
  [
    "steps whose load comes after the end",
    `${withArrivals("{process: poisson, steps: [{at_s: 0, rate_rps: 0}, {at_s: 50, rate_rps: 9}]}")}duration_s: 20\n`,
    ["arrivals.steps: must have a rate greater than 0 within the first 20 s; was 0"],
  ],
  [
    "a missing arrival counted from 0",
    withArrivals("{process: uniform, rate_rps: 1, missing: [0]}"),
    ["arrivals.missing[0]: must be at least 1; was 0"],
  ],
  // Faults.
  [
    "a fault of no such accelerator",
    withFault("{at_s: 1, kind: fail, accelerator: 2}"),
    ["bad.yaml:5: faults[0].accelerator: must be at most 1 (there are 2); was 2"],
  ],
  [
    "an unknown fault",
    withFault("{at_s: 1, kind: explode, accelerator: 0}"),
    ["faults[0].kind: must be one of fail, recover, leave, join, slow", '"explode"'],
  ],
  [
    "slow without factor",
    withFault("{at_s: 1, kind: slow, accelerator: 0}"),
    ["faults[0].factor: is required with kind slow; was missing"],
  ],
  [
    "a factor with fail",
    withFault("{at_s: 1, kind: fail, accelerator: 0, factor: 2}"),
    ["faults[0].factor: goes only with kind slow; was 2 with fail"],
  ],
  [
    "a recovery with an end",
    withFault("{at_s: 1, kind: recover, accelerator: 0, for_s: 2}"),
    ["faults[0].for_s: goes only with kind fail, leave or slow; was 2 with recover"],
  ],
  [
    "a recovery without failure",
    withFault("{at_s: 1, kind: recover, accelerator: 0}"),
    ["faults[0].kind: recover at 1 s must find accelerator 0 failed; was up"],
  ],
  [
    "failing twice",
    `${withFault("{at_s: 1, kind: fail, accelerator: 0}")}  - {at_s: 2, kind: fail, accelerator: 0}\n`,
    ["bad.yaml:6: faults[1].kind: fail at 2 s must find accelerator 0 up; was failed"],
  ],
  [
    "a fault before the start",
    withFault("{at_s: -1, kind: fail, accelerator: 0}"),
    ["faults[0].at_s: must be at least 0; was -1"],
  ],
  // Autoscaling.
  ["autoscaling by name alone", withAutoscale("yes"), ["autoscale: must be a mapping", '"yes"']],
  ["a misspelt key of autoscaling", withAutoscale("{dryrun: true}"), ["dryrun: unknown key; did you mean dry_run?"]],
  ["a dry run in words", withAutoscale("{dry_run: maybe}"), ['autoscale.dry_run: must be true or false; was "maybe"']],
  ["scaling to nothing", withAutoscale("{min: 0}"), ["autoscale.min: must be at least 1; was 0"]],
  ["half an accelerator more", withAutoscale("{max: 1.5}"), ["autoscale.max: must be a whole number; was 1.5"]],
  ["more than can be advised", withAutoscale("{max: 65537}"), ["autoscale.max: must be at most 65536; was 65537"]],
  [
    "a largest below the least",
    withAutoscale("{min: 3, max: 2}"),
    ["bad.yaml:4: autoscale.max: must be at least min (3); was 2"],
  ],
  [
    "more than there are accelerators",
    withAutoscale("{dry_run: false, max: 3}"),
    ["autoscale.max: must be at most the number of accelerators (2); was 3"],
  ],
  [
    "a least above the accelerators",
    withAutoscale("{dry_run: false, min: 3}"),
    ["autoscale.min: must be at most the number of accelerators (2); was 3"],
  ],
  [
    "a start outside the bounds",
    withAutoscale("{dry_run: false, min: 2, initial: 1}"),
    ["autoscale.initial: must be in [min, max] ([2, 2]); was 1"],
  ],
  [
    "a start in a dry run",
    withAutoscale("{initial: 1}"),
    ["autoscale.initial: goes only with dry_run false; was 1 with true"],
  ],
  [
    "decisions without a pause",
    withAutoscale("{interval_s: 0}"),
    ["autoscale.interval_s: must be at least 0.1; was 0"],
  ],
  [
    "more decisions than a report holds",
    `${withAutoscale("{interval_s: 0.1}")}duration_s: 20000\n`,
    ["autoscale.interval_s: must leave at most 100000 decisions in duration_s (20000); was 0.1"],
  ],
  [
    "a utilization of 1",
    withAutoscale("{target_utilization: 1}"),
    ["autoscale.target_utilization: must be at most 0.99; was 1"],
  ],
  [
    "a utilization of 0",
    withAutoscale("{target_utilization: 0}"),
    ["autoscale.target_utilization: must be at least 0.05; was 0"],
  ],
  ["a bad rate in percent", withAutoscale("{bad_rate_max: 1}"), ["autoscale.bad_rate_max: must be at most 0.5; was 1"]],
  [
    "a negative cooldown up",
    withAutoscale("{up_cooldown_s: -1}"),
    ["autoscale.up_cooldown_s: must be at least 0; was -1"],
  ],
  [
    "a cooldown of days",
    withAutoscale("{down_cooldown_s: 100000}"),
    ["autoscale.down_cooldown_s: must be at most 86400; was 100000"],
  ],
  [
    "a start-up of hours",
    withAutoscale("{dry_run: false, startup_s: 3601}"),
    ["autoscale.startup_s: must be at most 3600; was 3601"],
  ],
  [
    "accelerators that leave by fault where the advice says who is there",
    `${withAutoscale("{dry_run: false}")}faults: [{at_s: 1, kind: leave, accelerator: 0}]\n`,
    ["bad.yaml:5: faults[0].kind: does not go with autoscale.dry_run false", "was leave"],
  ],
  // Policies.
  [
    "an unknown policy",
    `${GOOD}policy: defered\n`,
    [
      'policy: must be one of auto, deferred, deferred+, eager, timeout, distribution, distribution+, pard, otas, otas+, fixed-size, tfserving, triton, clipper, clipper++, naive, clockwork, nexus, shepherd, pets, infaas, tome, vpt, fixed-gamma, queue-gamma; was "defered"; did you mean deferred?',
    ],
  ],
  [
    "an option of another policy",
    `${GOOD}policy: eager\npolicy_options: {timeout_ms: 3}\n`,
    ["bad.yaml:5: policy_options.timeout_ms: unknown key"],
  ],
  [
    "an option out of bounds",
    `${GOOD}policy_options: {rate_window_s: 0}\n`,
    ["policy_options.rate_window_s: must be at least 0.05; was 0"],
  ],
  [
    "an option of the wrong type",
    `${GOOD}policy_options: {feedback: maybe}\n`,
    ['policy_options.feedback: must be true or false; was "maybe"'],
  ],
  [
    "a target in words",
    `${GOOD}policy_options: {target: big}\n`,
    ["policy_options.target: must be", "auto", "a whole number", 'was "big"'],
  ],
  [
    "both kinds of timeout",
    `${GOOD}policy: timeout\npolicy_options: {timeout_ms: 3, timeout_fraction: 0.5}\n`,
    ["policy_options.timeout_fraction: must not stand beside timeout_ms; were 0.5 and 3"],
  ],
  [
    "a timeout longer than the SLO",
    `${GOOD}policy: timeout\npolicy_options: {timeout_fraction: 2}\n`,
    ["policy_options.timeout_fraction: must be at most 1; was 2"],
  ],
];

const withGroup = (autoscale: string) => `groups: {a: {kind: emulated, count: 2, autoscale: ${autoscale}}}\n`;

const SERVERS: readonly Case[] = [
  ["a list", "- 1\n", ["must be a mapping", "[1]"]],
  ["a port past 65535", "http: {port: 65536}\n", ["bad.yaml:1: http.port: must be at most 65535; was 65536"]],
  ["a port in words", "grpc: {port: http}\n", ['grpc.port: must be a whole number; was "http"']],
  [
    "one port for both doors",
    "http: {port: 9000}\ngrpc: {port: 9000}\n",
    ["bad.yaml:2: grpc.port: must differ from http.port (9000); was 9000"],
  ],
  ["a misspelt door", "htpp: {port: 1}\n", ["htpp: unknown key; did you mean http?"]],
  ["a misspelt limit", "http: {body_max: 1}\n", ["http.body_max: unknown key; did you mean body_max_bytes?"]],
  ["a tiny body", "http: {body_max_bytes: 10}\n", ["http.body_max_bytes: must be at least 1024; was 10"]],
  ["no request in flight", "http: {in_flight_max: 0}\n", ["http.in_flight_max: must be at least 1; was 0"]],
  ["an unknown control mode", "model_control: poll\n", ['model_control: must be one of none, explicit; was "poll"']],
  [
    "an unknown kind of accelerator",
    "groups: {gpu: {kind: cuda}}\n",
    ["groups.gpu.kind: must be one of onnx, emulated", '"cuda"'],
  ],
  ["a group of 0", "groups: {a: {count: 0}}\n", ["groups.a.count: must be at least 1; was 0"]],
  ["no groups", "groups: {}\n", ["groups: must name 1 to 256 groups; was 0"]],
  ["a bad group name", "groups: {' a': {count: 1}}\n", ["groups", "must be letters, digits"]],
  [
    "scales of another length",
    "groups: {a: {kind: emulated, count: 2, scales: [1]}}\n",
    ["groups.a.scales: must have count (2) entries; was 1"],
  ],
  [
    "scales of real workers",
    "groups: {a: {kind: onnx, scales: [1]}}\n",
    ["groups.a.scales: goes only with kind emulated; was [1] with onnx"],
  ],
  [
    "threads of emulated accelerators",
    "groups: {a: {kind: emulated, threads: 2}}\n",
    ["groups.a.threads: goes only with kind onnx; was 2 with emulated"],
  ],
  ["acting in words", withGroup("{act: yes please}"), ["groups.a.autoscale.act: must be true or false"]],
  ["a misspelt key of a group's autoscaling", withGroup("{acts: true}"), ["groups.a.autoscale.acts: unknown key"]],
  ["a group scaled to nothing", withGroup("{min: 0}"), ["groups.a.autoscale.min: must be at least 1; was 0"]],
  [
    "a group's largest below its least",
    withGroup("{min: 3, max: 2}"),
    ["groups.a.autoscale.max: must be at least min (3); was 2"],
  ],
  [
    "a group that starts below its least",
    withGroup("{act: true, min: 3}"),
    ["groups.a.autoscale.min: must be at most count (2); was 3"],
  ],
  [
    "a group that starts above its largest",
    withGroup("{act: true, max: 1}"),
    ["groups.a.autoscale.max: must be at least count (2); was 1"],
  ],
  [
    "a group that could grow without end",
    withGroup("{act: true, max: 5000}"),
    ["groups.a.autoscale.max: must be at most 4096 with act; was 5000"],
  ],
  [
    "scales of the start only, where the group may grow",
    "groups: {a: {kind: emulated, count: 2, scales: [1, 1], autoscale: {act: true, max: 3}}}\n",
    ["groups.a.scales: must have autoscale.max (3) entries; was 2"],
  ],
  [
    "more threads than the budget when the group has grown",
    "cpu_threads: 4\ngroups: {a: {count: 2, threads: 2, autoscale: {act: true, max: 3}}}\n",
    ["bad.yaml:1: cpu_threads: must be at least what the onnx groups need (6", "was 4"],
  ],
  [
    "decisions of a group without a pause",
    withGroup("{interval_s: 0.01}"),
    ["groups.a.autoscale.interval_s: must be at least 0.1; was 0.01"],
  ],
  [
    "a group's utilization of 1",
    withGroup("{target_utilization: 1}"),
    ["groups.a.autoscale.target_utilization: must be at most 0.99; was 1"],
  ],
  [
    "a group's bad rate in percent",
    withGroup("{bad_rate_max: 2}"),
    ["groups.a.autoscale.bad_rate_max: must be at most 0.5; was 2"],
  ],
  [
    "a group's negative cooldowns",
    withGroup("{up_cooldown_s: -1, down_cooldown_s: -2}"),
    [
      "groups.a.autoscale.up_cooldown_s: must be at least 0; was -1",
      "groups.a.autoscale.down_cooldown_s: must be at least 0; was -2",
    ],
  ],
  ["no warm time", withGroup("{keep_warm_s: 0}"), ["groups.a.autoscale.keep_warm_s: must be at least 1; was 0"]],
  [
    "more threads than the budget",
    "cpu_threads: 4\ngroups: {a: {count: 3, threads: 2}}\n",
    ["bad.yaml:1: cpu_threads: must be at least what the onnx groups need (6", "was 4"],
  ],
  [
    "placement on a group that is not there",
    "groups: {a: {kind: emulated}}\nplacement: {groups: [a, b]}\n",
    ['bad.yaml:2: placement.groups[1]: must be one of a; was "b"'],
  ],
  [
    "placement on one group twice",
    "groups: {a: {kind: emulated}}\nplacement: {groups: [a, a]}\n",
    ['placement.groups[1]: must be named once; was "a"'],
  ],
  [
    "placement on groups that differ",
    "groups: {a: {kind: emulated}, b: {kind: emulated, count: 3}}\nplacement: {groups: [a, b]}\n",
    [
      "placement.groups[1]: must be like a (kind emulated, count 1, threads 1); b has kind emulated, count 3, threads 1",
    ],
  ],
  [
    "placement on groups of two kinds",
    "groups: {a: {kind: emulated}, b: {threads: 1}}\nplacement: {groups: [a, b]}\n",
    ["placement.groups[1]: must be like a (kind emulated", "b has kind onnx"],
  ],
  ["placement on no group", "placement: {groups: []}\n", ["placement.groups: must be at least 1 long; was []"]],
  ["placement without groups", "placement: {epoch_s: 10}\n", ["placement.groups: is required"]],
  [
    "epochs without pause",
    "placement: {groups: [cpu], epoch_s: 0}\n",
    ["placement.epoch_s: must be at least 1; was 0"],
  ],
  [
    "moves without end",
    "placement: {groups: [cpu], moves_max: 1000}\n",
    ["placement.moves_max: must be at most 64; was 1000"],
  ],
  [
    "a bound of requests where accelerator time is made even",
    "placement: {groups: [cpu], rate_rps_max: 100}\n",
    ["placement.rate_rps_max: goes only with load: requests; was 100 with busy"],
  ],
  [
    "no memory",
    "placement: {groups: [cpu], memory_mb_max: 0}\n",
    ["placement.memory_mb_max: must be greater than 0; was 0"],
  ],
  [
    "a group named auto",
    "groups: {auto: {kind: emulated}}\n",
    ["groups.auto: must have another name: 'auto' leaves the group to placement"],
  ],
  ["an impatient hang factor", "workers: {hang_factor: 1}\n", ["workers.hang_factor: must be at least 2; was 1"]],
  ["an event log without a file", "event_log: {max_bytes: 100000}\n", ["event_log.file: is required: must be a text"]],
  ["an event log by name alone", "event_log: e.log\n", ['event_log: must be a mapping; was "e.log"']],
  ["no providers", "workers: {providers: []}\n", ["workers.providers: must be at least 1 long; was []"]],
  [
    "bytes in flight in words",
    "http: {in_flight_max_bytes: 1GB}\n",
    ['http.in_flight_max_bytes: must be a whole number; was "1GB"'],
  ],
  ["retries without end", "retry_max: 100\n", ["retry_max: must be at most 5; was 100"]],
  ["a sample above 1", "tracing: {sample: 2}\n", ["tracing.sample: must be at most 1; was 2"]],
  [
    "an endpoint that is no URL",
    "tracing: {otlp_endpoint: 'localhost:4318'}\n",
    ["tracing.otlp_endpoint: must be an http or https URL", '"localhost:4318"'],
  ],
  ["an unknown log level", "log: {level: verbose}\n", ["log.level: must be one of trace, debug, info", '"verbose"']],
  ["a negative drain", "drain_s: -5\n", ["drain_s: must be at least 0; was -5"]],
];

const TRACES: readonly Case[] = [
  ["empty", "", ["bad.csv: ", "must start with a line of column names"]],
  ["comments only", "# origin\n", ["column names"]],
  [
    "no rate column",
    "second,users\n0,1\n",
    ["bad.csv:1", "must have a column requests_per_second or rate_rps; has second, users"],
  ],
  ["no rows", "second,requests_per_second\n", ["must have at least one row"]],
  ["a row too short", "second,requests_per_second\n0,1\n1\n", ["bad.csv:3", "must have 2 columns; has 1"]],
  [
    "a rate in words",
    "second,requests_per_second\n0,many\n",
    ["bad.csv:2: requests_per_second: must be a number in [0, 1000000000]", '"many"'],
  ],
  [
    "a negative rate",
    "# c\nsecond,requests_per_second\n0,1\n1,-2\n",
    ["bad.csv:4: requests_per_second: must be a number in [0,", '"-2"'],
  ],
  ["an empty cell", "second,requests_per_second\n0,\n", ["bad.csv:2: requests_per_second", '""']],
  [
    "seconds that go back",
    "second,requests_per_second\n0,1\n2,1\n1,1\n",
    ["bad.csv:4: second: must be greater than the row before (2); was 1"],
  ],
  [
    "no load at all",
    "second,requests_per_second\n0,0\n1,0\n",
    ["requests_per_second: must be above 0 in some row; was 0 in all"],
  ],
];

const REPLAYS: readonly Case[] = [
  ["no model column", "at_us,name\n0,a\n", ["bad.csv:1", "must have a column model; has at_us, name"]],
  ["no requests", "at_us,model\n", ["must have at least one request"]],
  ["half a microsecond", "at_us,model\n0.5,a\n", ["bad.csv:2: at_us: must be a whole number of microseconds; was 0.5"]],
  [
    "time that goes back",
    "at_us,model\n5,a\n4,a\n",
    ["bad.csv:3: at_us: must not be less than the row before (5); was 4"],
  ],
  ["a nameless model", "at_us,model\n5,\n", ["bad.csv:2: model: must name a model; was empty"]],
  ["a time before the start", "at_us,model\n-5,a\n", ["bad.csv:2: at_us: must be a number in [0,", '"-5"']],
];

function table(name: string, file: string, cases: readonly Case[], read: (text: string) => unknown): void {
  describe(name, () => {
    it.each(cases)("%s", (_what, text, says) => {
      const message = refusal(() => read(text));
      for (const part of [file, ...says]) expect(message).toContain(part);
    });
  });
}

const machine = { cpus: 4, folder: "." };
table("bad scenarios", "bad.yaml", SCENARIOS, (text) => loadScenarioFrom(parseSource(text, "bad.yaml")));
table("bad server configurations", "bad.yaml", SERVERS, (text) =>
  serverConfigFrom(parseSource(text, "bad.yaml"), ".", machine),
);
table("bad traces", "bad.csv", TRACES, (text) => parseRateTrace(text, "bad.csv"));
table("bad replays", "bad.csv", REPLAYS, (text) => parseReplay(text, "bad.csv"));

describe("bad input", () => {
  it("the scenario that the cases spoil is itself accepted", () => {
    expect(loadScenarioFrom(parseSource(GOOD, "good.yaml")).models).toHaveLength(1);
  });
  it("only the first error of syntax is told: what a parser says after it is guesswork", () => {
    const prose = "# Rubato\n\nServes: networks [on time\n\n- `a`: b\n```sh\ncurl: {\n";
    expect(refusal(() => parseSource(prose, "bad.yaml")).split("\n")).toHaveLength(1);
    expect(refusal(() => parseSource("a: 1\na: 2\nb: 1\nb: 2\n", "bad.yaml")).split("\n")).toHaveLength(2);
  });
  it("a mapping that may have two forms is held against the one that its misspelt keys come from", () => {
    const text = withModel("{name: a, profile: {alpha: 1, beta: 5}, slo_ms: 25}");
    const said = refusal(() => loadScenarioFrom(parseSource(text, "bad.yaml")));
    expect(said).toContain("profile.alpha: unknown key; did you mean alpha_ms?");
    expect(said).not.toContain("table_ms: is required");
  });
  it("JSON is held to JSON, with the line of the error", () => {
    expect(refusal(() => parseSource('{\n  "accelerators": 2,\n}', "bad.json"))).toMatch(
      /bad\.json(:\d+)?: must be JSON/,
    );
    expect(refusal(() => parseSource("accelerators: 2", "bad.json"))).toContain("must be JSON");
  });
  it("lists every problem of a file, in the order of its lines", () => {
    const text = `seed: -1\n${GOOD.replace("rate_rps: 100", "rate_rps: 0")}warmup_s: -3\n`;
    const lines = refusal(() => loadScenarioFrom(parseSource(text, "bad.yaml"))).split("\n");
    expect(lines.map((line) => line.split(": ")[1])).toEqual(["seed", "arrivals.rate_rps", "warmup_s"]);
  });
  it("cuts long values and long lists of problems", () => {
    const keys = Array.from({ length: 50 }, (_, i) => `zz${i}zz: 1`).join("\n");
    const message = refusal(() =>
      loadScenarioFrom(parseSource(`${GOOD}${keys}\npolicy: "${"x".repeat(500)}"\n`, "bad.yaml")),
    );
    expect(message).toContain("and 31 more");
    expect(Math.max(...message.split("\n").map((line) => line.length))).toBeLessThan(300);
  });

  const readers = [
    ["scenario", (value: unknown) => loadScenarioFrom(sourceOf(value, "bad.yaml"))],
    ["server configuration", (value: unknown) => serverConfigFrom(sourceOf(value, "bad.yaml"), ".", machine)],
  ] as const;
  it.each(readers)("any value is a %s or a ConfigError, never another error", (_name, read) => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void acceptsOrRefuses(() => read(value))));
  });
  it("a good scenario with any one field replaced is accepted or refused by that field's name", () => {
    const fields = [
      "accelerators",
      "autoscale",
      "network",
      "models",
      "arrivals",
      "popularity",
      "faults",
      "policy",
      "policy_options",
      "seed",
      "duration_s",
      "warmup_s",
      "name",
    ];
    const good = parseSource(GOOD, "good.yaml").value as object;
    fc.assert(
      fc.property(fc.constantFrom(...fields), fc.jsonValue(), (field, value) => {
        const message = acceptsOrRefuses(() => loadScenarioFrom(sourceOf({ ...good, [field]: value }, "bad.yaml")));
        return message === null || message.includes(field);
      }),
    );
  });
});

/** The message of a ConfigError, null if all is well; any other error passes through and fails the test. */
function acceptsOrRefuses(run: () => unknown): string | null {
  try {
    run();
    return null;
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

it("a file without an end is not read to it", () => {
  expect(() => readText("/dev/zero", 100_000)).toThrow("/dev/zero: must be at most 100000 bytes; has more");
});
