import { z } from "zod";

export const nameSchema = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, "must be letters, digits, . _ / - and start with a letter or digit");
