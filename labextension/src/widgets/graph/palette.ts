// Colours, signs and patterns of boxes. Each class has a sign beside its colour, so colour is never alone.
import type { LegendEntry } from "../../wire.gen";
import { contrast, css, mix, parseColour, type Rgb, type Theme } from "../theme";
import type { Paint } from "./scene";

interface Hue {
  light: Rgb;
  dark: Rgb;
}

/** Told apart also with the common colour vision deficiencies as far as nine can be; the sign does the rest. */
const HUES: Hue[] = [
  { light: [96, 110, 125], dark: [150, 165, 182] },
  { light: [0, 95, 170], dark: [100, 170, 240] },
  { light: [0, 115, 105], dark: [70, 195, 180] },
  { light: [165, 85, 0], dark: [240, 170, 80] },
  { light: [60, 125, 30], dark: [140, 205, 100] },
  { light: [125, 60, 150], dark: [205, 150, 230] },
  { light: [175, 30, 85], dark: [250, 130, 170] },
  { light: [120, 95, 20], dark: [215, 190, 95] },
  { light: [85, 85, 85], dark: [185, 185, 185] },
];

const SIGNS: Record<string, string> = {
  convolution: "∗",
  matmul: "×",
  normalisation: "μ",
  activation: "ƒ",
  elementwise: "±",
  reduction: "Σ",
  tensor: "▤",
  control: "⎇",
  other: "◦",
};

type Scale = "error" | "time";

/** Ends of the scales for errors and time. */
const SCALES: Record<Scale, Hue> = {
  error: { light: [190, 20, 20], dark: [255, 110, 95] },
  time: { light: [90, 40, 150], dark: [190, 140, 255] },
};

export interface BoxColours {
  fill: string;
  band: string;
  text: string;
  faint: string;
}

/** The scale of a way of colouring, or null where it has categories. */
export function scaleOf(by: string): Scale | null {
  if (by === "time") return "time";
  return by === "error" || by === "local" || by === "accumulated" ? "error" : null;
}

export const signOf = (opClass: string): string => SIGNS[opClass] ?? "◦";

export function hueOf(slot: number, theme: Theme): Rgb {
  const hue = HUES[slot % HUES.length] as Hue;
  return theme.dark ? hue.dark : hue.light;
}

export function scaleColour(by: Scale, level: number, theme: Theme): Rgb {
  const panel = parseColour(theme.panel) ?? [255, 255, 255];
  const end = theme.dark ? SCALES[by].dark : SCALES[by].light;
  return mix(end, panel, 0.05 + 0.95 * Math.max(0, Math.min(1, level)));
}

/** Black or white, whichever reads better on `ground`. */
function inkOn(ground: Rgb): string {
  const [black, white]: [Rgb, Rgb] = [
    [0, 0, 0],
    [255, 255, 255],
  ];
  return contrast(black, ground) >= contrast(white, ground) ? css(black) : css(white);
}

/** Remembers what it computed: there are few distinct colours and many boxes. */
export class Palette {
  readonly #known = new Map<string, BoxColours>();
  readonly #panel: Rgb;

  constructor(readonly theme: Theme) {
    this.#panel = parseColour(theme.panel) ?? (theme.dark ? [30, 30, 30] : [255, 255, 255]);
  }

  /** Colours of a box under a way of colouring. */
  box(paint: Paint, by: string): BoxColours {
    const scale = Number.isNaN(paint.level) ? null : scaleOf(by);
    const key = scale ? `${scale}${Math.round(paint.level * 32)}` : `s${paint.slot}`;
    const known = this.#known.get(key);
    if (known) return known;
    const made = scale ? this.#scaled(scale, Math.round(paint.level * 32) / 32) : this.#plain(paint.slot);
    this.#known.set(key, made);
    return made;
  }

  #scaled(by: Scale, level: number): BoxColours {
    const fill = scaleColour(by, level, this.theme);
    const ink = inkOn(fill);
    return { fill: css(fill), band: css(scaleColour(by, Math.max(level, 0.3), this.theme)), text: ink, faint: ink };
  }

  #plain(slot: number): BoxColours {
    if (slot < 0)
      return { fill: this.theme.panel, band: this.theme.line, text: this.theme.text, faint: this.theme.faint };
    const hue = hueOf(slot, this.theme);
    const fill = mix(hue, this.#panel, this.theme.dark ? 0.2 : 0.13);
    return { fill: css(fill), band: css(hue), text: this.theme.text, faint: this.theme.faint };
  }

  /** Ink for a sign on a band of colour. */
  inkOn(colour: string): string {
    return inkOn(parseColour(colour) ?? this.#panel);
  }

  swatch(entry: LegendEntry): string {
    return css(hueOf(entry.slot, this.theme));
  }
}
