/**
 * The words that this project does not use, each with what to say instead. One word has one meaning here, and it is the
 * field's own word where there is one.
 *
 * A phrase must not be in prose: comments, strings, the names of tests, pages. An identifier must not be in code; it is
 * matched by the words in it, so that `"give back"` is found in `giveBack`, `#giveBackAll` and `_give_back`. Ordinary
 * words that only mislead as names are identifiers and not phrases. There are at most 60 entries: to add one to a full
 * list, remove one that nobody is tempted to write any longer.
 *
 * @module
 */

/** A word or phrase that is not used, and what to say instead. */
export interface Banned {
  /** What the report calls it. */
  readonly word: string;
  /** What matches it in prose, without regard to case; by default, the words themselves. */
  readonly pattern?: RegExp;
  readonly say: string;
}

/** What must not be in prose. */
export const phrases: readonly Banned[] = [
  { word: "give back", pattern: /(?:give|gives|gave|given|giving) back/, say: "return, release" },
  { word: "hand over", pattern: /hand(?:s|ed|ing)? over|hand(?:s|ed|ing)? back/, say: "pass, send" },
  { word: "take back", pattern: /takes? back|taken back|took back/, say: "reclaim, cancel; for threads: reconverge" },
  { word: "let go", pattern: /lets? go(?: of)?(?=[.,;:)]|$| of\b)|letting go/, say: "release" },
  { word: "parting", pattern: /partings?/, say: "divergence, divergence point" },
  { word: "come together", pattern: /comes? together again/, say: "reconverge" },
  { word: "lazy NaN", pattern: /lazy NaNs?/, say: "NaN canonicalization" },
  { word: "a text", pattern: /an? text(?! file| field| format)/, say: "a string, the text of" },
  {
    word: "what is no",
    pattern: /(?:what|that|which) (?:is|are) no(?! (?:more|longer|less|other|such|room|need|way|error)\b)/,
    say: "what is not a",
  },
  { word: "what it is that", pattern: /what it is that/, say: "the noun: the memory that ..." },
  { word: "somebody", pattern: /somebody|whoever/, say: "who it is: the caller, a client, a process, other code" },
  { word: "keeper", pattern: /keepers?/, say: "holder; backup; for a reason: refusal" },
  { word: "stranger", pattern: /strangers?/, say: "another process; pending handshake" },
  { word: "twin", pattern: /twins?/, say: "equivalent" },
  { word: "scene", pattern: /scenes?/, say: "fixture" },
  { word: "datum", pattern: /datum/, say: "export data" },
  { word: "first versions", pattern: /first versions/, say: "minimum versions" },
  { word: "loose memory", pattern: /loose (?:memory|pages?|blocks?)/, say: "unmerged, unpooled" },
  { word: "forgotten memory", pattern: /forgotten (?:memory|buffers?)/, say: "leaked" },
  { word: "unheard", pattern: /unheard|hears? of/, say: "without errors; is notified of" },
  { word: "spoiled", pattern: /spoil(?:s|ed)?/, say: "invalid" },
  { word: "suffer", pattern: /suffers?/, say: "is affected by" },
  { word: "mend", pattern: /mend(?:s|ed|ing)?/, say: "fix, repair" },
  { word: "by force", say: "abort" },
  { word: "in vain", say: "without effect" },
  { word: "not any more", say: "no longer" },
  { word: "get to know", pattern: /gets? to know/, say: "receive, learn" },
  { word: "what comes after", say: "later work, what is ordered after" },
  { word: "pack of threads", pattern: /packs? of threads|pack (?:shapes?|weights?|width)/, say: "gang" },
  {
    word: "those ...",
    pattern: /^(?:those|the others|the same)\b[^.`{]{0,24}\.$/,
    say: "a sentence that says what the thing is",
  },
  { word: "something to", pattern: /^something (?:to|that)\b/, say: "what it is: a change, a request" },
];

/** What must not be in code. */
export const identifiers: readonly Banned[] = [
  { word: "give back", say: "release, return" },
  { word: "hand over", say: "pass, send" },
  { word: "take back", say: "reclaim, reconverge" },
  { word: "go on", say: "resume, yield" },
  { word: "parting", say: "divergence" },
  { word: "keeper", say: "holder, backup" },
  { word: "stranger", say: "remote, pending" },
  { word: "twin", say: "equivalent" },
  { word: "scene", say: "fixture" },
  { word: "loose", say: "unmerged" },
  { word: "borrow", say: "take" },
  { word: "hopeless", say: "refused" },
  { word: "typist", say: "resolver" },
  { word: "departure", say: "suspendPoint" },
  { word: "worthwhile", say: "profitable" },
  { word: "quiet timer", say: "unreferencedTimer" },
  { word: "more of", say: "rare data of" },
  { word: "pack width", say: "gangWidth" },
  { word: "spoiled", say: "invalid" },
  { word: "look", say: "poll, peek, notify, find" },
  { word: "looked", say: "checked" },
  { word: "tell", say: "send, publish, notify" },
  { word: "told", say: "sent, published" },
  { word: "deed", say: "observedOperation" },
  { word: "unheard", say: "withoutErrors" },
  { word: "whole barriers", say: "uniformBarriers" },
  { word: "take room", say: "reserveSlots" },
  { word: "forgotten", say: "leaked, stale" },
];
