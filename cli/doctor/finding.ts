/** How something was found: as it should be, worth knowing, or in the way of programs. */
export type Level = "ok" | "note" | "problem";

/** The finding about one part of the machine. */
export interface DoctorFinding {
  readonly level: Level;
  /** Its subject, in a word or two. */
  readonly topic: string;
  /** What was found. */
  readonly found: string;
  /** What to do, if there is something to do. */
  readonly advice?: string;
}

/** Makes a finding. */
export function finding(level: Level, topic: string, found: string, advice?: string): DoctorFinding {
  return { level, topic, found, ...advice === undefined ? {} : { advice } };
}

/** Makes a finding of an error's message, which says behind a semicolon what to do. */
export function fromMessage(level: Level, topic: string, message: string): DoctorFinding {
  const end = message.indexOf("; ");
  return end < 0
    ? finding(level, topic, message)
    : finding(level, topic, message.slice(0, end), message.slice(end + 2));
}
