/** The severity of a finding: as expected, worth noting, or a problem for programs. */
export type Level = "ok" | "note" | "problem";

/** The result of checking one part of the machine. */
export interface DoctorFinding {
  readonly level: Level;
  /** The checked part of the machine, in a word or two. */
  readonly topic: string;
  /** The observed state, in a phrase. */
  readonly found: string;
  /** The recommended action, if any. */
  readonly advice?: string;
}

/** Creates a finding. */
export function finding(level: Level, topic: string, found: string, advice?: string): DoctorFinding {
  return { level, topic, found, ...advice === undefined ? {} : { advice } };
}

/** Creates a finding from an error's message. The part after the first semicolon becomes the advice. */
export function fromMessage(level: Level, topic: string, message: string): DoctorFinding {
  const end = message.indexOf("; ");
  return end < 0
    ? finding(level, topic, message)
    : finding(level, topic, message.slice(0, end), message.slice(end + 2));
}
