/**
 * Property tests draw the same cases all day, on every machine, and others the next day: a run that failed can be run again, and one that
 * passed says of the next what it can. RUBATO_PROPERTY_SEED=<integer> draws others.
 */
import fc from "fast-check";

const day = Math.floor(Date.now() / 86_400_000);
fc.configureGlobal({ seed: Number(process.env.RUBATO_PROPERTY_SEED ?? day) });
