// How a verdict is shown, everywhere the same: sign, word and colour, so never by colour alone.
import type { Mark } from "../wire.gen";

export interface MarkLook {
  sign: string;
  word: string;
  colour: "good" | "bad" | "unsure";
}

export const MARK_LOOKS: Record<Exclude<Mark, "none">, MarkLook> = {
  same: { sign: "✓", word: "same", colour: "good" },
  differs: { sign: "✗", word: "differs", colour: "bad" },
  not_comparable: { sign: "?", word: "not comparable", colour: "unsure" },
};

/** The look of a mark, or null where there is none. */
export function markLook(mark: unknown): MarkLook | null {
  return MARK_LOOKS[mark as Exclude<Mark, "none">] ?? null;
}
